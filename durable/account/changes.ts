/** Calls that are told which sandboxes of the account changed, or wait until one does. */
import type { SandboxChanges } from "../../sdk/contract/sandbox.ts";
import { Watchers } from "../watchers.ts";
import type { AccountStore } from "./store.ts";

/** Changes of one answer. */
const CHANGES_MAX = 200;

export class Changes {
  readonly #watchers = new Watchers();

  /** Some sandbox is something else now. */
  noted(): void {
    this.#watchers.changed("");
  }

  /** @param after null: from now on, and nobody waits who only asks where to begin */
  async after(
    store: AccountStore,
    after: number | null,
    namePrefix: string | null,
    waitMs: number,
  ): Promise<SandboxChanges> {
    const from = after ?? store.lastChange();
    const found = () => store.changesAfter(from, namePrefix, CHANGES_MAX + 1);
    if (after !== null) await this.#watchers.until("", () => found().length > 0, waitMs);
    const rows = found();
    const shown = rows.slice(0, CHANGES_MAX);
    const data = shown.map(({ label, sandbox }) => ({
      label,
      sandbox: sandbox && { ...sandbox, chargedMicros: store.purse.cost(sandbox.id)?.micros ?? 0 },
    }));
    return { data, nextAfter: shown.at(-1)?.change ?? from, hasMore: rows.length > shown.length };
  }
}
