/** Homes of state as tests reach them: with a key, and as a host passes on what a machine asks. */
import { env } from "cloudflare:workers";
import { INSIDE_TICKET_HEADER } from "../../sdk/contract/egress.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { API, edge, fake, paused } from "./client.ts";
import { roots, secrets } from "./secrets.ts";
import { TestedObject } from "./tested-object.ts";

export interface Asked {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads whatever is said
  readonly body: any;
}

type Body = string | Uint8Array | ReadableStream | object | undefined;

/** Something that keeps state outside of its machine. */
export abstract class TestHome extends TestedObject {
  readonly name: string;
  readonly id: string;

  constructor(name: string, id: string) {
    super();
    this.name = name;
    this.id = id;
  }

  /** With a key. */
  async ask(method: string, path: string, body?: Body, headers: Record<string, string> = {}): Promise<Asked> {
    return read(await this.fetch(method, path, body, headers));
  }

  fetch(method: string, path: string, body?: Body, headers: Record<string, string> = {}): Promise<Response> {
    const sent = bytesOf(body);
    return edge(`${API}/v1/sandboxes/${this.name}${path}`, {
      method,
      headers: { authorization: `Bearer ${secrets.apiKey}`, ...headers },
      ...(sent === undefined ? {} : { body: sent }),
    });
  }

  /** As its machine, in that run. */
  async inside(method: string, path: string, body?: Body, generation = 1): Promise<Asked> {
    return read(await inside(method, path, await this.ticket(generation), body));
  }

  ticket(generation = 1, account = "default", secret: string = secrets.signingSecret): Promise<string> {
    return ticketOf({ account, id: this.id, label: this.name, generation }, secret);
  }

  /** Nothing of it woke the machine. */
  async wakes(): Promise<number> {
    return (await fake.state(this.name)).log.filter((line) => line.startsWith("wake")).length;
  }
}

export class TestState extends TestHome {
  static async make(): Promise<TestState> {
    const { name, id } = await paused();
    return new TestState(name, id);
  }

  override get stub(): DurableObjectStub {
    return env.STATE.getByName(`default/${this.id}`);
  }

  get database(): DurableObjectStub {
    return env.DATABASE.getByName(`default/${this.id}`);
  }

  sql(...statements: (string | { sql: string; params?: unknown[] })[]): Promise<Asked> {
    const all = statements.map((one) => (typeof one === "string" ? { sql: one } : one));
    return this.ask("POST", "/state/sql", { statements: all });
  }
}

export async function ticketOf(
  { account, id, label, generation }: { account: string; id: string; label: string; generation: number },
  secret: string = secrets.signingSecret,
): Promise<string> {
  const payload = { a: account, s: id, n: label, g: generation, e: Number.MAX_SAFE_INTEGER };
  return sign(await signingKey(secret, "inside"), payload);
}

/** As a host passes it on. */
export async function inside(
  method: string,
  path: string,
  ticket: string | null,
  body?: Body,
  key?: string,
): Promise<Response> {
  const headers: Record<string, string> = {
    authorization: `Bearer ${key ?? (await hostKey(roots.host, "fake-1", FIRST_EPOCH))}`,
    ...(ticket === null ? {} : { [INSIDE_TICKET_HEADER]: ticket }),
  };
  const sent = bytesOf(body);
  return edge(`${API}/internal/inside${path}`, { method, headers, ...(sent === undefined ? {} : { body: sent }) });
}

export async function read(response: Response): Promise<Asked> {
  const text = await response.text();
  let body: unknown = text;
  try {
    body = JSON.parse(text);
  } catch {
    // It is what it is.
  }
  return { status: response.status, headers: response.headers, body };
}

function bytesOf(body: Body): string | Uint8Array | ReadableStream | undefined {
  if (body === undefined || typeof body === "string") return body;
  return body instanceof Uint8Array || body instanceof ReadableStream ? body : JSON.stringify(body);
}
