/** What tests of Runtime's client begin with: an edge, that client, and its faults. */
import { afterAll, beforeAll } from "vitest";
import { RuntimeClient, WireError, type Json } from "../support/runtime-client.ts";
import { freshName, TestEdge } from "./test-edge.ts";

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface Stage {
  edge: TestEdge;
  runtime: RuntimeClient;
}

/** An edge of the file's own. @param agentPort of the guest agent that all machines have */
export function stage(agentPort?: () => Promise<number>): Stage {
  const made = {} as Stage;
  let begun: TestEdge | undefined;
  beforeAll(async () => {
    begun = await TestEdge.begin("miniflare", {}, await agentPort?.());
    made.edge = begun;
    made.runtime = new RuntimeClient(originOf(made.edge), made.edge.apiKey);
  }, 300_000);
  afterAll(() => begun?.end());
  return made;
}

export const originOf = ({ port }: TestEdge): string => `http://127.0.0.1:${port}`;

/** The error that a call was answered with. */
export async function fault(asked: Promise<unknown>): Promise<WireError> {
  let answer: unknown;
  try {
    answer = await asked;
  } catch (thrown) {
    if (thrown instanceof WireError) return thrown;
    throw thrown;
  }
  throw new Error(`it went well: ${JSON.stringify(answer)}`);
}

export const codeOf = async (asked: Promise<unknown>): Promise<string> => (await fault(asked)).code;

/** What the host of a sandbox was asked to do. */
export const logOf = async ({ edge }: Stage, name: string): Promise<string[]> =>
  (await edge.fake<{ log: string[] }>("state", name)).log;

export async function created(
  { runtime }: Stage,
  input: Json = {},
): Promise<{ id: string; name: string; sandbox: Json }> {
  const name = freshName();
  const sandbox = await runtime.create({ name, idlePauseSeconds: 0, ...input });
  return { id: String(sandbox["id"]), name, sandbox };
}

export async function collect(from: AsyncIterable<Json>): Promise<Json[]> {
  const all: Json[] = [];
  for await (const one of from) all.push(one);
  return all;
}
