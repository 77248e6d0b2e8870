/** What programs in the sandbox may reach outside, and what was refused lately. */
import { useState } from "preact/hooks";
import type { Network, SandboxInfo } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useRead } from "../data.ts";
import { Empty, Facts, Field, Loading, Section, Time } from "../parts/bits.tsx";
import { FormDialog, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table } from "../parts/table.tsx";
import { mayUse, useSession } from "../session.ts";
import { bytes } from "../text.ts";

export function NetworkRules({ of }: { of: SandboxInfo }) {
  const session = useSession();
  const { network } = handleOf(of);
  const read = useRead(`${of.id} ${of.generation}`, (signal) => network.get({ signal }));
  const [changing, setChanging] = useState(false);
  const rules = read.data;
  const save = async (form: FormData) => {
    const lines = (name: string) => (text(form, name) ?? "").split(/[\s,]+/).filter((line) => line !== "");
    const next = await network.set({
      internet: form.get("internet") === "yes",
      allow: lines("allow"),
      deny: lines("deny"),
    });
    read.set(next);
    return next.enforced ? "The rules are in force" : "The rules are set; they count from the next wake on";
  };
  return (
    <>
      <Section
        title="Rules"
        actions={
          mayUse(session) &&
          rules && (
            <button type="button" onClick={() => setChanging(true)}>
              Change
            </button>
          )
        }
      >
        <Fault of={read.fault} />
        {rules === null && read.loading && <Loading />}
        {rules && <Facts of={factsOf(rules)} />}
      </Section>
      {rules && (
        <Section title="Refused lately">
          {rules.refusals.length === 0 ? (
            <Empty title="Nothing was refused" />
          ) : (
            <Table
              label="Refused lately"
              rows={rules.refusals}
              keyOf={({ rule, target }) => `${rule} ${target}`}
              columns={[
                { title: "Target", bare: true, cell: ({ target }) => <code class="name">{target}</code> },
                { title: "By the rule", cell: ({ rule }) => rule },
                { title: "Times", numeric: true, cell: ({ count }) => count },
                { title: "Last", cell: ({ lastAt }) => <Time at={lastAt} /> },
              ]}
            />
          )}
        </Section>
      )}
      {changing && rules && (
        <FormDialog
          title="Network rules"
          submit="Set"
          busy="Setting"
          onSubmit={save}
          onClose={() => setChanging(false)}
        >
          <Field label="What no list names">
            {(ids) => (
              <select {...ids} name="internet" defaultValue={rules.internet ? "yes" : "no"}>
                <option value="yes">may be reached</option>
                <option value="no">is refused</option>
              </select>
            )}
          </Field>
          <Field label="Allowed" hint="Host names, *.name, addresses or ranges; one a line.">
            {(ids) => (
              <textarea {...ids} name="allow" rows={4} spellcheck={false} defaultValue={rules.allow.join("\n")} />
            )}
          </Field>
          <Field label="Denied" hint="Wins over what is allowed.">
            {(ids) => (
              <textarea {...ids} name="deny" rows={4} spellcheck={false} defaultValue={rules.deny.join("\n")} />
            )}
          </Field>
          <p class="hint">It counts at once, for open connections too; of a sandbox that sleeps from its wake on.</p>
        </FormDialog>
      )}
    </>
  );
}

function factsOf(rules: Network): (readonly [string, preact.ComponentChildren])[] {
  const targets = (all: readonly string[]) =>
    all.length === 0 ? (
      <span class="quiet">none</span>
    ) : (
      <ul class="labels">
        {all.map((one) => (
          <li key={one}>
            <code class="label">{one}</code>
          </li>
        ))}
      </ul>
    );
  return [
    ["What no list names", rules.internet ? "may be reached, where it is public" : "is refused"],
    ["Allowed", targets(rules.allow)],
    ["Denied", targets(rules.deny)],
    ["In force", rules.enforced ? "Yes" : "From its next wake on"],
    ["Went out, came in", `${bytes(rules.bytesOut)}, ${bytes(rules.bytesIn)}`],
    ["Last set", <Time at={rules.updatedAt} />],
  ];
}
