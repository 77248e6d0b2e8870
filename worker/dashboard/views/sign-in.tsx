/** Signing in: with an API key, or by the approval of somebody who has one. */
import { useEffect, useState } from "preact/hooks";
import type { DashboardSession } from "../../../sdk/contract/dashboard.ts";
import { askApproval, pollApproval, signIn, type DeviceCode } from "../api.ts";
import { Mark } from "../app.tsx";
import { useDoing } from "../data.ts";
import { Copied, Field } from "../parts/bits.tsx";
import { InfoDialog, text } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { ThemeSwitch } from "../parts/theme-switch.tsx";

interface Props {
  readonly onSignedIn: (session: DashboardSession) => void;
}

export function SignIn({ onSignedIn }: Props) {
  const doing = useDoing();
  const [device, setDevice] = useState<DeviceCode | null>(null);
  const [begun, setBegun] = useState<DashboardSession | null>(null);
  useEffect(() => {
    document.title = "Sign in · Rouse";
  }, []);
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    const key = text(new FormData(event.currentTarget as HTMLFormElement), "key") ?? "";
    void doing.run("Signing in", async () => onSignedIn(await signIn(key)));
  };
  const ask = () => void doing.run("Asking", async () => setDevice(await askApproval()));
  const taken = (session: DashboardSession) => (session.newKey === undefined ? onSignedIn(session) : setBegun(session));
  return (
    <main class="sign-in" id="main">
      <div class="sign-in-card">
        <h1>
          <Mark /> Rouse
        </h1>
        {device ? (
          <Waiting device={device} onApproved={taken} onBack={() => setDevice(null)} />
        ) : (
          <>
            <form onSubmit={send}>
              <Field
                label="API key"
                hint="It is not kept in this browser: you get a session of 12 hours, which signing out ends."
              >
                {(ids) => (
                  <input
                    {...ids}
                    name="key"
                    type="password"
                    autocomplete="off"
                    spellcheck={false}
                    required
                    placeholder="rouse_…"
                  />
                )}
              </Field>
              <Fault of={doing.fault} />
              <button class="primary" disabled={doing.busy !== null}>
                {doing.busy === "Signing in" ? "Signing in …" : "Sign in"}
              </button>
            </form>
            <p class="or">
              <span>or</span>
            </p>
            <button type="button" onClick={ask} disabled={doing.busy !== null}>
              Have it approved elsewhere
            </button>
          </>
        )}
      </div>
      <div class="sign-in-foot">
        <ThemeSwitch />
      </div>
      {begun?.newKey !== undefined && (
        <InfoDialog title="Your account was made" onClose={() => onSignedIn(begun)}>
          <p>
            This is the key of the account <strong>{begun.account}</strong>. It is shown this once: keep it, for there
            is no other way back in.
          </p>
          <Copied text={begun.newKey} label="API key" />
        </InfoDialog>
      )}
    </main>
  );
}

const ENDS: Readonly<Record<string, string>> = {
  access_denied: "It was refused.",
  expired_token: "The code was not approved in time.",
  invalid_grant: "The code counts no more.",
};

function Waiting({
  device,
  onApproved,
  onBack,
}: {
  device: DeviceCode;
  onApproved: (session: DashboardSession) => void;
  onBack: () => void;
}) {
  const [end, setEnd] = useState<unknown>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const poll = async () => {
      try {
        const answer = await pollApproval(device.deviceCode);
        if (over) return;
        if (typeof answer !== "string") return onApproved(answer);
        if (ENDS[answer] !== undefined) return setEnd(new Error(ENDS[answer]));
      } catch (fault) {
        if (!over) setEnd(fault);
        return;
      }
      timer = setTimeout(() => void poll(), device.intervalSeconds * 1000);
    };
    timer = setTimeout(() => void poll(), device.intervalSeconds * 1000);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [device]);
  return (
    <div class="waiting-code">
      <p>Open this page where you have a key, and see that it shows the same code:</p>
      <p class="code">{device.userCode}</p>
      <Copied text={device.uri} label="Address of the approval" />
      <p>
        <a href={device.uri} target="_blank" rel="noopener">
          Open it in this browser
        </a>
      </p>
      {end === null ? (
        <p class="loading" role="status">
          Waiting for the approval …
        </p>
      ) : (
        <Fault of={end} />
      )}
      <button type="button" onClick={onBack}>
        Back
      </button>
    </div>
  );
}
