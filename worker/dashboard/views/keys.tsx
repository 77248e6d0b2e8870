/** API keys of the account: what each may do, made here and shown once, and revoked. */
import { useState } from "preact/hooks";
import { keyAccesses } from "../../../sdk/contract/account.ts";
import type { Key, KeyAccess, NewKey } from "../../../sdk/src/index.ts";
import { rouse } from "../api.ts";
import { useRead } from "../data.ts";
import { Copied, Empty, Field, Loading, Pill, Section, Time } from "../parts/bits.tsx";
import { FormDialog, InfoDialog, number, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayAdminister, useSession } from "../session.ts";
import { money } from "../text.ts";

const ACCESS: Readonly<Record<KeyAccess, string>> = {
  full: "Everything",
  sandboxes: "Uses sandboxes",
  read: "Only reads",
  billing: "Reads usage",
};

export function Keys() {
  const session = useSession();
  const list = useRead("keys", (signal) => rouse.keys.list({ signal }));
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<NewKey | null>(null);
  const [ending, setEnding] = useState<Key | null>(null);
  const [ended, setEnded] = useState(false);
  const may = mayAdminister(session);
  const columns: Column<Key>[] = [
    {
      title: "Key",
      bare: true,
      cell: ({ name, id }) => (
        <div class="name-cell">
          <span class="name">
            {name}
            {id === session.keyId && <span class="label">this session's</span>}
          </span>
          <code class="quiet">{id}</code>
        </div>
      ),
    },
    { title: "State", cell: (key) => stateOf(key) },
    {
      title: "May",
      cell: ({ access, namePrefix }) => (
        <>
          {ACCESS[access]}
          {namePrefix !== null && (
            <>
              {" "}
              named <code>{namePrefix}…</code>
            </>
          )}
        </>
      ),
    },
    { title: "Spent today", numeric: true, cell: ({ spentTodayMicros }) => money(spentTodayMicros) },
    { title: "Made", cell: ({ createdAt }) => <Time at={createdAt} /> },
    { title: "Ends", cell: ({ expiresAt }) => <Time at={expiresAt} none="never" /> },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (key) =>
        isLive(key) && (
          <button type="button" class="quiet-button dangerous" onClick={() => setEnding(key)}>
            Revoke<span class="unseen"> {key.name}</span>
          </button>
        ),
    });
  const all = list.data ?? [];
  const over = all.filter((key) => !isLive(key)).length;
  const rows = ended ? all : all.filter(isLive);
  return (
    <>
      <div class="view-head">
        <h1>Keys</h1>
        {may && (
          <button type="button" class="primary" onClick={() => setMaking(true)}>
            New key
          </button>
        )}
      </div>
      <Section
        title="API keys"
        actions={
          over > 0 && (
            <label class="check">
              <input type="checkbox" checked={ended} onChange={(event) => setEnded(event.currentTarget.checked)} /> Also
              those that are over ({over})
            </label>
          )
        }
      >
        <Fault of={list.fault} />
        {list.data === null && list.loading && <Loading />}
        {list.data !== null && rows.length === 0 && <Empty title="No keys" />}
        {rows.length > 0 && <Table label="API keys" columns={columns} rows={rows} keyOf={({ id }) => id} />}
      </Section>
      {making && (
        <FormDialog
          title="New key"
          submit="Make it"
          busy="Making"
          onClose={() => setMaking(false)}
          onSubmit={async (form) => {
            const dollars = number(form, "daily");
            setMade(
              await rouse.keys.create({
                name: text(form, "name") ?? "key",
                access: (text(form, "access") ?? "sandboxes") as KeyAccess,
                ...(text(form, "prefix") === undefined ? {} : { namePrefix: text(form, "prefix") ?? "" }),
                ...(text(form, "ttl") === undefined ? {} : { ttlSeconds: number(form, "ttl") ?? 0 }),
                ...(dollars === undefined ? {} : { dailyLimitMicros: Math.round(dollars * 1_000_000) }),
              }),
            );
            list.reload();
          }}
        >
          <Field label="Name" hint="Who or what has it.">
            {(ids) => <input {...ids} name="name" required maxLength={128} placeholder="ci" autofocus />}
          </Field>
          <div class="field-row">
            <Field label="It may">
              {(ids) => (
                <select {...ids} name="access" defaultValue="sandboxes">
                  {keyAccesses.map((one) => (
                    <option key={one} value={one}>
                      {ACCESS[one]}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <Field label="Ends after">
              {(ids) => (
                <select {...ids} name="ttl">
                  <option value="">never</option>
                  <option value="86400">a day</option>
                  <option value="2592000">30 days</option>
                  <option value="31536000">a year</option>
                </select>
              )}
            </Field>
          </div>
          <div class="field-row">
            <Field label="Only sandboxes named" hint="The beginning of their names; all if left open.">
              {(ids) => <input {...ids} name="prefix" maxLength={64} spellcheck={false} placeholder="ci-" />}
            </Field>
            <Field label="Spends a day at most, $">
              {(ids) => <input {...ids} name="daily" type="number" min={0} step="0.01" placeholder="no limit" />}
            </Field>
          </div>
        </FormDialog>
      )}
      {made && (
        <InfoDialog title={`Key ${made.name}`} onClose={() => setMade(null)}>
          <p>It is shown this once: only its hash is kept.</p>
          <Copied text={made.key} label="API key" />
        </InfoDialog>
      )}
      {ending && (
        <FormDialog
          title={`Revoke ${ending.name}?`}
          submit="Revoke"
          busy="Revoking"
          danger
          onClose={() => setEnding(null)}
          onSubmit={async () => {
            await rouse.keys.revoke(ending.id);
            list.reload();
            return `${ending.name} opens nothing any more`;
          }}
        >
          <p>
            Whatever uses it is refused from now on, and its open connections end. It can't be had back. Sandboxes that
            were made with it stay.
          </p>
          {ending.id === session.keyId && (
            <p>
              <strong>You are signed in by this key: this session ends with it.</strong>
            </p>
          )}
        </FormDialog>
      )}
    </>
  );
}

const isLive = ({ revokedAt, expiresAt }: Key): boolean =>
  revokedAt === null && (expiresAt === null || Date.parse(expiresAt) > Date.now());

function stateOf(key: Key) {
  if (key.revokedAt !== null) return <Pill tone="stopped">Revoked</Pill>;
  return isLive(key) ? <Pill tone="running">Live</Pill> : <Pill tone="stopped">Over</Pill>;
}
