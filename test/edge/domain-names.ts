/** Domains of sandboxes, and a resolver that says what tests tell it, for tests. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import type { Domain } from "../../sdk/contract/domain.ts";
import type { Zone, ZoneRecord } from "../support/test-resolver.ts";
import { ask, call, created, edge, eventually, fake, paused, secrets, type Fault } from "./client.ts";
import { openAccount } from "./accounts.ts";
import { shift } from "./volumes.ts";
import { TestedObject } from "./tested-object.ts";

export const key = { authorization: `Bearer ${secrets.apiKey}` };
export type Answer = Domain & { error: Fault };

let counter = 0;
/** A name that no other test uses. */
export function freshHostname(): string {
  counter += 1;
  return `d${counter}-${crypto.randomUUID().slice(0, 8)}.example.com`;
}

export const resolver = {
  async say(name: string, records: readonly ZoneRecord[], rest: Partial<Zone> = {}): Promise<void> {
    const zone: Zone = { name, records, ...rest };
    await fetch(resolverUrl("/zone"), { method: "POST", body: JSON.stringify(zone) });
  },
  /** What stands at the name of its TXT record. */
  texts(hostname: string, ...values: string[]): Promise<void> {
    return this.say(
      `_rouse-challenge.${hostname}`,
      values.map((value) => ({ type: "TXT", value })),
    );
  },
  fail(hostname: string, how: Partial<Zone>): Promise<void> {
    return this.say(`_rouse-challenge.${hostname}`, [], how);
  },
  async asked(hostname: string): Promise<number> {
    return Number(await (await fetch(resolverUrl(`/asked?name=_rouse-challenge.${hostname}`))).text());
  },
};

function resolverUrl(path: string): string {
  return new URL(path, env.ROUSE_DNS_URL).href;
}

/** A sandbox with a domain that is not verified yet. */
export class TestDomain extends TestedObject {
  readonly name: string;
  readonly id: string;
  readonly hostname: string;
  readonly account: string;
  readonly apiKey: string;
  domain: Domain;

  private constructor(of: Pick<TestDomain, "name" | "id" | "hostname" | "account" | "apiKey">, domain: Domain) {
    super();
    this.name = of.name;
    this.id = of.id;
    this.hostname = of.hostname;
    this.account = of.account;
    this.apiKey = of.apiKey;
    this.domain = domain;
  }

  static async make(
    input: Record<string, unknown> = {},
    { hostname = freshHostname(), asleep = false, port }: { hostname?: string; asleep?: boolean; port?: number } = {},
  ): Promise<TestDomain> {
    const { name, id } = await (asleep ? paused(input) : created(input));
    const of = { name, id, hostname, account: "default", apiKey: secrets.apiKey };
    return new TestDomain(of, await claimed(of, port));
  }

  /** The same host name, claimed by another account. */
  static async rival(hostname: string): Promise<TestDomain> {
    const account = await openAccount();
    const { body } = await account.as<Answer>("POST", "/v1/sandboxes", { name: "rival" });
    const of = { name: "rival", id: body.id, hostname, account: account.name, apiKey: account.key };
    return new TestDomain(of, await claimed(of));
  }

  override get stub(): DurableObjectStub {
    return env.DOMAINS.getByName(this.hostname);
  }

  get claims(): DurableObjectStub {
    return env.CLAIMS.getByName(this.account);
  }

  get proof(): string {
    return this.domain.records[0]?.value ?? "";
  }

  async ask<T = Answer>(method: string, rest = "", body?: unknown): Promise<{ status: number; body: T }> {
    const path = `/v1/sandboxes/${this.id}/domains/${this.hostname}${rest}`;
    return ask<T>(method, path, body, { authorization: `Bearer ${this.apiKey}` });
  }

  async read(): Promise<Answer> {
    return (await this.ask("GET")).body;
  }

  async verify(): Promise<Answer> {
    return (await this.ask("POST", ":verify", {})).body;
  }

  /** Its TXT record is set, and seen. */
  async proven(): Promise<this> {
    await resolver.texts(this.hostname, this.proof);
    const { state } = await this.verify();
    if (state !== "verified") throw new Error(`verify: ${state}`);
    return this;
  }

  visit(path = "/", init: RequestInit = { headers: { authorization: `Bearer ${this.apiKey}` } }): Promise<Response> {
    return edge(`http://${this.hostname}${path}`, { redirect: "manual", ...init });
  }

  /** Whether anything is stored under the host name. */
  async isEmpty(): Promise<boolean> {
    return runInDurableObject(this.stub, async (_object: object, { storage }) => {
      const tables = storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'claims'").toArray();
      return tables.length === 0 && (await storage.getAlarm()) === null;
    });
  }

  /** When requests for it are no business of a sandbox. */
  until(status: number): Promise<number> {
    return eventually(
      async () => {
        shift(11_000);
        const response = await this.visit();
        await response.body?.cancel();
        return response.status;
      },
      (seen) => seen === status,
    );
  }

  /** How often its machine was woken. */
  async wakes(): Promise<number> {
    return (await fake.state(this.name)).log.filter((line) => line.startsWith("wake")).length;
  }
}

async function claimed(of: Pick<TestDomain, "id" | "hostname" | "apiKey">, port?: number): Promise<Domain> {
  const path = `/v1/sandboxes/${of.id}/domains`;
  const input = { domain: of.hostname, ...(port === undefined ? {} : { port }) };
  const response = await call("POST", path, input, { authorization: `Bearer ${of.apiKey}` });
  if (response.status !== 200) throw new Error(`claim: ${response.status} ${await response.text()}`);
  return response.json<Domain>();
}
