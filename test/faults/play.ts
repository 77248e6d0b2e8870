/**
 * Random play: users at work while host agent, edge and machines are killed at random moments, and after each kill a
 * look at every promise of ARCHITECTURE.md. The seed fixes what is done and when; how long the system takes for it is
 * its own.
 */
import { setTimeout as delay } from "node:timers/promises";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { signalAll, sweep } from "../support/process-tree.ts";
import { checkProcesses, checkSubject } from "./checks.ts";
import { machineProcesses } from "./machine-processes.ts";
import { Random } from "./random.ts";
import type { Fault, Record } from "./record.ts";
import { Subject } from "./subject.ts";

export interface PlayOptions {
  readonly stateDir: string;
  readonly rounds: number;
  readonly minutes: number;
}

/** Play until the time is up, and end every process of it. What came of it is in the record. */
export async function playAtRandom(record: Record, options: PlayOptions): Promise<void> {
  try {
    const own = await launch({
      homeDir: defaultHome(),
      stateDir: options.stateDir,
      edgePort: 0,
      hostPort: 0,
      // Short, so that wakes begin from every depth.
      env: { ROUSE_RESIDENT_SECONDS: "2", ROUSE_PRESTARTED_SECONDS: "2" },
    });
    console.log(`playing on ${own.accelerator}`);
    await new Play(own, record, options).run();
  } catch (fault) {
    record.violation(`the run ended early: ${fault instanceof Error ? (fault.stack ?? fault.message) : String(fault)}`);
  } finally {
    await sweep("ROUSE_STATE", options.stateDir, options.stateDir);
  }
}

class Play {
  readonly #own: System;
  readonly #record: Record;
  readonly #options: PlayOptions;

  constructor(own: System, record: Record, options: PlayOptions) {
    this.#own = own;
    this.#record = record;
    this.#options = options;
  }

  async run(): Promise<void> {
    const record = this.#record;
    const own = this.#own;
    const { minutes, rounds, stateDir } = this.#options;
    const server = { url: own.url, apiKey: own.apiKey, accelerator: own.accelerator };
    const subjects = await Promise.all(["one", "two"].map((name) => Subject.create(`faults-${name}`, server, record)));
    const endsAt = Date.now() + minutes * 60_000;
    for (let round = 1; round <= rounds && Date.now() < endsAt; round++) {
      record.round = round;
      for (const subject of subjects) {
        subject.killedAt = null;
        subject.pausedThisRound = false;
      }
      const before = { calls: record.calls.length, violations: record.violations.length };
      const fault = await this.#round(subjects, new Random(`${record.seed}/${round}`));
      const usable = await Promise.all(subjects.map((subject) => checkSubject(subject, record)));
      await checkProcesses(stateDir, subjects, record);
      const found = record.violations.length - before.violations;
      const calls = record.calls.slice(before.calls);
      console.log(
        `${String(round).padStart(4)}  ${fault.kind.padEnd(5)} ${fault.target.padEnd(11)} ${fault.during.padEnd(9)} ` +
          `${calls.length} calls, ${calls.filter((call) => call.outcome !== "ok").length} failed  ${found === 0 ? "ok" : `${found} VIOLATIONS`}`,
      );
      if (usable.includes(false)) {
        console.log("the run ends here: a sandbox is not usable any more");
        return;
      }
    }
  }

  /** Users at work, a kill among it, and its end; at the return nothing is under way. */
  async #round(subjects: readonly Subject[], random: Random): Promise<Fault> {
    const record = this.#record;
    const stop = new AbortController();
    const actors = subjects.flatMap((subject) => {
      const actor = (name: string, act: (random: Random) => Promise<unknown>) =>
        repeat(subject, stop.signal, new Random(`${record.seed}/${record.round}/${subject.name}/${name}`), act);
      return [
        actor("work", (draws) => subject.work(draws)),
        actor("change", (draws) => subject.change(draws)),
        actor("visit", () => subject.visit()),
      ];
    });
    try {
      await delay(random.int(300, 2500));
      const target = subjects[random.int(0, subjects.length - 1)];
      if (!target) throw new Error("there is no sandbox");
      const fault = await this.#strike(target, random);
      await delay(random.int(300, 1500));
      return fault;
    } finally {
      stop.abort();
      await Promise.all(actors);
    }
  }

  /** Kill one thing at a moment of the seed's choice, and start again what does not come back by itself. */
  async #strike(target: Subject, random: Random): Promise<Fault> {
    const own = this.#own;
    const { stateDir } = this.#options;
    const kind = random.weighted({ host: 4, edge: 2, qemu: 4 });
    const during = random.weighted({ "any time": 3, pause: 3, wake: 4 });
    const downMs = random.int(0, 1500);
    let aimed: Promise<unknown> = Promise.resolve();
    if (during !== "any time") {
      target.held = true;
      while (target.busy) await delay(5);
      if (during === "wake") {
        await target.act("pause");
        // Long enough for other depths of sleep, and for a clock that is not set again to be seen.
        await delay(random.int(1200, 5000));
      } else {
        await target.act("wake");
      }
      aimed = target.act(during);
    }
    await delay(random.int(0, 80));
    let { name } = target;
    try {
      if (kind === "qemu") {
        let machine = (await machineProcesses(stateDir)).find((one) => one.id === target.id);
        if (!machine) {
          await aimed;
          await target.attempt("exec", () => target.direct.exec("true"));
          machine = (await machineProcesses(stateDir)).find((one) => one.id === target.id);
        }
        if (!machine) throw new Error(`${target.name} has no QEMU process`);
        target.killedAt = Date.now();
        // A sleeper's process may end by itself in this very moment.
        signalAll([{ pid: machine.pid, command: "" }], "SIGKILL");
        return this.#note({ kind, during, target: name, upAt: Date.now() });
      }
      name = kind === "host" ? "host agent" : "edge";
      const fault = this.#note({ kind, during, target: name, upAt: null });
      const part = kind === "host" ? own.host : own.edge;
      await part.kill();
      target.held = false;
      await delay(downMs);
      await part.start();
      fault.upAt = Date.now();
      return fault;
    } finally {
      target.held = false;
      await aimed;
    }
  }

  #note(fault: Omit<Fault, "round" | "killedAt">): Fault {
    const record = this.#record;
    const noted = { ...fault, round: record.round, killedAt: Date.now() };
    record.faults.push(noted);
    return noted;
  }
}

async function repeat(
  subject: Subject,
  signal: AbortSignal,
  random: Random,
  act: (random: Random) => Promise<unknown>,
): Promise<void> {
  while (!signal.aborted) {
    if (!subject.held) await act(random);
    await delay(random.int(5, 250));
  }
}
