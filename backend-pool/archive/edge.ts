/** What the edge says of saved states: permits, and what it takes note of. */
import type { z } from "zod";
import {
  ArchivePermit,
  ArchiveStored,
  BasePublished,
  SavedState,
  type ArchiveStep,
  type BaseStep,
} from "../../sdk/contract/archive.ts";
import { isSnapshotId, isVolumeCopyId } from "../../sdk/contract/names.ts";
import { ErrorBody, isErrorCode, RouseFailure } from "../../sdk/contract/errors.ts";

const LIMIT_MS = 15_000;

export class ArchiveEdge {
  readonly #url: string;
  readonly #hostKey: string;

  constructor(url: string, hostKey: string) {
    this.#url = url;
    this.#hostKey = hostKey;
  }

  /** @throws RouseFailure `conflict` and the like: the machine has moved on; `host_unavailable`: no answer, try again */
  begin(account: string, id: string, generation: number): Promise<ArchivePermit> {
    return this.#machine(account, id, { step: "begin", generation }, ArchivePermit);
  }

  async step(
    account: string,
    id: string,
    step: Exclude<ArchiveStep, { step: "begin" | "cold" }>,
  ): Promise<ArchiveStored> {
    return this.#machine(account, id, step, ArchiveStored);
  }

  async cold(account: string, id: string, generation: number): Promise<void> {
    await this.#call("POST", statePath(account, id), { step: "cold", generation });
  }

  /** null: it is published already. */
  async beginBase(golden: string): Promise<ArchivePermit | null> {
    const answer = await this.#call("POST", basePath(golden), { step: "begin" });
    return BasePublished.safeParse(answer).success ? null : ArchivePermit.parse(answer);
  }

  async baseStep(golden: string, step: Exclude<BaseStep, { step: "begin" }>): Promise<void> {
    await this.#call("POST", basePath(golden), step);
  }

  /** Where the golden state is stored; null when it is not. */
  async base(golden: string): Promise<SavedState | null> {
    try {
      return SavedState.parse(await this.#call("GET", `/internal/bases/${golden}`));
    } catch (fault) {
      if (fault instanceof RouseFailure && fault.code === "not_found") return null;
      throw fault;
    }
  }

  async #machine<S extends z.ZodType>(account: string, id: string, step: ArchiveStep, schema: S): Promise<z.infer<S>> {
    return schema.parse(await this.#call("POST", statePath(account, id), step));
  }

  async #call(method: string, path: string, body?: object): Promise<unknown> {
    let answer: Response;
    try {
      answer = await fetch(this.#url + path, {
        method,
        headers: {
          authorization: `Bearer ${this.#hostKey}`,
          ...(body ? { "content-type": "application/json" } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
        signal: AbortSignal.timeout(LIMIT_MS),
      });
    } catch (fault) {
      throw new RouseFailure("host_unavailable", "The edge does not answer.", { cause: fault });
    }
    const value: unknown = await answer.json().catch(() => null);
    if (answer.ok) return value;
    const said = ErrorBody.safeParse(value);
    if (!said.success) throw new RouseFailure("host_unavailable", `The edge answered ${answer.status}.`);
    const { code, message, details } = said.data.error;
    throw new RouseFailure(isErrorCode(code) ? code : "internal_error", message, details ? { details } : {});
  }
}

/** Of a machine, of a copy that is for a snapshot, or of a volume. */
function statePath(account: string, id: string): string {
  const kind = isSnapshotId(id) ? "snapshots" : isVolumeCopyId(id) ? "volumes" : "machines";
  return `/internal/accounts/${account}/${kind}/${encodeURIComponent(id)}/archive`;
}

function basePath(golden: string): string {
  return `/internal/bases/${golden}/archive`;
}
