/** The question before a sandbox is deleted: what is lost with it, and for how long that can be taken back. */
import type { SandboxInfo } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { feed } from "../feed.ts";
import { Field, Time } from "../parts/bits.tsx";
import { FormDialog, number } from "../parts/dialog.tsx";
import { say } from "../parts/notes.tsx";
import { bytes, mebibytes } from "../text.ts";

interface Props {
  readonly of: SandboxInfo;
  readonly onClose: () => void;
  readonly onDeleted?: () => void;
}

export function DeleteSandbox({ of, onClose, onDeleted }: Props) {
  const name = of.name ?? of.label;
  const sandbox = handleOf(of);
  const undo = async () => {
    try {
      feed.put((await sandbox.undelete()).info);
      say(`${name} is back`);
    } catch (fault) {
      say(fault instanceof Error ? fault.message : String(fault));
    }
  };
  const remove = async (form: FormData) => {
    const graceSeconds = number(form, "grace") ?? 0;
    await sandbox.delete({ graceSeconds });
    feed.remove(of.label);
    onDeleted?.();
    if (graceSeconds === 0) return `${name} was deleted, with everything in it`;
    say(`${name} was deleted`, { label: "Take it back", act: () => void undo() });
  };
  return (
    <FormDialog title={`Delete ${name}?`} submit="Delete" busy="Deleting" danger onSubmit={remove} onClose={onClose}>
      <p>With it goes, for good:</p>
      <ul class="losses">
        <li>its disk, {mebibytes(of.diskMiB)} at most, with all files</li>
        {of.state === "paused" ? (
          <li>
            its memory, saved <Time at={of.pausedAt} />
            {of.durability?.storedBytes ? ` (${bytes(of.durability.storedBytes)} stored)` : ""}
          </li>
        ) : (
          <li>
            its memory of {mebibytes(of.memoryMiB)}, with{" "}
            {of.state === "running" ? "all that runs in it now" : "what ran in it"}
          </li>
        )}
        <li>its history, share links, webhooks with their inbox, schedules and secrets of its own</li>
        {of.volumes !== undefined && of.volumes.length > 0 && (
          <li>not its volumes: they stay, and can be attached to another</li>
        )}
      </ul>
      <Field label="It can be taken back for">
        {(ids) => (
          <select {...ids} name="grace">
            <option value="86400">a day</option>
            <option value="3600">an hour</option>
            <option value="604800">a week</option>
            <option value="0">not at all</option>
          </select>
        )}
      </Field>
    </FormDialog>
  );
}
