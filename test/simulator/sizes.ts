/** What one name takes in storage and on the wire, from records as the code makes them. */
import { newRecord, toSandbox, type SandboxRecord } from "../../durable/sandbox/record.ts";
import type { LifeEvent } from "../../durable/sandbox/life.ts";
import { reduce, timersOf } from "../../durable/sandbox/lifecycle.ts";
import { Meter, REST_REPORT_MS } from "../../backend-pool/report/meter.ts";
import type { JournalRow } from "../../backend-pool/store/journal.ts";
import type { UsageRow } from "../../backend-pool/store/usage.ts";
import { NOTHING } from "../../sdk/contract/pricing.ts";
import { toDigits } from "../../sdk/contract/usage.ts";
import { HEARTBEAT_MS, sample } from "./board.ts";
import { SHAPE } from "./objects.ts";

/** What SQLite takes for the tables of a sandbox's object: 16 pages, as workerd reports it. */
export const OBJECT_BYTES = 65_536;
const NOW = Date.UTC(2026, 10, 2, 9);
const ACCOUNT = "acme";
const LABEL = "agent-user-0123456";

export interface Sizes {
  /** The record's JSON in the sandbox's object. */
  readonly recordBytes: number;
  /** All rows of a sleeping sandbox's object: record, timers, outbox, the answer to its creation. */
  readonly rowBytes: number;
  /** What its database takes on disk. */
  readonly objectBytes: number;
  /** A row of the account's index, with its keys in two indexes, and of its costs. */
  readonly indexBytes: number;
  /** An entry of the account's ledger, with its key in an index. */
  readonly entryBytes: number;
  /** A host on the board, and in the answer that every creation reads. */
  readonly boardEntryBytes: number;
  /** Reports of a machine that sleeps for an hour. */
  readonly sleeperReportsPerHour: number;
}

export function sizes(): Sizes {
  const record = sleeping();
  const sandbox = toSandbox(record, { scheme: "https", domain: "sandboxes.example" });
  const body = bytes(JSON.stringify(record));
  const { step, retention, lease } = timersOf(record.life);
  const timers = [step, retention, lease, NOW].filter((at) => at !== null).length * (bytes("retention") * 2 + 8);
  const answer = bytes(JSON.stringify({ ok: true, sandbox })) + 2 * 36 + 64 + record.id.length;
  const index = JSON.stringify(sandbox);
  const used = { ...NOTHING, cpu: 10n ** 12n, memory: 10n ** 9n, stored: 10n ** 15n };
  const digits = Object.values(toDigits(used)).join("");
  const { lastSeenAt: _, live: __, draining: ___, ...beat } = sample(1);
  return {
    recordBytes: body,
    rowBytes: body + record.id.length + 16 + timers + 16 + answer,
    objectBytes: OBJECT_BYTES,
    indexBytes: bytes(index) + 3 * LABEL.length + 2 * 24 + 40 + record.id.length * 2 + 60,
    entryBytes: 2 * (record.id.length + 8) + 12 + digits.length,
    boardEntryBytes: bytes(
      JSON.stringify({ [beat.hostId]: { seenAt: NOW, json: JSON.stringify(beat), draining: false } }),
    ),
    sleeperReportsPerHour: reportsOfSleeper(3600, 60),
  };
}

/** A sandbox that ran and was paused. */
function sleeping(): SandboxRecord {
  const identity = { id: `${LABEL}~abcdefghijkl`, account: ACCOUNT, label: LABEL };
  const terms = { governed: false, keyId: "abcdefghijkl", retentionDays: 30 };
  const made = newRecord({ name: LABEL, getOrCreate: true, labels: { team: "support" } }, identity, terms, 1, NOW);
  const events: LifeEvent[] = [
    { type: "ran", generation: 1, lastActiveAt: NOW },
    { type: "pause", reason: "idle" },
    { type: "paused", generation: 1, lastActiveAt: NOW },
  ];
  const life = events.reduce((last, event) => {
    const outcome = reduce(last, event, NOW);
    if (!outcome.ok) throw new Error(outcome.failure.message);
    return outcome.life;
  }, made.life);
  const { hostId: id, url } = sample(1);
  return { ...made, life, host: { id, url } };
}

/** How often the meter has something to tell of a machine that does nothing but sleep. */
function reportsOfSleeper(seconds: number, usageSeconds: number): number {
  let now = 0;
  const rows = new Map<string, UsageRow>();
  const store = {
    put: (row: UsageRow) => void rows.set(row.id, row),
    remove: (id: string) => void rows.delete(id),
    all: () => [...rows.values()],
  };
  const meter = new Meter(store, () => now);
  const row = { id: "one~abcdefghijkl", account: ACCOUNT, generation: 1, state: "paused", shape: SHAPE };
  meter.observe(row as unknown as JournalRow);
  meter.sample(row.id, { cpuNs: null, storedBytes: 300_000_000 });
  let reports = 0;
  for (let told = 0; now < seconds * 1000;) {
    now += HEARTBEAT_MS;
    meter.answered();
    if (now - told < usageSeconds * 1000) continue;
    told = now;
    for (const pending of meter.pending(REST_REPORT_MS)) {
      reports++;
      meter.taken(pending);
    }
  }
  return reports;
}

function bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
