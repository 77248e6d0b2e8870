/** What can be done with a sandbox as a whole, by the state that it is in. */
import { useState } from "preact/hooks";
import type { SandboxInfo } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useDoing } from "../data.ts";
import { feed } from "../feed.ts";
import { InfoDialog } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { DeleteSandbox } from "./delete-sandbox.tsx";

export function SandboxActions({ of, small, onDeleted }: { of: SandboxInfo; small?: boolean; onDeleted?: () => void }) {
  const doing = useDoing();
  const [deleting, setDeleting] = useState(false);
  const name = of.name ?? of.label;
  const pause = () =>
    doing.run("Pausing", async () => {
      const { info } = await handleOf(of).pause();
      feed.put(info);
      return info.state === "paused" ? `${name} sleeps, with its memory` : `${name} is falling asleep`;
    });
  const wake = () =>
    doing.run("Waking", async () => {
      const { info } = await handleOf(of).wake();
      feed.put(info);
      return `${name} is awake`;
    });
  const recover = () =>
    doing.run("Starting", async () => {
      const { info } = await handleOf(of).recover();
      feed.put(info);
      return info.memoryRestored === false ? `${name} runs again, from its disk` : `${name} runs again`;
    });
  const busy = doing.busy !== null;
  const about = small ? <span class="unseen"> {name}</span> : null;
  return (
    <>
      {of.state === "running" && (
        <button type="button" disabled={busy} onClick={() => void pause()}>
          {doing.busy ?? "Pause"}
          {about}
        </button>
      )}
      {of.state === "paused" && (
        <button type="button" disabled={busy} onClick={() => void wake()}>
          {doing.busy ?? "Wake"}
          {about}
        </button>
      )}
      {of.state === "stopped" && of.diskKept && (
        <button type="button" disabled={busy} onClick={() => void recover()}>
          {doing.busy ?? "Start"}
          {about}
        </button>
      )}
      {of.state !== "deleted" && (
        <button type="button" class="quiet-button dangerous" disabled={busy} onClick={() => setDeleting(true)}>
          Delete
          {about}
        </button>
      )}
      {deleting && <DeleteSandbox of={of} onClose={() => setDeleting(false)} {...(onDeleted ? { onDeleted } : {})} />}
      {doing.fault !== null && (
        <InfoDialog title="That did not work" onClose={doing.clear}>
          <Fault of={doing.fault} />
        </InfoDialog>
      )}
    </>
  );
}
