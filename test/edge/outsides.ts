/** Sandboxes with rules and secrets, and what their hosts were told of them, for tests. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import type { EgressReport } from "../../sdk/contract/egress.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import type { Network } from "../../sdk/contract/network-settings.ts";
import type { StoredSecret } from "../../sdk/contract/secret.ts";
import type { ToldOutside } from "../support/fake-outside.ts";
import { API, ask, created, edge, eventually, fake, type Fault } from "./client.ts";
import { roots } from "./secrets.ts";
import { TestedObject } from "./tested-object.ts";

export type Answer<T> = T & { error: Fault };

/** A sandbox of the default account, as its host sees it. */
export class TestOutside extends TestedObject {
  readonly name: string;
  readonly id: string;

  private constructor(name: string, id: string) {
    super();
    this.name = name;
    this.id = id;
  }

  static async make(input: Record<string, unknown> = {}): Promise<TestOutside> {
    const { name, id } = await created(input);
    return new TestOutside(name, id);
  }

  override get stub(): DurableObjectStub {
    return env.SANDBOX.getByName(`default/${this.name}`);
  }

  async network(): Promise<Network> {
    return (await ask<Network>("GET", `/v1/sandboxes/${this.id}/network`)).body;
  }

  async set(input: Record<string, unknown>): Promise<Answer<Network>> {
    return (await ask<Answer<Network>>("PUT", `/v1/sandboxes/${this.id}/network`, input)).body;
  }

  async putSecret(name: string, input: Record<string, unknown>): Promise<Answer<StoredSecret>> {
    return (await ask<Answer<StoredSecret>>("PUT", `/v1/sandboxes/${this.id}/secrets/${name}`, input)).body;
  }

  told(): Promise<ToldOutside[]> {
    return fake.outside(this.name);
  }

  /** The newest of what its host was told. */
  async last(): Promise<ToldOutside> {
    const newest = (await this.told()).at(-1);
    if (!newest) throw new Error("its host was told nothing");
    return newest;
  }

  /** When what its host was told last is as wanted. */
  until(holds: (told: ToldOutside) => boolean): Promise<ToldOutside> {
    return eventually(() => this.last(), holds);
  }

  async act(verb: string): Promise<number> {
    return (await ask("POST", `/v1/sandboxes/${this.id}:${verb}`, {})).status;
  }

  async update(input: Record<string, unknown>): Promise<number> {
    return (await ask("POST", `/v1/sandboxes/${this.id}:update`, input)).status;
  }

  report(report: Partial<EgressReport>, hostId = "fake-1"): Promise<Response> {
    const whole = { generation: 1, bytesOut: 0, bytesIn: 0, refusals: [], secretUses: [], ...report };
    return asHost("POST", `${this.id}/egress-report`, hostId, whole);
  }

  async lost(generation: number, hostId = "fake-1"): Promise<ToldOutside["egress"]> {
    const answer = await asHost("GET", `${this.id}/egress?generation=${generation}`, hostId);
    return (await answer.json<{ egress: ToldOutside["egress"] }>()).egress;
  }
}

async function asHost(method: string, rest: string, hostId: string, body?: object): Promise<Response> {
  return edge(`${API}/internal/accounts/default/machines/${rest}`, {
    method,
    headers: { authorization: `Bearer ${await hostKey(roots.host, hostId, FIRST_EPOCH)}` },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
}

/** The object of an account's secrets. */
export class TestSecrets extends TestedObject {
  readonly account: string;

  constructor(account = "default") {
    super();
    this.account = account;
  }

  override get stub(): DurableObjectStub {
    return env.SECRETS.getByName(this.account);
  }
}

/** A secret's name that no other test uses. */
export function freshSecret(): string {
  return `s-${crypto.randomUUID().slice(0, 12)}`;
}

/** Both alarms, twice each, and objects that begin anew. */
export async function settled(...objects: TestedObject[]): Promise<void> {
  for (const { stub } of objects) {
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
    await evictDurableObject(stub);
  }
}
