/** Entry: who is signed in, the frame around every view, and which view a path means. */
import "./no-eval.ts";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { DashboardSession } from "../../sdk/contract/dashboard.ts";
import { currentSession, signOut, whenSignedOut } from "./api.ts";
import { feed } from "./feed.ts";
import { Fault } from "./parts/fault.tsx";
import { Loading } from "./parts/bits.tsx";
import { Notes, say } from "./parts/notes.tsx";
import { ThemeSwitch } from "./parts/theme-switch.tsx";
import { Link, to, usePath } from "./router.tsx";
import { SandboxView } from "./sandbox/sandbox.tsx";
import { mayOperate, maySeeMoney, mayUse, SessionContext } from "./session.ts";
import { Hosts } from "./views/hosts.tsx";
import { Keys } from "./views/keys.tsx";
import { Members } from "./views/members.tsx";
import { SandboxList } from "./views/sandboxes.tsx";
import { SignIn } from "./views/sign-in.tsx";
import { Usage } from "./views/usage.tsx";

function App() {
  const [session, setSession] = useState<DashboardSession | null | undefined>(undefined);
  const [fault, setFault] = useState<unknown>(null);
  useEffect(() => {
    currentSession().then(setSession, setFault);
    whenSignedOut(() => {
      feed.stop();
      setSession((was) => {
        if (was) say("You were signed out: the session is over.");
        return null;
      });
    });
  }, []);
  if (fault !== null) return <Fault of={fault} />;
  if (session === undefined) return <Loading />;
  const leave = async () => {
    feed.stop();
    await signOut();
    setSession(null);
  };
  return (
    <>
      {session === null ? (
        <SignIn onSignedIn={setSession} />
      ) : (
        <SessionContext.Provider value={session}>
          <Frame session={session} onLeave={() => void leave()} />
        </SessionContext.Provider>
      )}
      <Notes />
    </>
  );
}

function Frame({ session, onLeave }: { session: DashboardSession; onLeave: () => void }) {
  const [view = "sandboxes", ...rest] = usePath();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  // Whoever hears the page learns that another view is there.
  useEffect(() => {
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [view, rest[0]]);
  const money = maySeeMoney(session);
  const links: readonly (readonly [string, string, boolean])[] = [
    ["sandboxes", "Sandboxes", true],
    ["usage", "Usage", money],
    ["keys", "Keys", session.access !== "billing" && session.namePrefix === null],
    ["members", "Members", session.access !== "billing" && session.namePrefix === null],
    ["hosts", "Hosts", mayOperate(session)],
  ];
  return (
    <>
      <a class="skip" href="#main">
        To the content
      </a>
      <header class="top">
        <Link href={to()} class="brand" aria-label="Rouse, to the sandboxes">
          <Mark />
          Rouse
        </Link>
        <nav aria-label="Account">
          {links.map(
            ([path, text, shown]) =>
              shown && (
                <Link
                  key={path}
                  href={path === "sandboxes" ? to() : to(`/${path}`)}
                  aria-current={view === path ? "page" : undefined}
                >
                  {text}
                </Link>
              ),
          )}
        </nav>
        <div class="who">
          <span class="account" title={`Key ${session.keyName}, access ${session.access}`}>
            {session.account}
          </span>
          <ThemeSwitch />
          <button type="button" class="quiet-button" onClick={onLeave}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1} ref={main}>
        {!mayUse(session) && session.access === "read" && view === "sandboxes" && (
          <p class="banner">This key only reads: nothing can be changed with it.</p>
        )}
        <View view={view} rest={rest} />
      </main>
    </>
  );
}

function View({ view, rest }: { view: string; rest: readonly string[] }) {
  const [id, tab = ""] = rest;
  const title =
    id ?? { sandboxes: "Sandboxes", usage: "Usage", keys: "Keys", members: "Members", hosts: "Hosts" }[view];
  useEffect(() => {
    document.title = title ? `${title} · Rouse` : "Rouse";
  }, [title]);
  switch (view) {
    case "sandboxes":
      return id === undefined ? <SandboxList /> : <SandboxView key={id} idOrName={id} tab={tab} />;
    case "usage":
      return <Usage />;
    case "keys":
      return <Keys />;
    case "members":
      return <Members />;
    case "hosts":
      return <Hosts />;
    default:
      return (
        <>
          <h1>Nothing is here</h1>
          <p>
            There is no such page. <Link href={to()}>To the sandboxes</Link>
          </p>
        </>
      );
  }
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M9.5 20.5a6.5 6.5 0 0 1 13 0z" fill="currentColor" />
      <path
        d="M4 20.5h24M9 25.5h14M16 6v4M6.8 10.2l2.6 2.6M25.2 10.2l-2.6 2.6"
        stroke="currentColor"
        stroke-width="2.4"
        stroke-linecap="round"
        fill="none"
      />
    </svg>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
