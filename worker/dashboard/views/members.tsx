/** People of the account, and what their keys may do at most. */
import { useState } from "preact/hooks";
import { memberRoles } from "../../../sdk/contract/account.ts";
import type { Member, MemberRole } from "../../../sdk/src/index.ts";
import { rouse } from "../api.ts";
import { useRead } from "../data.ts";
import { Empty, Field, Loading, Time } from "../parts/bits.tsx";
import { FormDialog, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mayAdminister, useSession } from "../session.ts";

const ROLES: Readonly<Record<MemberRole, string>> = {
  owner: "Owner: everything",
  admin: "Admin: everything",
  developer: "Developer: uses sandboxes",
  billing: "Billing: reads usage",
};

export function Members() {
  const session = useSession();
  const list = useRead("members", (signal) => rouse.members.list({ signal }));
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Member | null>(null);
  const may = mayAdminister(session);
  const columns: Column<Member>[] = [
    { title: "Name", bare: true, cell: ({ name }) => <span class="name">{name}</span> },
    { title: "E-mail", cell: ({ email }) => email ?? <span class="quiet">none</span> },
    { title: "Role", cell: ({ role }) => ROLES[role] },
    { title: "Since", cell: ({ createdAt }) => <Time at={createdAt} /> },
  ];
  if (may)
    columns.push({
      title: "Actions",
      cell: (member) => (
        <button type="button" class="quiet-button dangerous" onClick={() => setRemoving(member)}>
          Remove<span class="unseen"> {member.name}</span>
        </button>
      ),
    });
  return (
    <>
      <div class="view-head">
        <h1>Members</h1>
        {may && (
          <button type="button" class="primary" onClick={() => setAdding(true)}>
            Add somebody
          </button>
        )}
      </div>
      <Fault of={list.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="Nobody yet">
          <p>Keys can be given to members: whoever is removed loses all of theirs at once.</p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="Members" columns={columns} rows={list.data} keyOf={({ id }) => id} />
      )}
      {adding && (
        <FormDialog
          title="Add somebody"
          submit="Add"
          busy="Adding"
          onClose={() => setAdding(false)}
          onSubmit={async (form) => {
            const email = text(form, "email");
            const name = text(form, "name") ?? "";
            await rouse.members.create({
              name,
              role: (text(form, "role") ?? "developer") as MemberRole,
              ...(email === undefined ? {} : { email }),
            });
            list.reload();
            return `${name} is a member`;
          }}
        >
          <Field label="Name">{(ids) => <input {...ids} name="name" required maxLength={128} autofocus />}</Field>
          <Field label="E-mail">{(ids) => <input {...ids} name="email" type="email" />}</Field>
          <Field label="Role">
            {(ids) => (
              <select {...ids} name="role" defaultValue="developer">
                {memberRoles.map((one) => (
                  <option key={one} value={one}>
                    {ROLES[one]}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </FormDialog>
      )}
      {removing && (
        <FormDialog
          title={`Remove ${removing.name}?`}
          submit="Remove"
          busy="Removing"
          danger
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await rouse.members.remove(removing.id);
            list.reload();
            return `${removing.name} was removed, and their keys revoked`;
          }}
        >
          <p>All keys that {removing.name} holds are revoked at once. Sandboxes that were made with them stay.</p>
        </FormDialog>
      )}
    </>
  );
}
