/** What others are told until they have taken note. An errand is noted with the change that it follows from. */
import { labelOfId } from "../../sdk/contract/names.ts";
import { backoffMs } from "../backoff.ts";
import { checkpointsObject } from "../checkpoints/api.ts";
import { claimsObject } from "../claims/api.ts";
import { drillsObject } from "../drills/api.ts";
import { readBoard } from "../hosts/board-facade.ts";
import { inboxObject } from "../inbox/api.ts";
import { memoryOfSandbox } from "../memory/api.ts";
import { schedulesObject } from "../schedules/api.ts";
import { secretsObject } from "../secrets/api.ts";
import { socketsObject } from "../sockets/api.ts";
import { databaseObject, stateObject } from "../state/api.ts";
import { vaultObject } from "../vault/api.ts";
import { volumesObject } from "../volumes/api.ts";
import { sandboxObject, type EventNote } from "./api.ts";
import type { HostAddress, HostClient } from "./host-client.ts";

/** A vault: the owner needs a saved state no more. */
export interface Release {
  readonly kind: "release";
  readonly vault: string;
  readonly owner: string;
  /** null: none of all that the owner has. */
  readonly manifest: string | null;
}

/** The keeper of volumes: the sandbox has let go of one. */
export interface Detach {
  readonly kind: "detach";
  readonly attachment: string;
  readonly sandboxId: string;
  /** The newest run that may have written. */
  readonly generation: number;
  /** No host has anything of it that is not stored. */
  readonly settled: boolean;
}

/**
 * A host that was given up, whenever it is back: it is to remove what it has of a sandbox that was deleted, or that
 * another host took over.
 */
export interface Purge {
  readonly kind: "purge";
  readonly id: string;
  /** The newest that was begun there. */
  readonly generation: number;
  readonly host: HostAddress;
  /** Unix milliseconds. */
  readonly since: number;
}

/** Whoever keeps something of the sandbox apart from it, which is deleted for good: what there is of it goes. */
export interface Close {
  readonly kind: "inbox" | "schedules" | "checkpoints" | "drills" | "memory" | "homes" | "domains" | "secrets";
  readonly sandboxId: string;
}

/** Another sandbox: something happened that is an event of it. */
export interface Note {
  readonly kind: "note";
  readonly sandboxId: string;
  readonly note: EventNote & { readonly key: string };
}

/** Whoever holds its sockets: it runs, is deleted, or lets other people in. */
export interface TellSockets {
  readonly kind: "sockets";
  readonly sandboxId: string;
}

export type Errand = Release | Detach | Purge | TellSockets | Close | Note;

const FIRST_TRY_MS: Record<Errand["kind"], number> = {
  release: 1000,
  detach: 1000,
  purge: 5000,
  inbox: 1000,
  schedules: 1000,
  checkpoints: 1000,
  drills: 1000,
  memory: 1000,
  homes: 1000,
  domains: 1000,
  secrets: 1000,
  sockets: 1000,
  note: 1000,
};
/** A host that was away for longer comes back as another, milliseconds. */
const PURGES_KEPT_MS = 90 * 86_400_000;

type Row = { key: string; body: string; attempts: number };

export class Errands {
  readonly #sql: SqlStorage;
  readonly #env: Env;
  readonly #host: HostClient;

  constructor(storage: DurableObjectStorage, env: Env, host: HostClient) {
    this.#sql = storage.sql;
    this.#env = env;
    this.#host = host;
  }

  add(errand: Errand, now: number): void {
    // A host that was just given up is not there now.
    const dueAt = errand.kind === "purge" ? now + FIRST_TRY_MS.purge : now;
    this.#sql.exec(
      "INSERT OR REPLACE INTO errands (key, kind, body, attempts, due_at) VALUES (?, ?, ?, 0, ?)",
      ...[keyOf(errand), errand.kind, JSON.stringify(errand), dueAt],
    );
  }

  /** The owner needs that state again. */
  dropRelease(vault: string, owner: string, manifest: string): void {
    for (const one of [manifest, null]) this.#drop(keyOf({ kind: "release", vault, owner, manifest: one }));
  }

  /** The machine lives on that host after all. */
  dropPurge(id: string, hostId: string): void {
    this.#drop(`purge ${id} ${hostId}`);
  }

  /** The host of that machine is back: no need to wait. Whether there is anything of it to remove. */
  hastenPurge(id: string, now: number): boolean {
    return (
      this.#sql
        .exec("UPDATE errands SET due_at = ? WHERE kind = 'purge' AND body ->> 'id' = ? RETURNING key", now, id)
        .toArray().length > 0
    );
  }

  dueAt(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM errands").one().at;
  }

  /** Run those that are due, of one kind unless that is null; what fails is due again later. */
  async run(account: string, kind: Errand["kind"] | null, now: number): Promise<void> {
    const due = this.#sql
      .exec<Row>(
        "SELECT key, body, attempts FROM errands WHERE due_at <= ? AND (? IS NULL OR kind = ?)",
        now,
        kind,
        kind,
      )
      .toArray();
    await Promise.all(
      due.map(async ({ key, body, attempts }) => {
        const errand = JSON.parse(body) as Errand;
        const done = await this.#tell(account, errand, now).catch(() => false);
        // It may have been noted anew meanwhile.
        if (done) this.#sql.exec("DELETE FROM errands WHERE key = ? AND body = ?", key, body);
        else
          this.#sql.exec(
            "UPDATE errands SET attempts = attempts + 1, due_at = ? WHERE key = ?",
            ...[now + backoffMs(FIRST_TRY_MS[errand.kind], attempts), key],
          );
      }),
    );
  }

  /** Whether it is done with. */
  async #tell(account: string, errand: Errand, now: number): Promise<boolean> {
    switch (errand.kind) {
      case "release": {
        const { vault, owner, manifest } = errand;
        await vaultObject(this.#env.VAULT, account, vault).release(owner, manifest === null ? null : [manifest]);
        return true;
      }
      case "detach": {
        const { attachment, sandboxId, generation, settled } = errand;
        const ask = { sandboxId, attachments: [attachment], generation, settled };
        await volumesObject(this.#env.VOLUMES, account).detach(ask);
        return true;
      }
      case "inbox": {
        const { sandboxId } = errand;
        await inboxObject(this.#env.INBOX, account, labelOfId(sandboxId) ?? "").purge(sandboxId);
        return true;
      }
      case "checkpoints": {
        const { sandboxId } = errand;
        await checkpointsObject(this.#env.CHECKPOINTS, account, labelOfId(sandboxId) ?? "").purge(sandboxId);
        return true;
      }
      case "drills": {
        const { sandboxId } = errand;
        await drillsObject(this.#env.DRILLS, account, labelOfId(sandboxId) ?? "").purge(sandboxId);
        return true;
      }
      case "schedules": {
        const { sandboxId } = errand;
        await schedulesObject(this.#env.SCHEDULES, account, labelOfId(sandboxId) ?? "").purge(sandboxId);
        return true;
      }
      case "memory": {
        await memoryOfSandbox(this.#env.MEMORY, account, errand.sandboxId).purge();
        return true;
      }
      case "homes": {
        const { sandboxId } = errand;
        await databaseObject(this.#env.DATABASE, account, sandboxId).purge();
        await stateObject(this.#env.STATE, account, sandboxId).purge();
        return true;
      }
      case "domains": {
        await claimsObject(this.#env.CLAIMS, account).purge(errand.sandboxId);
        return true;
      }
      case "secrets": {
        await secretsObject(this.#env.SECRETS, account).purge(errand.sandboxId);
        return true;
      }
      case "note": {
        const { sandboxId, note } = errand;
        await sandboxObject(this.#env.SANDBOX, account, labelOfId(sandboxId) ?? "").note(sandboxId, note);
        return true;
      }
      case "sockets": {
        const { sandboxId } = errand;
        await socketsObject(this.#env.SOCKETS, account, labelOfId(sandboxId) ?? "").changed(sandboxId);
        return true;
      }
      case "purge": {
        const { id, generation, host, since } = errand;
        const { hosts } = await readBoard(this.#env);
        // It may be back under another address.
        const at = { id: host.id, url: hosts.find(({ hostId }) => hostId === host.id)?.url ?? host.url };
        const answer = await this.#host.destroy(at, id, generation, new AbortController().signal);
        return answer.ok || answer.failure.code === "not_found" || now - since > PURGES_KEPT_MS;
      }
    }
  }

  #drop(key: string): void {
    this.#sql.exec("DELETE FROM errands WHERE key = ?", key);
  }
}

function keyOf(errand: Errand): string {
  switch (errand.kind) {
    case "release":
      return `release ${errand.vault} ${errand.owner} ${errand.manifest ?? ""}`;
    case "detach":
      return `detach ${errand.attachment}`;
    case "note":
      return `note ${errand.sandboxId} ${errand.note.key}`;
    case "purge":
      return `purge ${errand.id} ${errand.host.id}`;
    default:
      return `${errand.kind} ${errand.sandboxId}`;
  }
}
