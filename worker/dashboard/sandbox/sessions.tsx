/** Session tokens: what web pages and other programs have of this sandbox, and their end before its time. */
import { useState } from "preact/hooks";
import type { SandboxInfo, Session } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useRead } from "../data.ts";
import { Empty, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { FormDialog } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";

export function Sessions({ of }: { of: SandboxInfo }) {
  const { sessions } = handleOf(of);
  const list = useRead(of.id, (signal) => sessions.list({ signal }));
  const [ending, setEnding] = useState<Session | null>(null);
  const columns: Column<Session>[] = [
    { title: "Token", bare: true, cell: ({ name, id }) => <span class="name">{name ?? id}</span> },
    {
      title: "State",
      cell: ({ state }) => <Pill tone={state === "active" ? "running" : "stopped"}>{STATES[state]}</Pill>,
    },
    { title: "May use", cell: ({ scopes }) => scopes.join(", ") },
    {
      title: "From",
      cell: ({ origins, servers }) => [...origins, ...(servers ? ["servers"] : [])].join(", "),
    },
    { title: "Ends", cell: ({ expiresAt, revokedAt }) => <Time at={revokedAt ?? expiresAt} /> },
    { title: "Last used", cell: ({ lastUsedAt }) => <Time at={lastUsedAt} /> },
  ];
  if (mayUse(useSession()))
    columns.push({
      title: "Actions",
      cell: (session) =>
        session.state === "active" && (
          <button type="button" class="quiet-button dangerous" onClick={() => setEnding(session)}>
            Revoke<span class="unseen"> {session.name ?? session.id}</span>
          </button>
        ),
    });
  return (
    <Section title="Session tokens">
      <Fault of={list.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="No session tokens">
          <p>
            A server that has a key gives one to a web page, which then uses this sandbox for some minutes:{" "}
            <code>sandbox.sessions.create</code>.
          </p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="Session tokens" columns={columns} rows={list.data} keyOf={({ id }) => id} />
      )}
      {ending && (
        <FormDialog
          title={`Revoke ${ending.name ?? "the token"}?`}
          submit="Revoke"
          busy="Revoking"
          danger
          onClose={() => setEnding(null)}
          onSubmit={async () => {
            await sessions.revoke(ending.id);
            list.reload();
            return `The token ${ending.name ?? ending.id} is good for nothing any more`;
          }}
        >
          <p>Whoever has it is cut off at once, open connections too. Its page has to ask your server for another.</p>
        </FormDialog>
      )}
    </Section>
  );
}

const STATES = { active: "Active", expired: "Over", revoked: "Revoked" } as const;
