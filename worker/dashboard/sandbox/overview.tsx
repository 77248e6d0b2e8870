/** Why it is awake, when it slept and woke, what it costs, and what it is. */
import { useEffect } from "preact/hooks";
import type { Awake, Cause, SandboxInfo, TimelineEntry, Why } from "../../../sdk/src/index.ts";
import { handleOf } from "../api.ts";
import { useNow, useRead } from "../data.ts";
import { Empty, Facts, Loading, Section, Time } from "../parts/bits.tsx";
import { Fault } from "../parts/fault.tsx";
import { bytes, clockTime, count, duration, mebibytes, money, reasonText } from "../text.ts";
import { monthlyMicros } from "./forecast.ts";

/** What keeps it awake is asked again after this, milliseconds; that wakes nothing. */
const LOOK_MS = 20_000;

export function Overview({ of }: { of: SandboxInfo }) {
  const why = useRead(`${of.id} ${of.state} ${of.generation}`, (signal) => handleOf(of).why({ signal }));
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && why.reload(), LOOK_MS);
    return () => clearInterval(timer);
  }, [why.reload]);
  const now = useNow();
  const cost = why.data?.chargedMicros ?? of.chargedMicros;
  const forecast = monthlyMicros(cost, of.createdAt, now);
  return (
    <div class="columns">
      <div>
        <Section title={titleOf(of)}>
          <Fault of={why.fault} />
          {why.data ? <AwakeBecause of={of} why={why.data} /> : why.loading && <Loading />}
        </Section>
        <Section title="Sleeps and wakes">
          {why.data && <Timeline entries={why.data.timeline} />}
          {!why.data && why.loading && <Loading />}
        </Section>
      </div>
      <div>
        <Section title="Cost">
          <div class="figures">
            <p>
              <strong>{money(cost)}</strong> so far
            </p>
            <p>
              <strong>{forecast === null ? "–" : money(forecast)}</strong>{" "}
              {forecast === null ? "a month: too young to say" : "a month, going on as so far"}
            </p>
          </div>
          {typeof of.maxTotalCostMicros === "number" && (
            <p class="quiet">It may cost {money(of.maxTotalCostMicros)} in its whole life.</p>
          )}
        </Section>
        <Section title="Machine">
          <Facts of={factsOf(of)} />
        </Section>
      </div>
    </div>
  );
}

function titleOf({ state }: SandboxInfo): string {
  if (state === "running") return "Why it is awake";
  if (state === "paused") return "Asleep";
  if (state === "stopped") return "Stopped";
  return "Under way";
}

function AwakeBecause({ of, why }: { of: SandboxInfo; why: Why }) {
  if (of.state === "paused")
    return (
      <>
        <p>
          It fell asleep <Time at={of.pausedAt} />
          {of.stopReason ? `: ${reasonText(of.stopReason)}` : ""}. Its memory is kept; the first request wakes it
          {of.autoWake ? "" : ", but it is set to wake only when asked to"}.
        </p>
        <ul class="because">
          {of.durability && <li>{DURABILITY[of.durability.state]}</li>}
          {of.pausedExpiresAt && (
            <li>
              It is deleted <Time at={of.pausedExpiresAt} />, {count(of.retentionDays, "day")} after it fell asleep,
              unless it is used before.
            </li>
          )}
          {of.wakesAt && (
            <li>
              It wakes by itself <Time at={of.wakesAt} />, as a program in it asked.
            </li>
          )}
        </ul>
      </>
    );
  if (of.state === "stopped")
    return (
      <p>
        It was stopped <Time at={of.endedAt} none="a while ago" />
        {of.stopReason ? `: ${reasonText(of.stopReason)}` : ""}.{" "}
        {of.diskKept ? "Its disk is kept: started again, it boots from there." : "Its disk is gone."}
      </p>
    );
  if (why.awake.length === 0)
    return <p>{of.state === "running" ? "Nothing keeps it awake: it falls asleep soon." : "It is on its way."}</p>;
  return (
    <>
      <ul class="because">
        {why.awake.map((one) => (
          <li key={JSON.stringify(one)}>
            <Because of={one} />
          </li>
        ))}
      </ul>
      {!why.hostAnswered && <p class="quiet">Its host did not say what is under way right now.</p>}
    </>
  );
}

const DURABILITY = {
  cached: "What it sleeps with is saved, and on its way to the disk.",
  local: "What it sleeps with is on its host's disk, and on its way to the store.",
  durable: "What it sleeps with is stored off its host: it can wake on another.",
  cold: "What it sleeps with is in the store alone.",
} as const;

function Because({ of }: { of: Awake }) {
  switch (of.because) {
    case "hold":
      return (
        <>
          It is held by <code>{of.name}</code>; that ends <Time at={of.until} />.
        </>
      );
    case "connections":
      return <>{count(of.count, "request or connection is", "requests or connections are")} under way.</>;
    case "recent_use":
      return (
        <>
          It was used <Time at={of.lastActiveAt} />; it falls asleep <Time at={of.pausesAt} />, unless it is used again.
        </>
      );
    case "cpu":
      return (
        <>
          Its CPU is at work; it was last used <Time at={of.lastActiveAt} />.
        </>
      );
    case "no_idle_pause":
      return <>It is set never to fall asleep by itself.</>;
  }
}

const EVENTS: Readonly<Record<TimelineEntry["event"], { text: string; tone: string }>> = {
  created: { text: "Made", tone: "running" },
  woke: { text: "Woke", tone: "running" },
  booted: { text: "Booted from disk", tone: "running" },
  failed: { text: "Failed", tone: "failed" },
  paused: { text: "Fell asleep", tone: "paused" },
  stopped: { text: "Stopped", tone: "stopped" },
};

function Timeline({ entries }: { entries: readonly TimelineEntry[] }) {
  if (entries.length === 0) return <Empty title="Nothing has happened yet" />;
  return (
    <ol class="timeline">
      {entries.map((entry) => {
        const { text, tone } = EVENTS[entry.event];
        return (
          <li key={`${entry.at} ${entry.event} ${entry.generation}`} class={tone}>
            <time dateTime={entry.at}>{clockTime(entry.at)}</time>
            <span class="what">
              {text}
              {entry.tookMs !== null && <span class="took"> in {duration(entry.tookMs)}</span>}
              {entry.reason !== null && <span class="quiet">: {reasonText(entry.reason)}</span>}
            </span>
            {entry.cause && <CauseText of={entry.cause} />}
          </li>
        );
      })}
    </ol>
  );
}

const CAUSES: Readonly<Record<Cause["kind"], string>> = {
  request: "a request",
  api: "the API",
  hook: "a webhook",
  schedule: "a schedule",
  socket: "a message on a held socket",
  timer: "a timer of a program in it",
};

function CauseText({ of }: { of: Cause }) {
  return (
    <span class="cause">
      by {CAUSES[of.kind]} <code>{of.request}</code>
      {of.port !== null && ` to port ${of.port}`}
      {of.keyId !== null && (
        <>
          , key <code>{of.keyId}</code>
        </>
      )}
    </span>
  );
}

function factsOf(of: SandboxInfo): (readonly [string, preact.ComponentChildren])[] {
  const rows: (readonly [string, preact.ComponentChildren])[] = [
    ["Id", <code>{of.id}</code>],
    ["Address", <code class="breaks">{of.url}</code>],
    ["Access", of.access === "public" ? "Public: everybody reaches it" : "Private: a key or a link is needed"],
    ["Image", of.image],
    ["Size", `${count(of.vcpu, "vCPU")}, ${mebibytes(of.memoryMiB)} memory, ${mebibytes(of.diskMiB)} disk`],
    ["Made", <Time at={of.createdAt} />],
    ["Last used", <Time at={of.lastActiveAt} none="not yet" />],
    [
      "Falls asleep",
      of.idlePauseSeconds === 0 ? "Never by itself" : `${duration(of.idlePauseSeconds * 1000)} after its last use`,
    ],
    ["Runs so far", of.generation.toLocaleString("en")],
  ];
  if (of.endsAt !== null) rows.push(["Time limit", <Time at={of.endsAt} />]);
  if (of.durability?.storedBytes) rows.push(["Stored asleep", bytes(of.durability.storedBytes)]);
  if (of.volumes?.length) rows.push(["Volumes", of.volumes.map(({ path }) => path).join(", ")]);
  if (of.envNames?.length) rows.push(["Variables", of.envNames.join(", ")]);
  return rows;
}
