/** What runs in the sandbox at its times, whether it sleeps or not. */
import { useState } from "preact/hooks";
import type { SandboxInfo, Schedule, ScheduleAction, ScheduleRun } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { Empty, Field, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { FormDialog, InfoDialog, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";

export function Schedules({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const { schedules } = handleOf(of);
  const list = useRead(`${of.id} ${of.generation}`, (signal) => schedules.list({ signal }));
  const [making, setMaking] = useState(false);
  const [removing, setRemoving] = useState<Schedule | null>(null);
  const [open, setOpen] = useState<Schedule | null>(null);
  const doing = useDoing();
  const may = mayUse(session);
  const columns: Column<Schedule>[] = [
    {
      title: "Schedule",
      bare: true,
      cell: (schedule) => (
        <button type="button" class="link name" onClick={() => setOpen(schedule)}>
          {schedule.name ?? schedule.id}
        </button>
      ),
    },
    {
      title: "When",
      cell: ({ cron, zone, at }) =>
        cron === null ? (
          <>
            once, <Time at={at} />
          </>
        ) : (
          <>
            <code>{cron}</code> <span class="quiet">{zone}</span>
          </>
        ),
    },
    { title: "Does", cell: ({ action }) => <code class="clipped">{actionText(action)}</code> },
    { title: "Next", cell: ({ next, enabled }) => (enabled ? <Time at={next[0]} none="no more" /> : "turned off") },
    {
      title: "Last run",
      cell: ({ lastRun }) => (lastRun ? <RunPill of={lastRun} /> : <span class="quiet">none yet</span>),
    },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (schedule) => (
        <>
          <button
            type="button"
            class="quiet-button"
            disabled={doing.busy !== null}
            onClick={() =>
              void doing.run(schedule.id, async () => {
                await schedules.run(schedule.id);
                list.reload();
                return "It was begun";
              })
            }
          >
            Run now<span class="unseen"> {schedule.name ?? schedule.id}</span>
          </button>
          <button
            type="button"
            class="quiet-button"
            disabled={doing.busy !== null}
            onClick={() =>
              void doing.run(schedule.id, async () => {
                await schedules.update(schedule.id, { enabled: !schedule.enabled });
                list.reload();
                return schedule.enabled ? "It was turned off" : "It was turned on";
              })
            }
          >
            {schedule.enabled ? "Turn off" : "Turn on"}
            <span class="unseen"> {schedule.name ?? schedule.id}</span>
          </button>
          <button type="button" class="quiet-button dangerous" onClick={() => setRemoving(schedule)}>
            Delete<span class="unseen"> {schedule.name ?? schedule.id}</span>
          </button>
        </>
      ),
    });
  return (
    <Section
      title="Schedules"
      actions={
        may && (
          <button type="button" onClick={() => setMaking(true)}>
            New schedule
          </button>
        )
      }
    >
      <Fault of={list.fault} />
      <Fault of={doing.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="No schedules">
          <p>A schedule wakes the sandbox at its times and runs a command in it; after that it may sleep again.</p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="Schedules" columns={columns} rows={list.data} keyOf={({ id }) => id} />
      )}
      {making && (
        <FormDialog
          title="New schedule"
          submit="Make it"
          busy="Making"
          onClose={() => setMaking(false)}
          onSubmit={async (form) => {
            const name = text(form, "name");
            const zone = text(form, "zone");
            const made = await schedules.create({
              ...(name === undefined ? {} : { name }),
              cron: text(form, "cron") ?? "",
              ...(zone === undefined ? {} : { zone }),
              action: { kind: "command", command: text(form, "command") ?? "" },
            });
            list.reload();
            return `${made.name ?? "The schedule"} was made`;
          }}
        >
          <Field label="Name">
            {(ids) => <input {...ids} name="name" maxLength={128} placeholder="nightly" autofocus />}
          </Field>
          <div class="field-row">
            <Field label="When" hint="Minute, hour, day, month, weekday; or @hourly, @daily, @weekly.">
              {(ids) => <input {...ids} name="cron" required spellcheck={false} placeholder="0 3 * * *" />}
            </Field>
            <Field label="Time zone">
              {(ids) => (
                <input
                  {...ids}
                  name="zone"
                  spellcheck={false}
                  defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone}
                />
              )}
            </Field>
          </div>
          <Field label="Command" hint="Run by bash in /workspace.">
            {(ids) => (
              <textarea {...ids} name="command" required rows={3} spellcheck={false} placeholder="./report.sh" />
            )}
          </Field>
        </FormDialog>
      )}
      {removing && (
        <FormDialog
          title={`Delete the schedule ${removing.name ?? ""}?`}
          submit="Delete"
          busy="Deleting"
          danger
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await schedules.delete(removing.id);
            list.reload();
            return `${removing.name ?? "The schedule"} was deleted`;
          }}
        >
          <p>
            It runs no more, and the record of its runs, with what they wrote, is gone. A command under way goes on.
          </p>
        </FormDialog>
      )}
      {open && <Runs of={of} schedule={open} onClose={() => setOpen(null)} />}
    </Section>
  );
}

const STATES = {
  running: { tone: "moving", text: "Under way" },
  succeeded: { tone: "running", text: "Worked" },
  failed: { tone: "failed", text: "Failed" },
  skipped: { tone: "stopped", text: "Skipped" },
} as const;

function RunPill({ of }: { of: ScheduleRun }) {
  const { tone, text: said } = STATES[of.state];
  return (
    <>
      <Pill tone={tone}>{said}</Pill>{" "}
      <span class="quiet">
        <Time at={of.startedAt ?? of.scheduledAt} />
      </span>
    </>
  );
}

function Runs({ of, schedule, onClose }: { of: SandboxInfo; schedule: Schedule; onClose: () => void }) {
  const { schedules } = handleOf(of);
  const runs = useRead(
    schedule.id,
    async (signal) => (await schedules.runs(schedule.id, { limit: 20 }, { signal })).data,
  );
  const [run, setRun] = useState<string | null>(null);
  const full = useRead(run, (signal) => schedules.getRun(schedule.id, run ?? "", { signal }));
  const columns: Column<ScheduleRun>[] = [
    { title: "Run", bare: true, cell: (one) => <RunPill of={one} /> },
    {
      title: "Why",
      cell: ({ reason, exitCode }) => reason?.replaceAll("_", " ") ?? (exitCode === null ? "" : `exit ${exitCode}`),
    },
    {
      title: "Actions",
      cell: ({ id }) => (
        <button type="button" class="quiet-button" onClick={() => setRun(id)}>
          Output
        </button>
      ),
    },
  ];
  const output = full.data?.output;
  return (
    <InfoDialog title={`Runs of ${schedule.name ?? schedule.id}`} onClose={onClose}>
      <pre class="content" tabIndex={0} aria-label="What it does">
        {actionText(schedule.action)}
      </pre>
      <Fault of={runs.fault} />
      {runs.loading && <Loading />}
      {runs.data?.length === 0 && <Empty title="It has not run yet" />}
      {runs.data !== null && runs.data.length > 0 && (
        <Table label="Runs" columns={columns} rows={runs.data} keyOf={({ id }) => id} />
      )}
      <Fault of={full.fault} />
      {run !== null && full.loading && <Loading />}
      {full.data && (
        <pre class="content" tabIndex={0} aria-label="Output">
          {[output?.stdout, output?.stderr, output?.body].map((one) => one?.data ?? "").join("") || "It wrote nothing."}
        </pre>
      )}
    </InfoDialog>
  );
}

function actionText(action: ScheduleAction): string {
  switch (action.kind) {
    case "command":
      return action.command ?? action.argv?.join(" ") ?? "";
    case "request":
      return `${action.method ?? "POST"} :${action.port ?? 8080}${action.path ?? "/"}`;
    case "drill":
      return "drill";
    case "wake":
      return "wake";
  }
}
