/** Sandboxes with hooks, and senders of webhooks, for tests. */
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import type { HookEvent, HookEventList, NewHook } from "../../sdk/contract/hook.ts";
import { ask, call, created, edge, eventually, fake, paused, type Fault } from "./client.ts";
import { TestedObject } from "./tested-object.ts";

export type Answer<T> = T & { error: Fault };

export const nowSeconds = (): string => String(Math.floor(Date.now() / 1000));

/** The headers of a sender of Standard Webhooks. */
export function standard(secret: string, id: string, body: string, at = nowSeconds()): Record<string, string> {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": `v1,${signature}` };
}

/** A sandbox with a hook. */
export class TestInbox extends TestedObject {
  readonly name: string;
  readonly id: string;
  hook: NewHook;

  private constructor(name: string, id: string, hook: NewHook) {
    super();
    this.name = name;
    this.id = id;
    this.hook = hook;
  }

  override get stub(): DurableObjectStub {
    return env.INBOX.getByName(`default/${this.name}`);
  }

  /** @param input of the hook */
  static async make(input: Record<string, unknown> = {}, asleep = false): Promise<TestInbox> {
    const { name, id } = await (asleep ? paused() : created());
    return new TestInbox(name, id, await makeHook(name, input));
  }

  async add(input: Record<string, unknown> = {}): Promise<NewHook> {
    return makeHook(this.name, { name: crypto.randomUUID(), ...input });
  }

  /** Post to its hook as it is, signed by nobody. */
  post(
    body: string | Uint8Array | ReadableStream,
    headers: Record<string, string> = {},
    hook = this.hook,
  ): Promise<Response> {
    return edge(hook.url ?? "", { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
  }

  /** Post as a sender of Standard Webhooks. */
  send(id: string, body = `{"type":"test","n":${JSON.stringify(id)}}`, hook = this.hook): Promise<Response> {
    return this.post(body, standard(hook.secret ?? "", id, body), hook);
  }

  /** Send, and answer the id of the event. */
  async sent(id: string, body?: string, hook = this.hook): Promise<string> {
    const response = await this.send(id, body, hook);
    if (response.status !== 202) throw new Error(`send: ${response.status} ${await response.text()}`);
    return (await response.json<{ id: string }>()).id;
  }

  async event(id: string): Promise<HookEvent> {
    return (await ask<HookEvent>("GET", `/v1/sandboxes/${this.name}/hook-events/${id}`)).body;
  }

  async events(query = ""): Promise<HookEvent[]> {
    return (await ask<HookEventList>("GET", `/v1/sandboxes/${this.name}/hook-events?limit=100${query}`)).body.data;
  }

  /** When the event is as wanted. */
  until(id: string, holds: (event: HookEvent) => boolean): Promise<HookEvent> {
    return eventually(() => this.event(id), holds);
  }

  delivered(id: string): Promise<HookEvent> {
    return this.until(id, ({ state }) => state === "delivered");
  }

  /** It was tried that often, and nothing is under way. */
  tried(id: string, attempts: number): Promise<HookEvent> {
    return this.until(id, (event) => event.timeline.filter(({ what }) => what === "attempt").length === attempts);
  }

  /** What the program saw, by `webhook-id`, in order. */
  async taken(): Promise<string[]> {
    return (await fake.taken(this.name)).map(({ headers }) => headers["webhook-id"] ?? "");
  }

  /** How often its machine was woken. */
  async wakes(): Promise<number> {
    return (await fake.state(this.name)).log.filter((line) => line.startsWith("wake")).length;
  }

  async state(): Promise<string> {
    return (await ask("GET", `/v1/sandboxes/${this.name}`)).body.state;
  }

  url(rest = ""): string {
    return `/v1/sandboxes/${this.name}/hooks${rest}`;
  }
}

async function makeHook(name: string, input: Record<string, unknown>): Promise<NewHook> {
  const wanted = { name: "in", provider: "standard", port: 8080, path: "/in", ...input };
  const response = await call("POST", `/v1/sandboxes/${name}/hooks`, wanted);
  if (response.status !== 200) throw new Error(`hook: ${response.status} ${await response.text()}`);
  return response.json<NewHook>();
}
