/** How edge tests call the edge and steer the fake host. */
import { env, exports } from "cloudflare:workers";
import type { SavedState } from "../../sdk/contract/archive.ts";
import type { MachineBoot } from "../../sdk/contract/boot.ts";
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";
import type { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import type { DiffStates, Heartbeat } from "../../sdk/contract/host.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import type { FakeState, Plan } from "../support/fake-host.ts";
import type { Begun, CommandTurn } from "../support/fake-commands.ts";
import type { ToldOutside } from "../support/fake-outside.ts";
import type { Taken, Turn } from "../support/fake-program.ts";
import type { SocketOrders, SocketSeen } from "../support/fake-sockets.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import type { Operation } from "../../worker/api/operation.ts";
import { assertDocumented } from "../support/documented.ts";
import { roots, secrets } from "./secrets.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      HOST_URL: string;
      ROUSE_SEEDS: string;
    }
  }
}

export { secrets };
export const hostUrl: string = env.HOST_URL;
export const API = "http://api.test";

/** The object itself; `fetch` on it bypasses nothing. Each answer of the API is held against its document. */
export async function edge(request: Request | string, init?: RequestInit): Promise<Response> {
  const worker = exports as unknown as { default: { fetch(request: Request): Promise<Response> } };
  const asked = new Request(request, init);
  const response = await worker.default.fetch(asked);
  const { origin, pathname } = new URL(asked.url);
  const json = () => response.clone().json();
  const answer = {
    method: asked.method,
    pathname,
    status: response.status,
    type: response.headers.get("content-type"),
    json,
  };
  // What the guest of the fake host answers is not what a guest agent does: `test/guest` looks at that.
  const isFake = ({ work }: Operation) => work === "guest" && response.ok;
  if (origin === API) await assertDocumented(answer, isFake);
  return response;
}

export function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  return edge(API + path, {
    method,
    headers: { authorization: `Bearer ${secrets.apiKey}`, ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
}

/** Call and read the answer, whatever it is. */
export async function ask<T = Sandbox & { error: Fault }>(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; body: T }> {
  const response = await call(method, path, body, headers);
  return { status: response.status, body: await response.json<T>() };
}

export interface Fault {
  readonly code: ErrorCode;
  readonly status: number;
  readonly message: string;
  readonly hint: string;
  readonly details?: { readonly issues?: { path: string; message: string }[]; readonly sandboxId?: string };
  readonly requestId: string;
  readonly retryAfterMs?: number;
}

export async function faultOf(response: Response): Promise<Fault> {
  return (await response.json<{ error: Fault }>()).error;
}

let counter = 0;
/** A name no other test uses. */
export function freshName(): string {
  counter += 1;
  return `t${counter}-${crypto.randomUUID().slice(0, 8)}`;
}

export async function created(input: Record<string, unknown> = {}): Promise<Sandbox & { name: string }> {
  const name = freshName();
  const { status, body } = await ask("POST", "/v1/sandboxes", { name, ...input });
  if (status !== 200) throw new Error(`create: ${status} ${JSON.stringify(body)}`);
  return { ...body, name };
}

export async function paused(input: Record<string, unknown> = {}): Promise<Sandbox & { name: string }> {
  const sandbox = await created(input);
  const { status, body } = await ask("POST", `/v1/sandboxes/${sandbox.id}:pause`, {});
  if (status !== 200 || body.state !== "paused") throw new Error(`pause: ${status} ${JSON.stringify(body)}`);
  return { ...body, name: sandbox.name };
}

/** What a host says of itself. */
export function beatOf(hostId: string): Heartbeat {
  return {
    hostId,
    url: hostUrl,
    accelerator: "fake",
    acceleratorReason: "no machine is behind it \u2014 a test",
    qemuVersion: null,
    images: ["default"],
    vcpus: 8,
    memoryMiB: 65_536,
    freeMemoryMiB: 60_000,
    freeDiskMiB: 100_000,
    running: 0,
    paused: 0,
  };
}

export async function heartbeat(change: Partial<Heartbeat> = {}): Promise<Response> {
  const beat = { ...beatOf(change.hostId ?? "fake-1"), ...change };
  return edge(`${API}/internal/hosts/${beat.hostId}/heartbeat`, {
    method: "POST",
    headers: { authorization: `Bearer ${await hostKey(roots.host, beat.hostId, FIRST_EPOCH)}` },
    body: JSON.stringify(beat),
  });
}

export async function report(id: string, event: object, account = "default", hostId = "fake-1"): Promise<Response> {
  return edge(`${API}/internal/accounts/${account}/machines/${encodeURIComponent(id)}/events`, {
    method: "POST",
    headers: { authorization: `Bearer ${await hostKey(roots.host, hostId, FIRST_EPOCH)}` },
    body: JSON.stringify(event),
  });
}

/** A host moves the saved state of a machine, or a copy of one, off itself. */
export async function archive<T = { error: Fault }>(
  id: string,
  step: object,
  hostId = "fake-1",
): Promise<{ status: number; body: T }> {
  const kind = id.startsWith("snap-") ? "snapshots" : "machines";
  const response = await edge(`${API}/internal/accounts/default/${kind}/${encodeURIComponent(id)}/archive`, {
    method: "POST",
    headers: { authorization: `Bearer ${await hostKey(roots.host, hostId, FIRST_EPOCH)}` },
    body: JSON.stringify(step),
  });
  return { status: response.status, body: await response.json<T>() };
}

/** Steering of the fake host, for one label. */
export const fake = {
  state: (label: string) => steer("state", label),
  release: (label: string) => steer("release", label),
  crash: (label: string) => steer("crash", label),
  /** Its host puts it to sleep by itself. */
  sleep: (label: string) => steer("sleep", label),
  use: (label: string) => steer("use", label),
  /** What its guest says from now on when it goes to sleep. */
  async timer(label: string, timer: GuestTimer | null): Promise<void> {
    await fetch(`${hostUrl}/fake/timer?label=${label}`, { method: "POST", body: JSON.stringify(timer) });
  },
  away: (label: string, on: boolean) => steer("away", label, on ? "&on=1" : ""),
  /** Keys that it was told are over. */
  async revoked(): Promise<string[]> {
    return (await fetch(`${hostUrl}/fake/revoked`)).json<string[]>();
  },
  /** Stored states that its machines were made with. */
  async arrived(label: string): Promise<(SavedState & { id: string; diskOnly: boolean })[]> {
    return (await fetch(`${hostUrl}/fake/arrived?label=${label}`)).json();
  },
  /** What its hosts were asked to compare with that manifest. */
  async diffs(manifest: string): Promise<DiffStates[]> {
    return (await fetch(`${hostUrl}/fake/diffs?label=${manifest}`)).json();
  },
  async plan(plan: Plan): Promise<void> {
    await fetch(`${hostUrl}/fake/plan`, { method: "POST", body: JSON.stringify(plan) });
  },
  /** What the program below `/in` does with its next requests; after those it answers 200. */
  async turns(label: string, ...turns: Turn[]): Promise<void> {
    await fetch(`${hostUrl}/fake/turns?label=${label}`, { method: "POST", body: JSON.stringify(turns) });
  },
  /** What reached the program below `/in`. */
  async taken(label: string): Promise<Taken[]> {
    return (await fetch(`${hostUrl}/fake/taken?label=${label}`)).json<Taken[]>();
  },
  /** What its host was told of its variables and way out, in order. */
  async outside(label: string): Promise<ToldOutside[]> {
    return (await fetch(`${hostUrl}/fake/outside?label=${label}`)).json<ToldOutside[]>();
  },
  /** What the programs that speak WebSocket do from now on, or at once. */
  async orders(label: string, orders: SocketOrders): Promise<void> {
    await fetch(`${hostUrl}/fake/sockets?label=${label}`, { method: "POST", body: JSON.stringify(orders) });
  },
  /** Connections that reached them, the oldest first. */
  async sockets(label: string): Promise<SocketSeen[]> {
    return (await fetch(`${hostUrl}/fake/sockets?label=${label}`)).json<SocketSeen[]>();
  },
  /** What the next commands do; after those they write "ok" and exit with 0. */
  async commands(label: string, ...turns: CommandTurn[]): Promise<void> {
    await fetch(`${hostUrl}/fake/commands?label=${label}`, { method: "POST", body: JSON.stringify(turns) });
  },
  /** Commands that began. */
  async begun(label: string): Promise<Begun[]> {
    return (await fetch(`${hostUrl}/fake/commands?label=${label}`, { method: "POST" })).json<Begun[]>();
  },
  /** Those that run write, and end unless it says `runs`. */
  async end(label: string, turn: CommandTurn): Promise<void> {
    await fetch(`${hostUrl}/fake/end?label=${label}`, { method: "POST", body: JSON.stringify(turn) });
  },
  unlist: (label: string) => steer("unlist", label),
  /** What a machine was told to start with; null: nothing. */
  async boot(id: string): Promise<MachineBoot | null | undefined> {
    const response = await fetch(`${hostUrl}/fake/boot?label=${id.split("~")[0] ?? ""}`);
    return (await response.json<Record<string, MachineBoot | null>>())[id];
  },
  async settings(id: string): Promise<{ env: Record<string, string>; idlePauseSeconds: number } | undefined> {
    const label = id.split("~")[0] ?? "";
    const response = await fetch(`${hostUrl}/fake/env?label=${label}`);
    return (await response.json<Record<string, { env: Record<string, string>; idlePauseSeconds: number }>>())[id];
  },
};

async function steer(what: string, label: string, extra = ""): Promise<FakeState> {
  const response = await fetch(`${hostUrl}/fake/${what}?label=${label}${extra}`, { method: "POST" });
  return response.json<FakeState>();
}

/** Wait until the condition holds; fails after ten seconds. */
export async function eventually<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  // A test may have stopped the clock.
  const endsAt = performance.now() + 10_000;
  for (;;) {
    const value = await read();
    if (holds(value)) return value;
    if (performance.now() > endsAt) throw new Error(`it never came to hold; last: ${JSON.stringify(value)}`);
    await scheduler.wait(20);
  }
}
