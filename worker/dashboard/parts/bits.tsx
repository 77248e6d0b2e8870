/** The small things that views are made of. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { SandboxState } from "../../../sdk/src/index.ts";
import { ago, fullTime } from "../text.ts";
import { useNow } from "../data.ts";
import { say } from "./notes.tsx";

const STATES: Readonly<Record<SandboxState, { tone: string; text: string }>> = {
  starting: { tone: "moving", text: "Starting" },
  running: { tone: "running", text: "Running" },
  pausing: { tone: "moving", text: "Falling asleep" },
  paused: { tone: "paused", text: "Paused" },
  resuming: { tone: "moving", text: "Waking" },
  stopping: { tone: "moving", text: "Stopping" },
  stopped: { tone: "stopped", text: "Stopped" },
  deleted: { tone: "stopped", text: "Deleted" },
};

export function StatePill({ state }: { state: SandboxState }) {
  const { tone, text } = STATES[state];
  return <Pill tone={tone}>{text}</Pill>;
}

export function Pill({ tone, children }: { tone: string; children: ComponentChildren }) {
  return (
    <span class={`pill ${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

/** A time, said from now, with the whole of it to be looked up. */
export function Time({ at, none = "never" }: { at: string | null | undefined; none?: string }) {
  const now = useNow();
  if (!at) return <span class="quiet">{none}</span>;
  return (
    <time dateTime={at} title={fullTime(at)}>
      {ago(at, now)}
    </time>
  );
}

export function Labels({ of, onPick }: { of: Record<string, string>; onPick?: (label: string) => void }) {
  const all = Object.entries(of);
  if (all.length === 0) return null;
  return (
    <ul class="labels" aria-label="Labels">
      {all.map(([key, value]) => (
        <li key={key}>
          {onPick ? (
            <button
              type="button"
              class="label"
              title={`Only ${key}=${value}`}
              onClick={() => onPick(`${key}=${value}`)}
            >
              {key}={value}
            </button>
          ) : (
            <span class="label">
              {key}={value}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** While something is read for the first time. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="loading" role="status">
      {what} …
    </p>
  );
}

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly children: (ids: { id: string; "aria-describedby": string | undefined }) => ComponentChildren;
}

/** A form's field: its label above, a hint below that is read with it. */
export function Field({ label, hint, children }: FieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": hint === undefined ? undefined : `${id}-hint` })}
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

/** A text to be copied, such as a command or what is shown once. */
export function Copied({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    say(`${label} copied`);
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <div class="copied">
      <code tabIndex={0} aria-label={label}>
        {text}
      </code>
      <button type="button" onClick={copy} aria-label={`Copy ${label}`}>
        {done ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

export function Section({
  title,
  actions,
  children,
}: {
  title: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class="section" aria-labelledby={id}>
      <div class="section-head">
        <h2 id={id}>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** Names and values, side by side. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
