/** Share links: a port of the sandbox for people without a key, until they end or are revoked. */
import { useState } from "preact/hooks";
import type { Link, SandboxInfo } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { Copied, Empty, Field, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { FormDialog, InfoDialog, number, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";

/** How long a link to look at the sandbox oneself lasts, seconds. */
const OWN_SECONDS = 3600;

/** Opens the sandbox in the browser, which has no key for it, by a link of an hour. */
export function OpenButton({ of }: { of: SandboxInfo }) {
  const doing = useDoing();
  const open = () => {
    // Opened while the click counts, or browsers take it for a pop-up that nobody asked for.
    const tab = window.open("about:blank", "_blank");
    if (tab) tab.opener = null;
    void doing
      .run("Opening", async () => {
        if (of.access === "public") return void (tab && (tab.location.href = of.url));
        const link = await handleOf(of).links.create({ name: "opened from the dashboard", ttlSeconds: OWN_SECONDS });
        if (tab && link.urlWithToken !== undefined) tab.location.href = link.urlWithToken;
      })
      .then((worked) => worked || tab?.close());
  };
  return (
    <>
      <button type="button" onClick={open} disabled={doing.busy !== null} title="In a new tab; it wakes by that">
        Open <span aria-hidden="true">↗</span>
        <span class="unseen"> in a new tab</span>
      </button>
      {doing.fault !== null && (
        <InfoDialog title="It can't be opened" onClose={doing.clear}>
          <Fault of={doing.fault} />
        </InfoDialog>
      )}
    </>
  );
}

export function Links({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const { links } = handleOf(of);
  const list = useRead(of.id, (signal) => links.list({ signal }));
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Link | null>(null);
  const [ending, setEnding] = useState<Link | null>(null);
  const may = mayUse(session);
  const columns: Column<Link>[] = [
    { title: "Link", bare: true, cell: ({ name, id }) => <span class="name">{name ?? id}</span> },
    {
      title: "State",
      cell: ({ state }) => <Pill tone={state === "live" ? "running" : "stopped"}>{STATES[state]}</Pill>,
    },
    {
      title: "Opens",
      cell: ({ port, path, wake }) => (
        <>
          <code>
            :{port}
            {path}
          </code>
          {!wake && <span class="quiet"> while awake</span>}
        </>
      ),
    },
    { title: "Ends", cell: ({ expiresAt, revokedAt }) => <Time at={revokedAt ?? expiresAt} /> },
    { title: "Last used", cell: ({ lastUsedAt }) => <Time at={lastUsedAt} /> },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (link) =>
        link.state === "live" && (
          <button type="button" class="quiet-button dangerous" onClick={() => setEnding(link)}>
            Revoke<span class="unseen"> {link.name ?? link.id}</span>
          </button>
        ),
    });
  const newLink = may && (
    <button type="button" onClick={() => setMaking(true)}>
      New link
    </button>
  );
  return (
    <Section title="Share links" actions={newLink}>
      <Fault of={list.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="No links">
          <p>A link lets people without a key open one port of this sandbox, below a path, until it ends.</p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="Share links" columns={columns} rows={list.data} keyOf={({ id }) => id} />
      )}
      {making && (
        <FormDialog
          title="New link"
          submit="Make it"
          busy="Making"
          onClose={() => setMaking(false)}
          onSubmit={async (form) => {
            setMade(
              await links.create({
                name: text(form, "name"),
                port: number(form, "port"),
                path: text(form, "path"),
                ttlSeconds: number(form, "ttl"),
                wake: form.get("wake") !== null,
              }),
            );
            list.reload();
          }}
        >
          <Field label="What it is for" hint="For you: whom it is given to.">
            {(ids) => <input {...ids} name="name" maxLength={64} placeholder="for Ada" autofocus />}
          </Field>
          <div class="field-row">
            <Field label="Port">
              {(ids) => <input {...ids} name="port" type="number" min={1} max={65_535} placeholder="8080" />}
            </Field>
            <Field label="Path">{(ids) => <input {...ids} name="path" spellcheck={false} placeholder="/" />}</Field>
            <Field label="Ends after">
              {(ids) => (
                <select {...ids} name="ttl">
                  <option value="3600">an hour</option>
                  <option value="86400">a day</option>
                  <option value="604800" selected>
                    a week
                  </option>
                  <option value="2592000">30 days</option>
                </select>
              )}
            </Field>
          </div>
          <label class="check">
            <input type="checkbox" name="wake" checked /> It may wake the sandbox
          </label>
        </FormDialog>
      )}
      {made && (
        <InfoDialog title="The link" onClose={() => setMade(null)}>
          <p>It is shown this once. Whoever has it opens port {made.port} of this sandbox.</p>
          <Copied text={made.urlWithToken ?? made.url} label="Link" />
        </InfoDialog>
      )}
      {ending && (
        <FormDialog
          title={`Revoke ${ending.name ?? "the link"}?`}
          submit="Revoke"
          busy="Revoking"
          danger
          onClose={() => setEnding(null)}
          onSubmit={async () => {
            await links.revoke(ending.id);
            list.reload();
            return `The link ${ending.name ?? ending.id} opens nothing any more`;
          }}
        >
          <p>Whoever has it is cut off at once, open connections too. It can't be had back; a new one can be made.</p>
        </FormDialog>
      )}
    </Section>
  );
}

const STATES = { live: "Live", expired: "Over", revoked: "Revoked" } as const;
