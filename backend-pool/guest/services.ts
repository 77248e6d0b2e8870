/**
 * What the machine does at its start: a command after a boot, services in their order, a command after each wake. The
 * host says which (`PUT /services`); what was begun for a generation is not begun again, whoever of host agent and guest
 * agent dies meanwhile. What is known is in memory and on /run, which a boot empties.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Frozen, GuestBoot, HookResult, MachineBoot, TellServices } from "../../sdk/contract/boot.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { GOLDEN_ID } from "../../sdk/contract/guest-limits.ts";
import { begun, Hook, hookLives, speak } from "./boot-hooks.ts";
import { bootId } from "./facts.ts";
import { Fields } from "./fields.ts";
import { HandedOn } from "./handed-on.ts";
import { readJson, sendJson, type Call } from "./http.ts";
import type { Processes } from "./processes.ts";
import { compared } from "./restarts.ts";
import { Service, type Kept } from "./service.ts";
import type { ProcessId } from "./supervised.ts";

/** Longest wait of one read, ms. */
const WAIT_MS = 600_000;
const LOG_BYTES = 65_536;

/** How far a boot has come; `done` also in a machine that was never told of one. */
type Phase = "onBoot" | "services" | "done";

interface State {
  readonly id: string;
  readonly generation: number;
  readonly phase: Phase;
  readonly boot: MachineBoot;
  readonly env: Record<string, string>;
  readonly onBoot: HookResult | null;
  readonly onWake: HookResult | null;
  /** The command after the newest wake was not begun yet. */
  readonly wakeDue: boolean;
  readonly processes: { readonly onBoot: ProcessId | null; readonly onWake: ProcessId | null };
  readonly services: readonly Kept[];
}

const blank: State = {
  ...{ id: "", generation: 0, phase: "done", boot: { onBoot: null, onWake: null, services: [] }, env: {} },
  ...{ onBoot: null, onWake: null, wakeDue: false, processes: { onBoot: null, onWake: null }, services: [] },
};

type HookName = "onBoot" | "onWake";

export class Services {
  readonly #processes: Processes;
  readonly #folder: string;
  readonly #handedOn: HandedOn<State>;
  readonly #settled: () => Promise<void>;
  readonly #waiting = new Set<() => void>();
  #state: State = blank;
  #services: Service[] = [];
  #version = 1;
  #sequence: Promise<void> = Promise.resolve();
  #stopping: Promise<unknown> = Promise.resolve();

  /**
   * @param folder is kept when the agent ends, and emptied by a boot
   * @param settled after this a program may begin: many read once which certificates to trust
   */
  constructor(processes: Processes, folder: string, settled: () => Promise<void> = () => Promise.resolve()) {
    this.#processes = processes;
    this.#folder = join(folder, "services");
    this.#handedOn = new HandedOn(join(this.#folder, "state.json"));
    this.#settled = settled;
  }

  async put(call: Call): Promise<void> {
    const body = (await readJson(call)) as unknown as TellServices;
    const { id, generation, kind } = body;
    if (typeof id !== "string" || !Number.isInteger(generation) || (body.boot && !Array.isArray(body.boot.services)))
      throw new RouseFailure("invalid_request", "The request is not valid: id, generation or boot.");
    const boot = body.boot ?? (this.#state.id === "" ? undefined : this.#state.boot);
    if (!boot) throw new RouseFailure("conflict", "This machine was told of no services.");
    const isNew = id !== this.#state.id || generation !== this.#state.generation;
    const isFirst = this.#state.id === "";
    const env = { ...this.#processes.env };
    if (kind === "boot" && isNew) {
      // What an image's state runs already goes on, where it is wanted as it is.
      const old = this.#state.id === GOLDEN_ID ? [] : this.#services.splice(0);
      this.#stopping = Promise.all(old.map((service) => service.stop()));
      this.#keep({ ...blank, id, generation, boot, env, phase: "onBoot" });
    } else {
      const phase = isFirst ? "services" : this.#state.phase;
      const woke = kind === "wake" && isNew;
      const wakeDue = woke ? boot.onWake !== null : this.#state.wakeDue;
      this.#keep({ ...this.#state, id, generation, boot, env, phase, wakeDue });
      if (woke && !isFirst) void this.#speakAll("thaw");
    }
    this.#follow(boot);
    this.#go();
    sendJson(call, this.#report());
  }

  /** With `after`, once there is something newer, or the time is up. With `probe`, what is late is looked at first. */
  async read(call: Call): Promise<void> {
    const fields = new Fields(call.query);
    const after = fields.integer("after", 0, Number.MAX_SAFE_INTEGER) ?? 0;
    const waitMs = fields.integer("waitMs", 0, WAIT_MS) ?? 0;
    const probe = fields.flag("probe");
    fields.check();
    if (probe) await Promise.all(this.#services.map((service) => service.lookNow()));
    if (waitMs > 0 && this.#version <= after) await this.#change(call, waitMs);
    if (!call.res.destroyed) sendJson(call, this.#report());
  }

  async restart(call: Call, name: string): Promise<void> {
    await readJson(call);
    const service = this.#find(name);
    if (this.#state.phase === "onBoot")
      throw new RouseFailure("conflict", "Services start once the onBoot command has ended well.");
    await service.restart();
    sendJson(call, service.status);
  }

  logs(call: Call, name: string): void {
    const { log } = this.#find(name);
    const chunks = log.read(log.first, LOG_BYTES).map(({ stream, data }) => ({ stream, text: data }));
    sendJson(call, { name, chunks, truncated: log.first > 0 });
  }

  /** Before a pause. */
  async freeze(call: Call): Promise<void> {
    await readJson(call);
    sendJson(call, { results: await this.#speakAll("freeze") });
  }

  /** The pause did not come about. */
  async thaw(call: Call): Promise<void> {
    await readJson(call);
    sendJson(call, { results: await this.#speakAll("thaw") });
  }

  async #speakAll(what: "freeze" | "thaw"): Promise<Frozen["results"]> {
    const told = this.#services.map(async (service): Promise<Frozen["results"]> => {
      const { spec, log } = service;
      const hook = spec[what];
      if (!hook || !service.isLive) return [];
      const note = (fault: string) => log.append("stderr", Buffer.from(`rouse: ${what}: ${fault}\n`));
      const fault = await speak(hook, this.#processes, spec, note);
      const required = "required" in hook && hook.required === true;
      return [{ service: spec.name, ok: fault === null, required, message: fault?.slice(0, 2048) ?? "" }];
    });
    return (await Promise.all(told)).flat();
  }

  /** Make what there is the list. New ones are started by `#go`. */
  #follow(boot: MachineBoot): void {
    const { gone, changed, added } = compared(
      this.#services.map(({ spec }) => spec),
      boot.services,
    );
    const left = new Set([...gone, ...changed].map(({ name }) => name));
    const ended = this.#services.filter(({ spec }) => left.has(spec.name)).map((service) => service.stop());
    if (ended.length > 0) this.#stopping = Promise.all([this.#stopping, ...ended]);
    const have = new Map(this.#services.filter(({ spec }) => !left.has(spec.name)).map((one) => [one.spec.name, one]));
    const isNews = gone.length + changed.length + added.length > 0;
    this.#services = boot.services.map((spec) => {
      const known = have.get(spec.name);
      if (known) known.spec = spec;
      return known ?? this.#made(spec);
    });
    if (isNews && this.#state.phase === "done") this.#keep({ ...this.#state, phase: "services" });
    else if (isNews) this.#changed();
  }

  /** Do what is due, one after another. Called again it finds less to do. */
  #go(): void {
    this.#sequence = this.#sequence.then(() => this.#steps()).catch((fault: unknown) => console.error(fault));
    if (this.#state.wakeDue) void this.#wake().catch((fault: unknown) => console.error(fault));
  }

  async #wake(): Promise<void> {
    await this.#settled();
    if (this.#state.wakeDue) await this.#hook("onWake");
  }

  async #steps(): Promise<void> {
    await this.#stopping;
    if (this.#state.phase !== "done") await this.#settled();
    if (this.#state.phase === "onBoot") {
      const { id, generation } = this.#state;
      const result = this.#state.onBoot?.endedAt ? this.#state.onBoot : await this.#hook("onBoot");
      // Another boot was told of meanwhile.
      if (id !== this.#state.id || (generation !== this.#state.generation && this.#state.onBoot === null)) return;
      if (result !== null && result.exitCode !== 0) return;
      this.#keep({ ...this.#state, phase: "services" });
    }
    if (this.#state.phase !== "services") return;
    for (const service of this.#services) {
      if (service.status.state === "pending") service.start();
      await service.settled;
    }
    this.#keep({ ...this.#state, phase: "done" });
  }

  /** Run a command, or wait for the one that runs. null: there is none. */
  async #hook(name: HookName): Promise<HookResult | null> {
    const given = this.#state.boot[name];
    const isRunning = name === "onBoot" && this.#state.onBoot !== null;
    if (!given || isRunning) {
      if (name === "onWake" && this.#state.wakeDue) this.#keep({ ...this.#state, wakeDue: false });
      return this.#state[name];
    }
    const { generation } = this.#state;
    const wakeDue = name === "onWake" ? false : this.#state.wakeDue;
    // Noted before it begins: it is not begun twice.
    this.#keep({ ...this.#state, wakeDue, [name]: begun(generation) });
    return this.#await(name, Hook.start(this.#folder, name, given, this.#processes, generation));
  }

  async #await(name: HookName, hook: Hook): Promise<HookResult> {
    const { startedAt } = hook.result;
    this.#keep({
      ...this.#state,
      [name]: hook.result,
      processes: { ...this.#state.processes, [name]: hook.process },
    });
    const result = await hook.ended;
    // A newer one has its place.
    if (this.#state[name]?.startedAt === startedAt) this.#keep({ ...this.#state, [name]: result });
    return result;
  }

  /** Go on with what an agent before this one was at. */
  takeUp(): void {
    const left = this.#handedOn.read();
    if (left === null) return;
    this.#state = { ...blank, ...left };
    const { boot, env, services, processes } = this.#state;
    this.#processes.env = { ...env };
    const kept = new Map(services.map((one) => [one.name, one]));
    this.#services = boot.services.map((spec) => this.#made(spec));
    for (const service of this.#services) {
      const found = kept.get(service.spec.name);
      if (found) service.resume(found);
    }
    for (const name of ["onBoot", "onWake"] as const) {
      const result = this.#state[name];
      const given = boot[name];
      if (!result || result.endedAt !== null) continue;
      const id = processes[name];
      const hook = given && id && hookLives(id) ? Hook.adopt(this.#folder, name, given, id, result) : null;
      if (!hook) this.#keep({ ...this.#state, [name]: Hook.lost(this.#folder, name, result) });
      else {
        const over = this.#await(name, hook);
        if (name === "onBoot") this.#sequence = over.then(() => undefined);
      }
    }
    this.#go();
  }

  #made(spec: MachineBoot["services"][number]): Service {
    const around = { folder: this.#folder, processes: this.#processes, changed: () => this.#changed() };
    return new Service(spec, around);
  }

  #find(name: string): Service {
    const found = this.#services.find(({ spec }) => spec.name === name);
    if (found) return found;
    throw new RouseFailure("not_found", `There is no service ${name}.`, {
      details: { services: this.#services.map(({ spec }) => spec.name) },
    });
  }

  #report(): GuestBoot {
    const { generation, phase, boot, onBoot, onWake, wakeDue } = this.#state;
    const waking = boot.onWake?.blocking === true && (wakeDue || (onWake !== null && onWake.endedAt === null));
    const failed = onBoot !== null && onBoot.endedAt !== null && onBoot.exitCode !== 0;
    const booting = phase === "onBoot" && boot.onBoot !== null && !failed;
    return {
      ...{ bootId: bootId(), version: this.#version, generation, onBoot, onWake },
      waitsFor: booting ? "onBoot" : waking ? "onWake" : null,
      services: this.#services.map(({ status }) => status),
    };
  }

  #changed(): void {
    this.#keep(this.#state);
  }

  #keep(state: State): void {
    this.#state = { ...state, services: this.#services.map(({ kept }) => kept) };
    this.#version++;
    try {
      this.#handedOn.write(this.#state);
    } catch (fault) {
      // Of a state that is not the newest, an agent that comes after would make the wrong thing.
      rmSync(this.#handedOn.file, { force: true });
      console.error(fault);
    }
    for (const resolve of [...this.#waiting]) resolve();
  }

  #change(call: Call, waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, waitMs);
      this.#waiting.add(done);
      call.gone.addEventListener("abort", done);
    });
  }
}
