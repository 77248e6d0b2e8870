/** One sandbox: what it is and does, and a view for each side of it. */
import type { FunctionComponent } from "preact";
import { useMemo } from "preact/hooks";
import type { SandboxInfo } from "../../../sdk/src/index.ts";
import { NotFoundError, type RouseError } from "../../../sdk/src/errors.ts";
import { rouse } from "../api.ts";
import { useRead } from "../data.ts";
import { useSandboxes } from "../feed.ts";
import { Empty, Labels, Loading, StatePill } from "../parts/bits.tsx";
import { Fault } from "../parts/fault.tsx";
import { Link, navigate, to, toSandbox } from "../router.tsx";
import { mayUse, useSession } from "../session.ts";
import { SandboxActions } from "./actions.tsx";
import { Files } from "./files.tsx";
import { Inbox } from "./inbox.tsx";
import { Links, OpenButton } from "./links.tsx";
import { NetworkRules } from "./network.tsx";
import { Overview } from "./overview.tsx";
import { Schedules } from "./schedules.tsx";
import { SandboxSecrets } from "./secrets.tsx";
import { Services } from "./services.tsx";
import { Sessions } from "./sessions.tsx";
import { Snapshots } from "./snapshots.tsx";
import { TerminalView } from "./terminal.tsx";

interface Tab {
  readonly path: string;
  readonly title: string;
  readonly view: FunctionComponent<{ of: SandboxInfo }>;
  /** It shows what is inside: for keys that use sandboxes. */
  readonly inside?: true;
}

const TABS: readonly Tab[] = [
  { path: "", title: "Overview", view: Overview },
  { path: "files", title: "Files", view: Files, inside: true },
  { path: "terminal", title: "Terminal", view: TerminalView, inside: true },
  { path: "links", title: "Links", view: LinksAndTokens },
  { path: "inbox", title: "Inbox", view: Inbox },
  { path: "snapshots", title: "Snapshots", view: Snapshots },
  { path: "schedules", title: "Schedules", view: Schedules },
  { path: "secrets", title: "Secrets", view: SandboxSecrets },
  { path: "network", title: "Network", view: NetworkRules },
  { path: "services", title: "Services", view: Services },
];

/** What others were given of the sandbox. */
function LinksAndTokens({ of }: { of: SandboxInfo }) {
  return (
    <>
      <Links of={of} />
      <Sessions of={of} />
    </>
  );
}

export function SandboxView({ idOrName, tab }: { idOrName: string; tab: string }) {
  const session = useSession();
  const { all } = useSandboxes();
  const read = useRead(idOrName, async (signal) => (await rouse.sandboxes.get(idOrName, { signal })).info);
  const known = useMemo(
    () => [...(all?.values() ?? [])].find(({ id, name }) => id === idOrName || name === idOrName),
    [all, idOrName],
  );
  // What single reads tell more than lists stays, while the state is the newest.
  const sandbox = known ? (read.data?.id === known.id ? { ...read.data, ...known } : known) : read.data;
  const isGone = all !== null && !known && read.data !== null && !read.loading;
  if (!sandbox) {
    if (read.loading) return <Loading />;
    const isMissing = read.fault instanceof NotFoundError || (read.fault as RouseError | null)?.status === 410;
    return (
      <>
        <h1>{idOrName}</h1>
        {isMissing ? <Gone /> : <Fault of={read.fault} />}
      </>
    );
  }
  const shown = TABS.filter(({ inside }) => !inside || mayUse(session));
  const current = shown.find(({ path }) => path === tab) ?? TABS[0];
  const View = current?.view;
  const name = sandbox.name ?? sandbox.label;
  return (
    <>
      <p class="crumb">
        <Link href={to()}>Sandboxes</Link>
      </p>
      <div class="view-head">
        <div>
          <h1 class="sandbox-title">
            {name} <StatePill state={isGone ? "deleted" : sandbox.state} />
          </h1>
          <Labels of={sandbox.labels} />
        </div>
        {mayUse(session) && !isGone && (
          <div class="actions">
            <OpenButton of={sandbox} />
            <SandboxActions of={sandbox} onDeleted={() => navigate(to())} />
          </div>
        )}
      </div>
      {isGone ? (
        <Gone />
      ) : (
        <>
          {sandbox.lastError !== null && (
            <div class="fault">
              <p class="fault-message">The last step failed: {sandbox.lastError}</p>
            </div>
          )}
          <nav class="tabs" aria-label={`Views of ${name}`}>
            {shown.map(({ path, title }) => (
              <Link
                key={path}
                href={toSandbox(sandbox, path)}
                aria-current={path === current?.path ? "page" : undefined}
              >
                {title}
              </Link>
            ))}
          </nav>
          {View && <View of={sandbox} key={sandbox.id} />}
        </>
      )}
    </>
  );
}

function Gone() {
  return (
    <Empty title="There is no such sandbox">
      <p>It was deleted, or never was under this name.</p>
      <Link href={to()}>To the sandboxes</Link>
    </Empty>
  );
}
