/** Accounts with receivers of events, for tests. */
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import type {
  EventDelivery,
  EventDeliveryList,
  EventEndpoint,
  NewEventEndpoint,
  RouseEvent,
} from "../../sdk/contract/event.ts";
import type { NewAccount } from "../../sdk/contract/account.ts";
import type { Turn } from "../support/fake-program.ts";
import { API, edge, eventually, fake, freshName, hostUrl, secrets, type Fault } from "./client.ts";
import { TestedObject } from "./tested-object.ts";

export type Answer<T> = T & { error: Fault };

/** An account of its own with one receiver, and what its outbox does. */
export class TestOutbox extends TestedObject {
  readonly account: string;
  readonly #key: string;
  readonly receiver: string;

  private constructor(account: string, key: string) {
    super();
    this.account = account;
    this.#key = key;
    this.receiver = freshName();
  }

  static async make(settings: Record<string, unknown> = {}): Promise<TestOutbox> {
    const name = `o${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}`;
    const response = await edge(`${API}/v1/accounts`, {
      method: "POST",
      headers: { authorization: `Bearer ${secrets.apiKey}` },
      body: JSON.stringify({ name, plan: "unmetered", ...settings }),
    });
    if (response.status !== 200) throw new Error(`account: ${response.status} ${await response.text()}`);
    return new TestOutbox(name, (await response.json<NewAccount>()).key);
  }

  /** That of the account which hosts of tests store for. */
  static ofDefault(): TestOutbox {
    return new TestOutbox("default", secrets.apiKey);
  }

  override get stub(): DurableObjectStub {
    return env.OUTBOX.getByName(this.account);
  }

  sandboxStub(label: string): DurableObjectStub {
    return env.SANDBOX.getByName(`${this.account}/${label}`);
  }

  async ask<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; body: Answer<T> }> {
    const response = await edge(API + path, {
      method,
      headers: { authorization: `Bearer ${this.#key}`, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json<Answer<T>>() };
  }

  url(receiver = this.receiver): string {
    return `${hostUrl}/out/${receiver}/hook?token=of-the-receiver`;
  }

  async endpoint(input: Record<string, unknown> = {}): Promise<NewEventEndpoint & { secret: string }> {
    const { status, body } = await this.ask<NewEventEndpoint>("POST", "/v1/event-endpoints", {
      url: this.url(),
      ...input,
    });
    if (status !== 200) throw new Error(`endpoint: ${status} ${JSON.stringify(body)}`);
    return { ...body, secret: body.secret ?? "" };
  }

  async shown(id: string): Promise<EventEndpoint> {
    return (await this.ask<EventEndpoint>("GET", `/v1/event-endpoints/${id}`)).body;
  }

  async create(input: Record<string, unknown> = {}): Promise<{ id: string; name: string }> {
    const name = freshName();
    const { status, body } = await this.ask<{ id: string }>("POST", "/v1/sandboxes", { name, ...input });
    if (status !== 200) throw new Error(`create: ${status} ${JSON.stringify(body)}`);
    return { id: body.id, name };
  }

  verb(
    name: string,
    verb: string,
    body: unknown = {},
    headers: Record<string, string> = {},
  ): Promise<{ status: number; body: Answer<{ id: string }> }> {
    return this.ask("POST", `/v1/sandboxes/${name}:${verb}`, body, headers);
  }

  async events(sandbox: string, query = ""): Promise<RouseEvent[]> {
    return (await this.ask<{ data: RouseEvent[] }>("GET", `/v1/sandboxes/${sandbox}/events${query}`)).body.data;
  }

  async list(sandbox: string, query = ""): Promise<{ data: RouseEvent[]; nextAfter: number; hasMore: boolean }> {
    return (
      await this.ask<{ data: RouseEvent[]; nextAfter: number; hasMore: boolean }>(
        "GET",
        `/v1/sandboxes/${sandbox}/events${query}`,
      )
    ).body;
  }

  turns(...turns: Turn[]): Promise<void> {
    return fake.turns(this.receiver, ...turns);
  }

  /** What the receiver saw, each try. */
  async taken(receiver = this.receiver): Promise<(RouseEvent & { headers: Record<string, string>; text: string })[]> {
    return (await fake.taken(receiver)).map(({ headers, base64 }) => {
      const text = Buffer.from(base64, "base64").toString();
      return { ...(JSON.parse(text) as RouseEvent), headers, text };
    });
  }

  /** What the receiver saw of a sandbox, once there is so much of it. */
  async seen(count: number, subject?: string, receiver = this.receiver) {
    return eventually(
      async () => (await this.taken(receiver)).filter((one) => subject === undefined || one.subject === subject),
      (all) => all.length >= count,
    );
  }

  async deliveries(id: string, query = ""): Promise<EventDelivery[]> {
    const path = `/v1/event-endpoints/${id}/deliveries?limit=100${query}`;
    return (await this.ask<EventDeliveryList>("GET", path)).body.data;
  }

  /** The deliveries of an endpoint, once they are as wanted. */
  until(id: string, holds: (all: EventDelivery[]) => boolean): Promise<EventDelivery[]> {
    return eventually(() => this.deliveries(id), holds);
  }

  /** The clock goes on to when a delivery is tried next. false: none has a time ahead of it. */
  async next(id: string): Promise<boolean> {
    // Those that wait for an earlier one have been due for long.
    const times = (await this.deliveries(id)).map(({ nextAttemptAt }) => Date.parse(nextAttemptAt ?? ""));
    const ahead = times.filter((time) => time > Date.now());
    if (ahead.length > 0) await this.pass(Math.min(...ahead) - Date.now() + 1);
    return ahead.length > 0;
  }
}

/** The signature of Standard Webhooks, worked out apart from the product. */
export function signatureOf(secret: string, id: string, at: string, body: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64")}`;
}

export const typesOf = (events: readonly { type: string; sequence: number }[]): string[] =>
  events.map(({ type, sequence }) => `${sequence} ${type}`);
