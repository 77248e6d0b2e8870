/** All sandboxes of the account, as they are at this moment. */
import { useMemo, useState } from "preact/hooks";
import type { SandboxInfo, SandboxState } from "../../../sdk/src/index.ts";
import { useSandboxes } from "../feed.ts";
import { Empty, Labels, Loading, StatePill, Time } from "../parts/bits.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { Link, toSandbox } from "../router.tsx";
import { SandboxActions } from "../sandbox/actions.tsx";
import { mayUse, useSession } from "../session.ts";
import { count, mebibytes, money } from "../text.ts";
import { NewSandbox } from "./new-sandbox.tsx";

const GROUPS = {
  all: { text: "All states", has: () => true },
  awake: { text: "Awake", has: (state) => ["starting", "running", "pausing", "resuming"].includes(state) },
  paused: { text: "Paused", has: (state) => state === "paused" },
  stopped: { text: "Stopped", has: (state) => state === "stopped" || state === "stopping" },
} as const satisfies Record<string, { text: string; has: (state: SandboxState) => boolean }>;
type Group = keyof typeof GROUPS;

export function SandboxList() {
  const session = useSession();
  const { all, fault } = useSandboxes();
  const [search, setSearch] = useState("");
  const [group, setGroup] = useState<Group>("all");
  const [making, setMaking] = useState(false);
  const rows = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    return [...(all?.values() ?? [])]
      .filter((sandbox) => GROUPS[group].has(sandbox.state) && words.every((word) => isFound(sandbox, word)))
      .toSorted((a, b) => (b.lastActiveAt ?? b.createdAt).localeCompare(a.lastActiveAt ?? a.createdAt));
  }, [all, search, group]);
  const may = mayUse(session);
  const addWord = (word: string) =>
    setSearch((was) => (was.split(/\s+/).includes(word) ? was : `${was} ${word}`.trim()));
  const make = may && (
    <button type="button" class="primary" onClick={() => setMaking(true)}>
      New sandbox
    </button>
  );
  return (
    <>
      <div class="view-head">
        <div>
          <h1>Sandboxes</h1>
          {all && <p class="summary">{summaryOf([...all.values()])}</p>}
        </div>
        {make}
      </div>
      <Fault of={fault}>
        <p>What is shown may be old; it is tried again.</p>
      </Fault>
      {all === null && fault === null && <Loading />}
      {all?.size === 0 && (
        <Empty title="No sandbox yet">
          <p>
            A sandbox is a Linux machine with a name. It sleeps with its memory when nobody uses it, costs next to
            nothing then, and wakes on the first request.
          </p>
          <p>
            Make one here, or in a terminal: <code>rouse create my-agent</code>
          </p>
          {make}
        </Empty>
      )}
      {all !== null && all.size > 0 && (
        <>
          <div class="filters" role="search">
            <label class="grow">
              <span class="unseen">Search sandboxes by name, id or label</span>
              <input
                type="search"
                value={search}
                placeholder="Search by name, id or label, such as team=web"
                onInput={(event) => setSearch(event.currentTarget.value)}
              />
            </label>
            <label>
              <span class="unseen">State</span>
              <select value={group} onChange={(event) => setGroup(event.currentTarget.value as Group)}>
                {Object.entries(GROUPS).map(([key, { text }]) => (
                  <option value={key} key={key}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
          </div>
          <p class="unseen" role="status">
            {count(rows.length, "sandbox", "sandboxes")} shown
          </p>
          {rows.length === 0 ? (
            <Empty title="Nothing fits">
              <button
                type="button"
                onClick={() => {
                  setSearch("");
                  setGroup("all");
                }}
              >
                Show all {all.size}
              </button>
            </Empty>
          ) : (
            <Table label="Sandboxes" columns={columnsOf(addWord, may)} rows={rows} keyOf={({ id }) => id} />
          )}
        </>
      )}
      {making && <NewSandbox onClose={() => setMaking(false)} />}
    </>
  );
}

function columnsOf(pick: (word: string) => void, may: boolean): Column<SandboxInfo>[] {
  return [
    {
      title: "Name",
      bare: true,
      cell: (sandbox) => (
        <div class="name-cell">
          <Link href={toSandbox(sandbox)} class="name">
            {sandbox.name ?? sandbox.label}
          </Link>
          <Labels of={sandbox.labels} onPick={pick} />
        </div>
      ),
    },
    { title: "State", bare: true, cell: ({ state }) => <StatePill state={state} /> },
    {
      title: "Machine",
      cell: ({ image, vcpu, memoryMiB }) => (
        <>
          {image}{" "}
          <span class="quiet nowrap">
            {vcpu} vCPU · {mebibytes(memoryMiB)}
          </span>
        </>
      ),
    },
    { title: "Last used", cell: ({ lastActiveAt }) => <Time at={lastActiveAt} none="not yet" /> },
    { title: "Cost so far", numeric: true, cell: ({ chargedMicros }) => money(chargedMicros) },
    ...(may ? [{ title: "Actions", cell: (one: SandboxInfo) => <SandboxActions of={one} small /> }] : []),
  ];
}

function isFound({ name, id, label, labels, image }: SandboxInfo, word: string): boolean {
  if (word.includes("="))
    return Object.entries(labels).some(([key, value]) => `${key}=${value}`.toLowerCase() === word);
  const texts = [name ?? "", id, label, image, ...Object.entries(labels).flat()];
  return texts.some((text) => text.toLowerCase().includes(word));
}

function summaryOf(all: readonly SandboxInfo[]): string {
  const of = (group: Group) => all.filter(({ state }) => GROUPS[group].has(state)).length;
  const parts = (["awake", "paused", "stopped"] as const)
    .map((group) => [of(group), GROUPS[group].text.toLowerCase()] as const)
    .filter(([n]) => n > 0)
    .map(([n, text]) => `${n.toLocaleString("en")} ${text}`);
  return all.length === 0 ? "None" : parts.join(" · ");
}
