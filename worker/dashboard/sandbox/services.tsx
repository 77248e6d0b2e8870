/** How its newest run began, and the programs that are kept running in it. Looking wakes nothing but for logs. */
import { useState } from "preact/hooks";
import type { HookResult, Resume, SandboxInfo, ServiceStatus } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { Empty, Facts, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { InfoDialog } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";
import { duration } from "../text.ts";

const STATES: Readonly<Record<ServiceStatus["state"], { tone: string; text: string }>> = {
  pending: { tone: "stopped", text: "Comes later" },
  starting: { tone: "moving", text: "Starting" },
  ready: { tone: "running", text: "Ready" },
  waiting: { tone: "moving", text: "Starts again soon" },
  ended: { tone: "stopped", text: "Ended" },
  failed: { tone: "failed", text: "Failed" },
  stopped: { tone: "stopped", text: "Off" },
};

export function Services({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const read = useRead(`${of.id} ${of.state} ${of.generation}`, (signal) => handleOf(of).resume({ signal }));
  const [logs, setLogs] = useState<string | null>(null);
  const doing = useDoing();
  // Both ask the machine itself, so it has to be awake.
  const may = mayUse(session) && of.state === "running";
  const columns: Column<ServiceStatus>[] = [
    { title: "Service", bare: true, cell: ({ name }) => <span class="name">{name}</span> },
    { title: "State", cell: ({ state }) => <Pill tone={STATES[state].tone}>{STATES[state].text}</Pill> },
    { title: "Port", numeric: true, cell: ({ port }) => port ?? "–" },
    { title: "Ready since", cell: ({ readyAt }) => <Time at={readyAt} none="not yet" /> },
    { title: "Started again", numeric: true, cell: ({ restarts }) => restarts },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: ({ name }) => (
        <>
          <button type="button" class="quiet-button" onClick={() => setLogs(name)}>
            Logs<span class="unseen"> of {name}</span>
          </button>
          <button
            type="button"
            class="quiet-button"
            disabled={doing.busy !== null}
            onClick={() =>
              void doing.run(name, async () => {
                await handleOf(of).services.restart(name);
                read.reload();
                return `${name} was restarted`;
              })
            }
          >
            Restart<span class="unseen"> {name}</span>
          </button>
        </>
      ),
    });
  const report = read.data;
  return (
    <>
      <Section title="Services">
        <Fault of={read.fault} />
        <Fault of={doing.fault} />
        {report === null && read.loading && <Loading />}
        {report?.services.length === 0 && (
          <Empty title="No services">
            <p>
              A service is a program that is kept running, and is up again after each boot and wake before requests come
              in.
            </p>
          </Empty>
        )}
        {report !== null && report.services.length > 0 && (
          <Table label="Services" columns={columns} rows={report.services} keyOf={({ name }) => name} />
        )}
      </Section>
      {report && (
        <Section title="How its last run began">
          <Facts of={factsOf(report)} />
          {report.onBoot && <Command title="After the boot" of={report.onBoot} />}
          {report.onWake && <Command title="After the wake" of={report.onWake} />}
        </Section>
      )}
      {logs !== null && <Logs of={of} name={logs} onClose={() => setLogs(null)} />}
    </>
  );
}

const KINDS = { created: "From its image or snapshot", restored: "From its memory", booted: "From its disk" } as const;

function factsOf(report: Resume): (readonly [string, preact.ComponentChildren])[] {
  const { bootKind, memoryRestored, bootedAt, checkpoint, queue, unfinished } = report;
  const rows: (readonly [string, preact.ComponentChildren])[] = [
    ["Began", bootKind === null ? "Not yet" : KINDS[bootKind]],
    ["When", <Time at={bootedAt} />],
    ["Memory", memoryRestored === null ? "–" : memoryRestored ? "As it was" : "Gone: programs began anew"],
    ["Left to do", unfinished ? "There is something to go on with" : "Nothing"],
  ];
  if (checkpoint)
    rows.push([
      "Checkpoint",
      <>
        {checkpoint.name}, version {checkpoint.version}, <Time at={checkpoint.savedAt} />
      </>,
    ]);
  if (queue) rows.push(["Tasks", `${queue.waiting} waiting, ${queue.leased} under way, ${queue.dead} given up`]);
  return rows;
}

function Command({ title, of }: { title: string; of: HookResult }) {
  const took = of.endedAt === null ? null : Date.parse(of.endedAt) - Date.parse(of.startedAt);
  const end = of.timedOut
    ? "ran out of time"
    : of.exitCode === null
      ? took === null
        ? "runs"
        : "was ended"
      : `exit ${of.exitCode}`;
  return (
    <>
      <h3>
        {title}: {end}
        {took !== null && ` in ${duration(took)}`}
      </h3>
      {(of.stdout !== "" || of.stderr !== "") && (
        <pre class="content" tabIndex={0} aria-label={`Output, ${title}`}>
          {of.stdout}
          {of.stderr}
        </pre>
      )}
    </>
  );
}

function Logs({ of, name, onClose }: { of: SandboxInfo; name: string; onClose: () => void }) {
  const read = useRead(`${of.id} ${name}`, (signal) => handleOf(of).services.logs(name, { signal }));
  return (
    <InfoDialog title={`Logs of ${name}`} onClose={onClose}>
      <Fault of={read.fault} />
      {read.loading && <Loading />}
      {read.data?.truncated && <p class="quiet">It wrote more; this is the last of it.</p>}
      {read.data && (
        <pre class="content" tabIndex={0} aria-label={`Logs of ${name}`}>
          {read.data.chunks.map(({ text }) => text).join("") || "It wrote nothing."}
        </pre>
      )}
      <button type="button" onClick={read.reload}>
        Look again
      </button>
    </InfoDialog>
  );
}
