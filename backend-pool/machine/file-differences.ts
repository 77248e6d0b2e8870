/** How files of two disks are listed inside a machine, and what the lists say. No I/O. */
import { DIFF_ENTRIES_MAX, type DiffEntry } from "../../sdk/contract/snapshot.ts";
import type { DiffFound } from "../../sdk/contract/host.ts";

/** Where the disks are mounted. */
export const MOUNTS = { from: "/run/rouse/diff/from", to: "/run/rouse/diff/to" } as const;
export const RESULT = "/tmp/rouse-diff";
/** Bytes of the result; what is beyond that is left out as if there were too many entries. As JSON it may take six times that. */
export const RESULT_BYTES = 4_194_304;

/** Each entry has a record on one side or on both, and one more shows that there are more. */
const RECORDS = 2 * (DIFF_ENTRIES_MAX + 1);

/** Other file systems, and what a boot empties. */
const SKIPPED = ["dev", "lost+found", "proc", "run", "sys", "tmp"];

/**
 * Lists both trees at once, sorted, and keeps the records that only one has: `path//facts`, those of the second behind
 * a `/`, each ended by a NUL. A path is relative and has no `//`. Of a folder neither times nor size count: they change
 * with what is in it. The first argument is the folder to look at, or empty.
 */
export const SCRIPT = `
set -o pipefail
export LC_ALL=C
folder=$1
list() {
  : >"$2"
  [ -d "$1$folder" ] || return 0
  find "$1$folder" -mindepth 1 -xdev \\( ${SKIPPED.map((name) => `-path "$1/${name}"`).join(" -o ")} \\) -prune -o \\
    \\( -type d -printf '%P//d %m %U %G\\0' -o -printf '%P//%y %m %U %G %s %T@ %C@ %l\\0' \\) | sort -z >"$2"
}
cd /tmp || exit 1
list ${MOUNTS.from} from &
first=$!
list ${MOUNTS.to} to || exit 1
wait $first || exit 1
comm -z -3 --nocheck-order --output-delimiter=/ from to >all || exit 1
set +o pipefail
head -z -n ${RECORDS} all | head -c ${RESULT_BYTES} >${RESULT}
chmod 644 ${RESULT}
`;

interface Side {
  readonly kind: DiffEntry["kind"];
  readonly size: number | null;
}

const kinds: Readonly<Record<string, DiffEntry["kind"]>> = { f: "file", d: "directory", l: "symlink" };

/** What the script's result says of that folder, sorted by path. Nothing in it is trusted to be as the script writes it. */
export function entriesOf(result: Buffer, folder = ""): DiffFound {
  const sides = new Map<string, { from?: Side; to?: Side }>();
  // Bytes stay what they are until they are compared.
  const records = result.toString("latin1").split("\0");
  // Empty after the last NUL.
  const isCut = records.pop() !== "" || records.length >= RECORDS;
  for (const record of records) {
    const isTo = record.startsWith("/");
    const end = record.indexOf("//", 1);
    const path = record.slice(isTo ? 1 : 0, Math.max(end, 0));
    const [kind = "", , , , size = ""] = record.slice(end + 2).split(" ", 5);
    if (end < 0 || path === "") continue;
    const bytes = kind === "f" && /^\d{1,15}$/.test(size) ? Number(size) : null;
    sides.set(path, { ...sides.get(path), [isTo ? "to" : "from"]: { kind: kinds[kind] ?? "other", size: bytes } });
  }
  const found = [...sides];
  // The other side of the last one may have been cut off.
  if (isCut) found.pop();
  found.sort(([a], [b]) => (a < b ? -1 : 1));
  const data = found.slice(0, DIFF_ENTRIES_MAX).map(([path, both]) => entry(folder, path, both));
  return { data, truncated: isCut || found.length > DIFF_ENTRIES_MAX };
}

function entry(folder: string, path: string, { from, to }: { from?: Side; to?: Side }): DiffEntry {
  return {
    path: `${folder}/${Buffer.from(path, "latin1").toString()}`,
    change: !from ? "added" : !to ? "removed" : "modified",
    kind: (to ?? from)?.kind ?? "other",
    sizeBefore: from?.size ?? null,
    sizeAfter: to?.size ?? null,
  };
}
