/** Webhooks: the addresses that take them while the sandbox sleeps, and what became of each event. */
import { useState } from "preact/hooks";
import { hookProviders, type CreateHook } from "../../../sdk/contract/hook.ts";
import type { Hook, HookEvent, HookProvider, HookStep, NewHook, SandboxInfo } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { Copied, Empty, Facts, Field, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { FormDialog, InfoDialog, number, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";
import { bytes, clockTime, count, duration } from "../text.ts";

const STATES = {
  waiting: { tone: "moving", text: "Waiting" },
  delivered: { tone: "running", text: "Delivered" },
  dead: { tone: "failed", text: "Given up" },
  ignored: { tone: "stopped", text: "Ignored" },
} as const;

export function Inbox({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const { hooks } = handleOf(of);
  const hookEvents = hooks.events;
  const list = useRead(of.id, (signal) => hooks.list({ signal }));
  const events = useRead(
    `${of.id} ${of.generation}`,
    async (signal) => (await hookEvents.list({ limit: 50 }, { signal })).data,
  );
  const doing = useDoing();
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<NewHook | null>(null);
  const [removing, setRemoving] = useState<Hook | null>(null);
  const [open, setOpen] = useState<HookEvent | null>(null);
  const may = mayUse(session);
  const reload = () => (list.reload(), events.reload());
  const replay = (event: HookEvent) =>
    doing.run(event.id, async () => {
      await hookEvents.replay(event.id);
      reload();
      return "It is delivered again";
    });
  const names = new Map(list.data?.map(({ id, name }) => [id, name]));
  const columns: Column<HookEvent>[] = [
    {
      title: "Event",
      bare: true,
      cell: (event) => (
        <button type="button" class="link name" onClick={() => setOpen(event)}>
          {event.type ?? (event.hookId === null ? "Request" : "Event")}
        </button>
      ),
    },
    { title: "State", cell: ({ state }) => <Pill tone={STATES[state].tone}>{STATES[state].text}</Pill> },
    { title: "Hook", cell: ({ hookId }) => (hookId === null ? "respond-async" : (names.get(hookId) ?? hookId)) },
    { title: "Came", cell: ({ receivedAt }) => <Time at={receivedAt} /> },
    { title: "Tries", numeric: true, cell: ({ attempts }) => attempts },
    { title: "Size", numeric: true, cell: (event) => bytes(event.bytes) },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (event) =>
        event.state !== "ignored" &&
        event.state !== "waiting" && (
          <button type="button" class="quiet-button" disabled={doing.busy !== null} onClick={() => void replay(event)}>
            {doing.busy === event.id ? "Replaying …" : "Replay"}
            <span class="unseen"> {event.type ?? event.id}</span>
          </button>
        ),
    });
  const dead = list.data?.reduce((sum, hook) => sum + hook.dead, 0) ?? 0;
  return (
    <>
      <Section
        title="Webhooks"
        actions={
          may && (
            <button type="button" onClick={() => setMaking(true)}>
              New webhook
            </button>
          )
        }
      >
        <Fault of={list.fault} />
        {list.data === null && list.loading && <Loading />}
        {list.data?.length === 0 && (
          <Empty title="No webhooks">
            <p>
              A webhook's address takes events while the sandbox sleeps, keeps them, wakes it, and tries again until its
              program has taken them.
            </p>
          </Empty>
        )}
        {list.data !== null && list.data.length > 0 && (
          <Table
            label="Webhooks"
            columns={hookColumns(may ? setRemoving : null)}
            rows={list.data}
            keyOf={({ id }) => id}
          />
        )}
      </Section>
      <Section
        title="Inbox"
        actions={
          <>
            {may && dead > 0 && (
              <button
                type="button"
                disabled={doing.busy !== null}
                onClick={() =>
                  void doing.run("all", async () => {
                    const all = await Promise.all(
                      (list.data ?? []).filter((hook) => hook.dead > 0).map(({ id }) => hooks.replayDead(id)),
                    );
                    reload();
                    return `${count(
                      all.reduce((a, b) => a + b, 0),
                      "event",
                    )} are delivered again`;
                  })
                }
              >
                Replay all that were given up ({dead})
              </button>
            )}
            <button type="button" class="quiet-button" onClick={reload}>
              Look again
            </button>
          </>
        }
      >
        <Fault of={events.fault} />
        <Fault of={doing.fault} />
        {events.data === null && events.loading && <Loading />}
        {events.data?.length === 0 && <Empty title="Nothing has come yet" />}
        {events.data !== null && events.data.length > 0 && (
          <Table label="Events" columns={columns} rows={events.data} keyOf={({ id }) => id} />
        )}
      </Section>
      {making && (
        <NewHookDialog
          onClose={() => setMaking(false)}
          onMake={async (input) => {
            setMade(await hooks.create(input));
            list.reload();
          }}
        />
      )}
      {made && (
        <InfoDialog title={`Webhook ${made.name}`} onClose={() => setMade(null)}>
          <p>These are shown this once.</p>
          {made.url !== null && (
            <>
              <h3>Address, for the sender</h3>
              <Copied text={made.url} label="Address" />
            </>
          )}
          {made.secret !== null && (
            <>
              <h3>Secret, for the sender</h3>
              <Copied text={made.secret} label="Secret" />
            </>
          )}
          {made.deliverySecret !== null && (
            <>
              <h3>What deliveries to your program are signed with</h3>
              <Copied text={made.deliverySecret} label="Delivery secret" />
            </>
          )}
        </InfoDialog>
      )}
      {removing && (
        <FormDialog
          title={`Delete the webhook ${removing.name}?`}
          submit="Delete"
          busy="Deleting"
          danger
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await hooks.delete(removing.id);
            reload();
            return `The webhook ${removing.name} was deleted`;
          }}
        >
          <p>
            Its address takes nothing any more, and all of its events are gone for good: {removing.waiting} that wait,{" "}
            {removing.dead} that were given up, and those that were delivered.
          </p>
        </FormDialog>
      )}
      {open && <EventDialog of={of} event={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function hookColumns(remove: ((hook: Hook) => void) | null): Column<Hook>[] {
  const columns: Column<Hook>[] = [
    { title: "Name", bare: true, cell: ({ name }) => <span class="name">{name}</span> },
    { title: "From", cell: ({ provider }) => provider },
    {
      title: "Delivers to",
      cell: ({ port, path }) => (
        <code>
          :{port}
          {path}
        </code>
      ),
    },
    { title: "Takes", cell: ({ enabled }) => (enabled ? "Yes" : "No: turned off") },
    { title: "Waiting", numeric: true, cell: ({ waiting }) => waiting },
    { title: "Given up", numeric: true, cell: ({ dead }) => dead },
    { title: "Last event", cell: ({ lastEventAt }) => <Time at={lastEventAt} /> },
  ];
  if (remove)
    columns.push({
      title: "Actions",
      cell: (hook) => (
        <button type="button" class="quiet-button dangerous" onClick={() => remove(hook)}>
          Delete<span class="unseen"> {hook.name}</span>
        </button>
      ),
    });
  return columns;
}

function NewHookDialog({ onMake, onClose }: { onMake: (input: CreateHook) => Promise<void>; onClose: () => void }) {
  const make = (form: FormData) => {
    const port = number(form, "port");
    const path = text(form, "path");
    const secret = text(form, "secret");
    return onMake({
      name: text(form, "name") ?? "",
      provider: (text(form, "provider") ?? "standard") as HookProvider,
      ...(port === undefined ? {} : { port }),
      ...(path === undefined ? {} : { path }),
      ...(secret === undefined ? {} : { secret }),
    });
  };
  return (
    <FormDialog title="New webhook" submit="Make it" busy="Making" onSubmit={make} onClose={onClose}>
      <div class="field-row">
        <Field label="Name">
          {(ids) => <input {...ids} name="name" required maxLength={128} placeholder="pull-requests" autofocus />}
        </Field>
        <Field label="Who sends">
          {(ids) => (
            <select {...ids} name="provider">
              {hookProviders.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <div class="field-row">
        <Field label="Port">
          {(ids) => <input {...ids} name="port" type="number" min={1} max={65_535} placeholder="8080" />}
        </Field>
        <Field label="Path">{(ids) => <input {...ids} name="path" spellcheck={false} placeholder="/" />}</Field>
      </div>
      <Field label="Secret of the sender" hint="stripe, slack and discord give you one. For others one is made.">
        {(ids) => <input {...ids} name="secret" type="password" autocomplete="off" />}
      </Field>
    </FormDialog>
  );
}

function EventDialog({ of, event, onClose }: { of: SandboxInfo; event: HookEvent; onClose: () => void }) {
  const session = useSession();
  // What senders wrote is for those who may look into the machine.
  const read = useRead(event.id, (signal) =>
    handleOf(of).hooks.events.get(event.id, { body: mayUse(session), signal }),
  );
  const full = read.data ?? event;
  return (
    <InfoDialog title={full.type ?? "Event"} onClose={onClose}>
      <Facts
        of={[
          ["Id", <code>{full.id}</code>],
          ["Of the sender", full.providerId === null ? "–" : <code>{full.providerId}</code>],
          ["Kept until", <Time at={full.expiresAt} none="it is delivered" />],
        ]}
      />
      <h3>What became of it</h3>
      <ol class="timeline">
        {full.timeline.map((step) => (
          <li key={`${step.at} ${step.what}`} class={TONES[step.what]}>
            <time dateTime={step.at}>{clockTime(step.at)}</time>
            <span class="what">{stepText(step)}</span>
          </li>
        ))}
      </ol>
      <Fault of={read.fault} />
      {full.body && (
        <>
          <h3>Body</h3>
          <pre class="content" tabIndex={0} aria-label="Body">
            {full.body.encoding === "text" ? pretty(full.body.data) : `${full.body.data.length} characters of base64`}
          </pre>
        </>
      )}
    </InfoDialog>
  );
}

const TONES: Readonly<Record<HookStep["what"], string>> = {
  received: "paused",
  attempt: "moving",
  delivered: "running",
  dead: "failed",
  ignored: "stopped",
  replayed: "paused",
};

function stepText({ what, status, ms, woken, reason }: HookStep): string {
  if (what === "attempt") {
    const answer = status ? `answered ${status}` : (reason ?? "not reached").replaceAll("_", " ");
    return `Tried: ${answer}${ms === undefined ? "" : ` in ${duration(ms)}`}${woken ? ", woke it" : ""}`;
  }
  const texts = {
    received: "Came",
    delivered: "Delivered",
    dead: "Given up",
    ignored: "Ignored",
    replayed: "To be delivered again",
  };
  return `${texts[what]}${reason === undefined ? "" : `: ${reason.replaceAll("_", " ")}`}`;
}

function pretty(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
