/** A shell in the sandbox. It is a process of its own: it goes on when the page is left, and is there again on coming back. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { SandboxInfo } from "../../../sdk/src/index.ts";
import { NotFoundError } from "../../../sdk/src/errors.ts";
import type { Terminal } from "../../../sdk/src/terminal.ts";
import { handleOf } from "../api.ts";
import { Empty, Section } from "../parts/bits.tsx";
import { Fault } from "../parts/fault.tsx";

export function TerminalView({ of }: { of: SandboxInfo }) {
  const [asked, setAsked] = useState(false);
  // Counted up for a new shell.
  const [turn, setTurn] = useState(0);
  if (of.state !== "running" && !asked)
    return (
      <Section title="Terminal">
        <Empty title="It sleeps">
          <p>A shell in it wakes it.</p>
          <button type="button" class="primary" onClick={() => setAsked(true)} disabled={of.state !== "paused"}>
            Wake it and open a shell
          </button>
        </Empty>
      </Section>
    );
  return <Screen key={turn} of={of} onAgain={() => setTurn((n) => n + 1)} />;
}

type State = "opening" | "open" | { readonly exitCode: number | null };

function Screen({ of, onAgain }: { of: SandboxInfo; onAgain: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<State>("opening");
  const [fault, setFault] = useState<unknown>(null);
  useEffect(() => {
    const closed = new AbortController();
    if (box.current) show(of, box.current, setState, closed.signal).catch(setFault);
    return () => closed.abort();
  }, [of.id]);
  const isOver = typeof state === "object";
  return (
    <Section
      title="Terminal"
      actions={
        isOver || fault !== null ? (
          <button type="button" onClick={onAgain}>
            New shell
          </button>
        ) : (
          <span class="quiet">Shift+F6 leaves it</span>
        )
      }
    >
      <Fault of={fault} />
      <p role="status" class={state === "open" ? "unseen" : "quiet"}>
        {isOver
          ? `The shell ended${state.exitCode ? ` with ${state.exitCode}` : ""}.`
          : state === "open"
            ? "The shell is open."
            : "Opening …"}
      </p>
      <div ref={box} class="shell" />
    </Section>
  );
}

/** Which shell this tab had: coming back, it goes on with that. */
const keyOf = (of: SandboxInfo): string => `rouse-terminal ${of.id}`;

async function show(
  of: SandboxInfo,
  box: HTMLElement,
  tell: (state: State) => void,
  closed: AbortSignal,
): Promise<void> {
  const [{ Terminal: Xterm }, { FitAddon }] = await Promise.all([import("@xterm/xterm"), import("@xterm/addon-fit")]);
  if (closed.aborted) return;
  const screen = new Xterm({
    fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
    fontSize: 13,
    scrollback: 5000,
    screenReaderMode: true,
    theme: { background: "#14161c", foreground: "#e6e6ec", cursor: "#f6c667", selectionBackground: "#3d4270" },
  });
  const fit = new FitAddon();
  screen.loadAddon(fit);
  screen.open(box);
  fit.fit();
  screen.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6" || !event.shiftKey) return true;
    if (event.type === "keydown") document.getElementById("main")?.focus();
    return false;
  });
  const shell = await shellOf(of, screen.cols, screen.rows);
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(box);
  closed.addEventListener("abort", () => {
    observer.disconnect();
    shell.detach();
    screen.dispose();
  });
  if (closed.aborted) return shell.detach();
  sessionStorage.setItem(keyOf(of), shell.id);
  // What can't be typed any more was typed into a shell that is over, which its events say.
  screen.onData((data) => void shell.write(data).catch(() => undefined));
  screen.onResize(({ cols, rows }) => shell.resize(cols, rows));
  screen.focus();
  tell("open");
  for await (const event of shell.events()) {
    if (event.type === "output") screen.write(event.data);
    else if (event.type === "truncated") screen.write(`\r\n[${event.droppedBytes} bytes are not kept any more]\r\n`);
    else {
      sessionStorage.removeItem(keyOf(of));
      tell({ exitCode: event.exitCode });
    }
  }
}

async function shellOf(of: SandboxInfo, cols: number, rows: number): Promise<Terminal> {
  const { terminal } = handleOf(of);
  const known = sessionStorage.getItem(keyOf(of));
  if (known !== null) {
    try {
      return await terminal.attach(known, { cols, rows });
    } catch (fault) {
      if (!(fault instanceof NotFoundError)) throw fault;
    }
  }
  return terminal.open({ cols, rows });
}
