/** A sandbox that a kill point plays on: what it was told to keep, on disk and in RAM, and what it said of itself. */
import type { CreateInput, Sandbox } from "rouse";
import { Ledger } from "./ledger.ts";
import type { World } from "./world.ts";

const CALL_MS = 20_000;

/** Whether its machine may have been lost: then only what was synced need be there. */
export type Crash = "no" | "maybe" | "yes";

export class Witness {
  readonly world: World;
  readonly label: string;
  readonly id: string;
  /** Retries as every user's client does. */
  readonly patient: Sandbox;
  readonly lines = new Ledger();
  readonly ram = new Ledger();
  /** What is another one after a boot; null until it was asked. */
  life: string | null = null;
  crash: Crash = "no";
  /** Nothing is left of it when the point ends: it was deleted, or its time was up. */
  gone = false;
  /** It ended in order: its disk holds everything, its RAM is given up. */
  stopped = false;
  generation = 0;
  /** TCP ports that its machine listened on. */
  readonly ports = new Set<number>();
  readonly #bornAt: number;
  #asleepSince: number | null = null;
  #asleepMs = 0;
  #numbersLost = false;

  /** @param bornAt monotonic milliseconds, from before its creation was asked for */
  constructor(world: World, patient: Sandbox, bornAt: number) {
    this.world = world;
    this.patient = patient;
    this.id = patient.id;
    this.label = patient.info.label;
    this.#bornAt = bornAt;
  }

  static async create(world: World, label: string, input: CreateInput = {}): Promise<Witness> {
    const bornAt = performance.now();
    const sandbox = await world.patient.sandboxes.create({ name: label, idlePauseSeconds: 0, ...input });
    const witness = new Witness(world, sandbox, bornAt);
    await witness.begin();
    return witness;
  }

  /** A command that may end what carries it: it is sent once, and not again when no answer comes. */
  async once(command: string): Promise<void> {
    const direct = await this.world.direct.sandboxes.get(this.id);
    await direct.exec(command, { timeoutMs: 10_000 });
  }

  get wallMs(): number {
    return performance.now() - this.#bornAt;
  }

  /** What it can have been awake at most. */
  get awakeMs(): number {
    const asleep = this.#asleepSince === null ? 0 : performance.now() - this.#asleepSince;
    return this.wallMs - this.#asleepMs - asleep;
  }

  get remembers(): boolean {
    return this.world.driver === "qemu";
  }

  /** Start what lives in RAM. */
  async begin(): Promise<void> {
    this.life = await this.lifeNow();
    if (!this.remembers) return;
    const set = await this.patient.interpreter.run("numbers = []", { timeoutMs: CALL_MS });
    if (set.status !== "ok") throw new Error(`the interpreter of ${this.label} does not work: ${set.status}`);
  }

  async lifeNow(): Promise<string> {
    // Without virtualisation a machine is its guest agent, which runs every command.
    const command = this.remembers ? "cat /proc/sys/kernel/random/boot_id" : "echo $PPID";
    return (await this.patient.exec(command, { check: true, timeoutMs: CALL_MS })).stdout.trim();
  }

  /** Lines on disk and numbers in RAM, each acknowledged; the first lines are synced too. */
  async work(): Promise<void> {
    for (let i = 0; i < 2; i++) await this.line();
    const mark = this.lines.mark();
    await this.patient.exec("sync", { check: true, timeoutMs: CALL_MS });
    this.lines.durable(mark);
    await this.line();
    for (let i = 0; i < 2; i++) await this.number();
  }

  /** @param command what is done before the line is there */
  async line(command = ":"): Promise<void> {
    const n = this.lines.begin();
    const done = await this.patient.exec(`${command}; echo ${n} >> lines.txt`, { timeoutMs: CALL_MS });
    if (done.exitCode === 0) this.lines.acknowledge(n);
    else throw new Error(`appending a line ended with ${done.exitCode}: ${done.stderr}`);
  }

  async number(): Promise<void> {
    if (!this.remembers) return;
    const n = this.ram.begin();
    const done = await this.patient.interpreter.run(`numbers.append(${n})`, { timeoutMs: CALL_MS });
    if (done.status === "ok") this.ram.acknowledge(n);
  }

  /** The interpreter was lost with its parent; what it held is not asked for any more. */
  forgetNumbers(): void {
    this.#numbersLost = true;
  }

  get hasNumbers(): boolean {
    return this.remembers && !this.#numbersLost;
  }

  async pause(): Promise<void> {
    await this.patient.pause();
    this.asleep();
  }

  /** It is known to sleep from here on: no memory is used until `waking`. */
  asleep(): void {
    this.#asleepSince ??= performance.now();
  }

  /** Before anything that may wake it. */
  waking(): void {
    if (this.#asleepSince === null) return;
    this.#asleepMs += performance.now() - this.#asleepSince;
    this.#asleepSince = null;
  }

  async wake(): Promise<void> {
    this.waking();
    await this.patient.wake();
  }
}
