/** Secrets that programs in the sandbox may use, by name: values go in, and are never shown. */
import { useState } from "preact/hooks";
import { secretProviders } from "../../../sdk/contract/secret-providers.ts";
import type { PutSecret, SandboxInfo, Secret, SecretMode, SecretProviderName } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useRead } from "../data.ts";
import { Empty, Field, Loading, Section, Time } from "../parts/bits.tsx";
import { FormDialog, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";
import { count } from "../text.ts";

const MODES: Readonly<Record<SecretMode, string>> = {
  broker: "Put into requests outside of the machine",
  placeholder: "Programs have a word in its place",
  env: "Programs have it as a variable",
};

export function SandboxSecrets({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const { secrets } = handleOf(of);
  const list = useRead(of.id, (signal) => secrets.list({ signal }));
  const attached = useRead(of.id, (signal) => secrets.attached({ signal }));
  const [putting, setPutting] = useState<string | null>(null);
  const [removing, setRemoving] = useState<Secret | null>(null);
  const may = mayUse(session);
  const columns: Column<Secret>[] = [
    { title: "Name", bare: true, cell: ({ name }) => <code class="name">{name}</code> },
    { title: "How", cell: ({ mode }) => MODES[mode] },
    {
      title: "For",
      cell: ({ hosts, envName }) => (
        <>
          {hosts.join(", ")}
          {envName !== null && (
            <>
              {" "}
              <code>${envName}</code>
            </>
          )}
        </>
      ),
    },
    { title: "Set", cell: ({ updatedAt }) => <Time at={updatedAt} /> },
    {
      title: "Last used",
      cell: ({ lastUsedAt, mode }) => <Time at={lastUsedAt} none={mode === "env" ? "not known" : "never"} />,
    },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (secret) => (
        <>
          <button type="button" class="quiet-button" onClick={() => setPutting(secret.name)}>
            Replace<span class="unseen"> {secret.name}</span>
          </button>
          <button type="button" class="quiet-button dangerous" onClick={() => setRemoving(secret)}>
            Remove<span class="unseen"> {secret.name}</span>
          </button>
        </>
      ),
    });
  return (
    <>
      <Section
        title="Secrets of this sandbox"
        actions={
          may && (
            <button type="button" onClick={() => setPutting("")}>
              Set a secret
            </button>
          )
        }
      >
        <Fault of={list.fault} />
        {list.data === null && list.loading && <Loading />}
        {list.data?.length === 0 && (
          <Empty title="No secrets of its own">
            <p>
              A secret is put into requests to hosts that you name, outside of the machine: programs in it use it and
              can't read it.
            </p>
          </Empty>
        )}
        {list.data !== null && list.data.length > 0 && (
          <Table label="Secrets" columns={columns} rows={list.data} keyOf={({ name }) => name} />
        )}
      </Section>
      <Section title="Secrets of the account that it has">
        <Fault of={attached.fault} />
        {attached.data?.length === 0 && <p class="quiet">None.</p>}
        {attached.data !== null && attached.data.length > 0 && (
          <ul class="labels">
            {attached.data.map((name) => (
              <li key={name}>
                <code class="label">{name}</code>
              </li>
            ))}
          </ul>
        )}
      </Section>
      {putting !== null && (
        <PutDialog
          name={putting}
          onClose={() => setPutting(null)}
          onPut={async (name, input) => {
            const { enforced } = await secrets.set(name, input);
            list.reload();
            return enforced ? `${name} is set` : `${name} is set; it counts from the next wake on`;
          }}
        />
      )}
      {removing && (
        <FormDialog
          title={`Remove ${removing.name}?`}
          submit="Remove"
          busy="Removing"
          danger
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await secrets.delete(removing.name);
            list.reload();
            return `${removing.name} was removed`;
          }}
        >
          <p>
            Its value of {count(removing.valueBytes, "byte")} is gone for good. Requests that need it fail from then on
            {removing.hosts.length > 0 ? `: those to ${removing.hosts.join(", ")}` : ""}.
          </p>
        </FormDialog>
      )}
    </>
  );
}

function PutDialog({
  name,
  onPut,
  onClose,
}: {
  name: string;
  onPut: (name: string, input: PutSecret) => Promise<string>;
  onClose: () => void;
}) {
  const [mode, setMode] = useState<SecretMode>("broker");
  const put = (form: FormData) => {
    const provider = text(form, "provider") as SecretProviderName | undefined;
    const hosts = text(form, "hosts")?.split(/[\s,]+/);
    const envName = text(form, "envName");
    const value = form.get("value");
    return onPut(text(form, "name") ?? name, {
      value: typeof value === "string" ? value : "",
      mode,
      ...(provider === undefined || mode === "env" ? {} : { provider }),
      ...(hosts === undefined || mode === "env" ? {} : { hosts }),
      ...(envName === undefined ? {} : { envName }),
    });
  };
  return (
    <FormDialog
      title={name === "" ? "Set a secret" : `Replace ${name}`}
      submit="Set"
      busy="Setting"
      onSubmit={put}
      onClose={onClose}
    >
      {name === "" && (
        <Field label="Name">
          {(ids) => <input {...ids} name="name" required spellcheck={false} placeholder="openai" autofocus />}
        </Field>
      )}
      <Field label="Value" hint="It is sealed, and never shown again.">
        {(ids) => <input {...ids} name="value" type="password" required autocomplete="off" />}
      </Field>
      <Field label="How programs use it">
        {(ids) => (
          <select {...ids} value={mode} onChange={(event) => setMode(event.currentTarget.value as SecretMode)}>
            {Object.entries(MODES).map(([key, said]) => (
              <option key={key} value={key}>
                {said}
              </option>
            ))}
          </select>
        )}
      </Field>
      {mode === "env" ? (
        <Field label="Variable" hint="The name in upper case if left open.">
          {(ids) => <input {...ids} name="envName" spellcheck={false} />}
        </Field>
      ) : (
        <div class="field-row">
          <Field label="Provider" hint="Knows the hosts.">
            {(ids) => (
              <select {...ids} name="provider">
                <option value="">none</option>
                {Object.keys(secretProviders).map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Hosts that get it" hint="Names, with commas between.">
            {(ids) => <input {...ids} name="hosts" spellcheck={false} placeholder="api.example.com" />}
          </Field>
        </div>
      )}
    </FormDialog>
  );
}
