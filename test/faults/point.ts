/** What a kill point is, and what it is played with. */
import { setTimeout as delay } from "node:timers/promises";
import { RouseError, type CreateInput, type Sandbox } from "rouse";
import { isErrorCode } from "../../sdk/contract/error-codes.ts";
import type { Random } from "./random.ts";
import { Witness } from "./witness.ts";
import type { Driver, World } from "./world.ts";

/**
 * The system it is played on, which all points of that place share: real machines; fakes; real ones whose files are on a
 * small disk; real ones with all of the system's state there.
 */
export type Place = Driver | "small disk" | "small state";

export interface Point {
  /** Theme, and what is done to it: `wake/host-killed-before-answer`. */
  readonly name: string;
  readonly place: Place;
  /** `--quick` leaves it out: it takes long, or is close to another. */
  readonly thorough?: true;
  /** For what takes its time: done when the lane begins, and `play` when all others are through. */
  begin?(stage: Stage): Promise<void>;
  play(stage: Stage): Promise<void>;
}

/** It can't be played on this machine. */
export class Skipped extends Error {}

/** Longest that a fault may take to be over, milliseconds. */
const RECOVERY_MS = 40_000;
const POLL_MS = 100;

export class Stage {
  readonly world: World;
  readonly random: Random;
  /** A label that nothing else has. */
  readonly label: string;
  readonly witnesses: Witness[] = [];
  readonly faults: string[] = [];
  /** What was killed, and when. */
  readonly struck: string[] = [];

  constructor(world: World, random: Random, label: string) {
    this.world = world;
    this.random = random;
    this.label = label;
  }

  /** Say what was done to the system. */
  note(text: string): void {
    this.struck.push(text);
  }

  complain(text: string): void {
    this.faults.push(text);
  }

  expect(holds: boolean, text: string): void {
    if (!holds) this.complain(text);
  }

  skip(reason: string): never {
    throw new Skipped(reason);
  }

  /** A running sandbox that has something to lose, and is judged when the point ends. It may have seen other points. */
  async witness(): Promise<Witness> {
    const standing = this.world.standing.pop();
    if (!standing) return this.create({}, this.witnesses.length === 0 ? this.label : `${this.label}-b`);
    this.witnesses.push(standing);
    await standing.work();
    return standing;
  }

  /** A new one. */
  async create(input: CreateInput = {}, label = this.label): Promise<Witness> {
    const witness = await Witness.create(this.world, label, input);
    this.witnesses.push(witness);
    await witness.work();
    return witness;
  }

  /** Judge a sandbox that came about under faults. */
  async adopt(sandbox: Sandbox, bornAt: number): Promise<Witness> {
    const witness = new Witness(this.world, sandbox, bornAt);
    this.witnesses.push(witness);
    await witness.begin();
    await witness.work();
    return witness;
  }

  /** A moment of the seed's choice passes. */
  async moment(maxMs: number): Promise<number> {
    const ms = this.random.int(0, maxMs);
    await delay(ms);
    return ms;
  }

  /** A call into which a fault comes: it may fail, but only with an error of the registry. Answers the error's code. */
  async calm(call: Promise<unknown>): Promise<string | null> {
    try {
      await call;
      return null;
    } catch (fault) {
      if (!(fault instanceof RouseError)) throw fault;
      // The SDK's own words for no answer.
      if (!isErrorCode(fault.code) && fault.code !== "connection_error" && fault.code !== "timeout")
        this.complain(`a caller saw ${fault.code}, which is not in the registry: ${fault.message}`);
      if (fault.code === "internal_error") this.complain(`a caller saw internal_error: ${fault.message}`);
      return fault.code;
    }
  }

  /** Wait until it holds. Complains, and answers false, when it never does. */
  async until(what: string, holds: () => Promise<boolean> | boolean, limitMs = RECOVERY_MS): Promise<boolean> {
    const endsAt = performance.now() + limitMs;
    let last = "";
    for (;;) {
      try {
        if (await holds()) return true;
        last = "";
      } catch (fault) {
        last = `: ${fault instanceof Error ? fault.message : String(fault)}`;
      }
      if (performance.now() > endsAt) break;
      await delay(POLL_MS);
    }
    this.complain(`${what}: not within ${limitMs / 1000} s${last}`);
    return false;
  }

  /** What holds a label, running, however often it takes. */
  async revived(label = this.label): Promise<Sandbox> {
    let found: Sandbox | null = null;
    await this.until(`getOrCreate(${label}) answers a running sandbox`, async () => {
      found = await this.world.patient.sandboxes.getOrCreate(label, { idlePauseSeconds: 0 });
      return found.state === "running";
    });
    if (!found) throw new Error(`${label} can't be brought back`);
    return found;
  }

  /** Kill the host agent after a moment, leave it away for another, and start it again. */
  async killHost(during: string, withinMs: number, awayMs = 600): Promise<void> {
    const ms = await this.moment(withinMs);
    this.note(`host agent killed ${ms} ms into ${during}`);
    await this.world.killHost();
    await this.moment(awayMs);
    await this.world.startHost();
  }

  async killEdge(during: string, withinMs: number, awayMs = 600): Promise<void> {
    const ms = await this.moment(withinMs);
    this.note(`edge killed ${ms} ms into ${during}`);
    await this.world.killEdge();
    await this.moment(awayMs);
    await this.world.startEdge();
  }

  /** Kill every process that is the sandbox's machine; answers how many there were. */
  async killMachine(witness: Witness): Promise<number> {
    const pids = await this.world.machinesOf(witness.id);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    return pids.length;
  }
}
