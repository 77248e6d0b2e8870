/** Copies to go back to: the states that it slept with, and snapshots that outlive it. */
import { useState } from "preact/hooks";
import type { HistoryPoint, SandboxInfo, Snapshot, SnapshotMode } from "../../../sdk/src/index.ts";
import { handleOf, rouse } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { feed } from "../feed.ts";
import { Empty, Field, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { FormDialog, number, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { navigate, toSandbox } from "../router.tsx";
import { mayUse, useSession } from "../session.ts";
import { bytes, fullTime } from "../text.ts";

export function Snapshots({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const may = mayUse(session);
  return (
    <>
      <History of={of} may={may} />
      {session.namePrefix === null && <Taken of={of} may={may} />}
    </>
  );
}

function History({ of, may }: { of: SandboxInfo; may: boolean }) {
  const list = useRead(`${of.id} ${of.state} ${of.generation}`, (signal) => handleOf(of).history({ signal }));
  const [going, setGoing] = useState<HistoryPoint | null>(null);
  const columns: Column<HistoryPoint>[] = [
    {
      title: "Saved",
      bare: true,
      cell: ({ savedAt, current }) => (
        <span class="name">
          <Time at={savedAt} /> {current && <span class="label">it rests with this</span>}
        </span>
      ),
    },
    { title: "Run", numeric: true, cell: ({ generation }) => generation },
    { title: "Holds", cell: ({ mode }) => HOLDS[mode] },
    { title: "Stored", numeric: true, cell: ({ storedBytes }) => bytes(storedBytes) },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (point) =>
        !point.current && (
          <button type="button" class="quiet-button dangerous" onClick={() => setGoing(point)}>
            Go back<span class="unseen"> to {fullTime(point.savedAt)}</span>
          </button>
        ),
    });
  return (
    <Section title="History">
      <Fault of={list.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="No stored states yet">
          <p>
            Each pause saves one, once it is stored off the host.{" "}
            {of.keepPauses
              ? `The last ${of.keepPauses} before it are kept too.`
              : "Only the newest is kept, unless the sandbox keeps more (keepPauses)."}
          </p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="History" columns={columns} rows={list.data} keyOf={({ point }) => point} />
      )}
      {going && (
        <FormDialog
          title={`Go back to ${fullTime(going.savedAt)}?`}
          submit="Go back"
          busy="Going back"
          danger
          onClose={() => setGoing(null)}
          onSubmit={async () => {
            feed.put((await handleOf(of).rollback(going.point)).info);
            list.reload();
            return `${of.name ?? of.label} is as it was on ${fullTime(going.savedAt)}`;
          }}
        >
          <p>
            Its disk{going.mode === "memory" ? ", memory and programs are" : " is"} as then. What was done since is gone
            {of.state === "running" ? ", what runs now included" : ""}, unless a later point of the history has it.
            Volumes, and what is stored outside of the machine, stay as they are.
          </p>
        </FormDialog>
      )}
    </Section>
  );
}

const HOLDS: Readonly<Record<SnapshotMode, string>> = { memory: "Memory and disk", disk: "Disk" };
const STATES = {
  capturing: { tone: "moving", text: "Being taken" },
  ready: { tone: "running", text: "Ready" },
  failed: { tone: "failed", text: "Failed" },
  deleting: { tone: "moving", text: "Being deleted" },
  deleted: { tone: "stopped", text: "Deleted" },
} as const;

function Taken({ of, may }: { of: SandboxInfo; may: boolean }) {
  const list = useRead(of.id, async (signal) => {
    const page = await rouse.snapshots.list({ sandboxId: of.id, limit: 100 }, { signal });
    return page.data.filter(({ state }) => state !== "deleted");
  });
  const [taking, setTaking] = useState(false);
  const [removing, setRemoving] = useState<Snapshot | null>(null);
  const [starting, setStarting] = useState<Snapshot | null>(null);
  const doing = useDoing();
  const columns: Column<Snapshot>[] = [
    { title: "Snapshot", bare: true, cell: ({ name, id }) => <span class="name">{name ?? id}</span> },
    { title: "State", cell: ({ state }) => <Pill tone={STATES[state].tone}>{STATES[state].text}</Pill> },
    { title: "Holds", cell: ({ mode }) => HOLDS[mode] },
    { title: "Taken", cell: ({ createdAt }) => <Time at={createdAt} /> },
    { title: "Kept until", cell: ({ expiresAt }) => <Time at={expiresAt} /> },
    { title: "Stored", numeric: true, cell: ({ storedBytes }) => bytes(storedBytes) },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (snapshot) => (
        <>
          {snapshot.state === "ready" && (
            <button type="button" class="quiet-button" onClick={() => setStarting(snapshot)}>
              Start one<span class="unseen"> from {snapshot.name ?? snapshot.id}</span>
            </button>
          )}
          <button type="button" class="quiet-button dangerous" onClick={() => setRemoving(snapshot)}>
            Delete<span class="unseen"> {snapshot.name ?? snapshot.id}</span>
          </button>
        </>
      ),
    });
  const canTake = may && (of.state === "running" || of.state === "paused");
  return (
    <Section
      title="Snapshots"
      actions={
        canTake && (
          <button type="button" onClick={() => setTaking(true)}>
            Take a snapshot
          </button>
        )
      }
    >
      <Fault of={list.fault} />
      <Fault of={doing.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="No snapshots">
          <p>A snapshot is a copy that outlives the sandbox: others can be started from it.</p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="Snapshots" columns={columns} rows={list.data} keyOf={({ id }) => id} />
      )}
      {taking && (
        <FormDialog
          title="Take a snapshot"
          submit="Take it"
          busy="Taking"
          onClose={() => setTaking(false)}
          onSubmit={async (form) => {
            const mode = (text(form, "mode") ?? "memory") as SnapshotMode;
            await handleOf(of).snapshot({
              mode,
              name: text(form, "name"),
              retentionDays: number(form, "days"),
              wait: false,
            });
            list.reload();
            return "The snapshot was taken; it is ready once it is stored";
          }}
        >
          <Field label="Name">{(ids) => <input {...ids} name="name" maxLength={128} autofocus />}</Field>
          <div class="field-row">
            <Field label="Of">
              {(ids) => (
                <select {...ids} name="mode">
                  <option value="memory">memory and disk</option>
                  <option value="disk">the disk alone</option>
                </select>
              )}
            </Field>
            <Field label="Kept, days">
              {(ids) => <input {...ids} name="days" type="number" min={1} max={365} placeholder="365" />}
            </Field>
          </div>
        </FormDialog>
      )}
      {starting && (
        <FormDialog
          title={`Start a sandbox from ${starting.name ?? "this snapshot"}`}
          submit="Start it"
          busy="Starting"
          onClose={() => setStarting(null)}
          onSubmit={async (form) => {
            const name = text(form, "name");
            const made = await rouse.sandboxes.create({
              snapshot: starting.id,
              ...(name === undefined ? {} : { name }),
              wait: false,
            });
            feed.put(made.info);
            navigate(toSandbox(made));
            return `${made.name ?? made.id} is being made`;
          }}
        >
          <Field label="Name" hint="Random if left open.">
            {(ids) => <input {...ids} name="name" maxLength={128} spellcheck={false} autofocus />}
          </Field>
        </FormDialog>
      )}
      {removing && (
        <FormDialog
          title={`Delete the snapshot ${removing.name ?? ""}?`}
          submit="Delete"
          busy="Deleting"
          danger
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await rouse.snapshots.delete(removing.id);
            list.reload();
            return "The snapshot was deleted";
          }}
        >
          <p>
            {HOLDS[removing.mode]} as of {fullTime(removing.createdAt)}, {bytes(removing.storedBytes)} stored, are gone
            for good. Sandboxes that were started from it stay.
          </p>
        </FormDialog>
      )}
    </Section>
  );
}
