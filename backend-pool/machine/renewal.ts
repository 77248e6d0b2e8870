/**
 * The guest agent in a saved RAM is as old as that. One that is not this host's is replaced while its machine is idle,
 * before it sleeps again, so that a state of a year ago does not bring that year's faults back. Programs in the machine
 * notice nothing; while the agent holds something that would end with it, it stays.
 */
import { readFile } from "node:fs/promises";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { AgentRefusal, agentAnswers, agentFacts, renewAgent } from "./agent-client.ts";
import type { Driver, Woken } from "./driver.ts";
import type { Held } from "./held.ts";

/** A machine that is emulated and busy puts the programs in place, and starts an agent, in some seconds. Requests wait so long. */
const PUT_LIMIT_MS = 20_000;
const UP_LIMIT_MS = 40_000;

type Renewed = "current" | "renewed" | "held" | "failed";

interface Entry {
  readonly action: string;
  readonly id: string;
  readonly generation: number;
  readonly ms: number;
  readonly outcome: string;
}

export class AgentRenewal {
  readonly #driver: Driver;
  readonly #tell: (entry: Entry) => void;
  /** Runs that were looked at: each is once. */
  readonly #looked = new WeakSet<Woken>();
  readonly #underWay = new WeakSet<Held>();

  constructor(driver: Driver, tell: (entry: Entry) => void) {
    this.#driver = driver;
    this.#tell = tell;
  }

  /** Whether the machine's run was not looked at. */
  isDue({ run, frozen }: Held): boolean {
    return this.#driver.agent !== null && !this.#looked.has(run) && !frozen;
  }

  /** A machine whose agent is being replaced does not sleep. */
  isUnderWay(held: Held): boolean {
    return this.#underWay.has(held);
  }

  /** For an idle machine. Requests that come meanwhile wait. */
  async renew(held: Held): Promise<void> {
    this.#looked.add(held.run);
    this.#underWay.add(held);
    const { id, generation } = held.row;
    const began = performance.now();
    const outcome = await this.#renew(held);
    this.#underWay.delete(held);
    const ms = Math.round(performance.now() - began);
    if (outcome !== "current") this.#tell({ action: "renew", id, generation, ms, outcome });
  }

  async #renew(held: Held): Promise<Renewed> {
    const { agent } = this.#driver;
    if (!agent) return "current";
    const { run } = held;
    try {
      const at = await this.#driver.endpoint(held.row.id, AGENT_PORT);
      const { version, holds } = await agentFacts(at);
      if (version === agent.version) return "current";
      if (holds?.length !== 0) return "held";
      const up = Promise.withResolvers<undefined>();
      held.run = { ready: run.ready.then(() => up.promise) };
      held.run.ready.catch(() => undefined); // whoever waits is told
      this.#looked.add(held.run);
      try {
        await renewAgent(at, await readFile(agent.archive), PUT_LIMIT_MS);
        held.answered.clear();
        await this.#isUp(held, agent.version);
        return "renewed";
      } finally {
        up.resolve(undefined);
      }
    } catch (fault) {
      return fault instanceof AgentRefusal && fault.status === 409 ? "held" : "failed";
    }
  }

  async #isUp(held: Held, version: string): Promise<void> {
    const end = performance.now() + UP_LIMIT_MS;
    for (;;) {
      const at = await this.#driver.endpoint(held.row.id, AGENT_PORT);
      if ((await agentAnswers(at, end - performance.now())).version === version) return;
      // The one before, which is about to end, or is back because the newer one did not come up.
      if (performance.now() > end) throw new Error("the newer guest agent did not come up");
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}
