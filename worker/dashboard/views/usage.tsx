/** What the account used and spent: by month as a chart, and of one month by what it was for. */
import { useState } from "preact/hooks";
import type { Account, Usage as UsageAnswer, UsageLine } from "../../../sdk/src/index.ts";
import { rouse } from "../api.ts";
import { useRead } from "../data.ts";
import { Empty, Facts, Loading, Section, Time } from "../parts/bits.tsx";
import { Fault } from "../parts/fault.tsx";
import { MonthChart } from "../parts/month-chart.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { mebibytes, money } from "../text.ts";

const monthName = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });
const nameOf = (month: string): string => monthName.format(new Date(`${month}-01T00:00:00Z`));

/** What money goes for, in the order of the bars. */
const KINDS = [
  ["cpuMicros", "CPU"],
  ["memoryMicros", "Memory"],
  ["storedMicros", "Asleep"],
  ["volumeMicros", "Volumes"],
  ["backupMicros", "Backups"],
  ["flatMicros", "Flat"],
] as const;

export function Usage() {
  const thisMonth = new Date().toISOString().slice(0, 7);
  const [month, setMonth] = useState(thisMonth);
  const account = useRead("account", (signal) => rouse.account({ signal }));
  const all = useRead("months", (signal) => rouse.usage({ month: "all", by: "month", signal }));
  const usage = useRead(month, (signal) => rouse.usage({ month, signal }));
  const notices = useRead("notices", (signal) => rouse.notices({ signal }));
  const months = monthsOf(all.data, thisMonth);
  return (
    <>
      <div class="view-head">
        <h1>Usage</h1>
        <label>
          <span class="unseen">Month</span>
          <select value={month} onChange={(event) => setMonth(event.currentTarget.value)}>
            {months.toReversed().map(({ month: key }) => (
              <option key={key} value={key}>
                {nameOf(key)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {notices.data !== null && notices.data.length > 0 && (
        <ul class="banner">
          {notices.data.map(({ message, at }) => (
            <li key={message}>
              {message} {at !== null && <Time at={at} />}
            </li>
          ))}
        </ul>
      )}
      <div class="columns">
        <div>
          <Section title="By month">
            <Fault of={all.fault} />
            {all.data ? (
              <MonthChart months={months} chosen={month} onChoose={setMonth} nameOf={nameOf} />
            ) : (
              all.loading && <Loading />
            )}
          </Section>
        </div>
        <div>
          <Section title="Account">
            <Fault of={account.fault} />
            {account.data ? <Facts of={factsOf(account.data)} /> : account.loading && <Loading />}
          </Section>
        </div>
      </div>
      <Section title={`${nameOf(month)}${usage.data ? `: ${money(usage.data.totalMicros)}` : ""}`}>
        <Fault of={usage.fault} />
        {usage.data === null && usage.loading && <Loading />}
        {usage.data?.lines.length === 0 && (
          <Empty title="Nothing was used">
            <p>Use is counted while machines are awake, and for what sleeping ones store.</p>
          </Empty>
        )}
        {usage.data !== null && usage.data.lines.length > 0 && <Lines lines={usage.data.lines} />}
      </Section>
    </>
  );
}

/** The last twelve months up to this one, with what each came to. */
function monthsOf(usage: UsageAnswer | null, thisMonth: string): { month: string; micros: number }[] {
  const known = new Map(usage?.groups?.map(({ key, totalMicros }) => [key, totalMicros]));
  const [year = 0, number = 0] = thisMonth.split("-").map(Number);
  return Array.from({ length: 12 }, (_, at) => {
    const month = new Date(Date.UTC(year, number - 12 + at)).toISOString().slice(0, 7);
    return { month, micros: known.get(month) ?? 0 };
  });
}

function Lines({ lines }: { lines: readonly UsageLine[] }) {
  const rows = lines.toSorted((a, b) => b.totalMicros - a.totalMicros);
  const largest = rows[0]?.totalMicros ?? 0;
  const kinds = KINDS.filter(([key]) => rows.some((line) => line[key] > 0));
  const columns: Column<UsageLine>[] = [
    {
      title: "For",
      bare: true,
      cell: ({ name, sandboxId, kind }) => (
        <div class="name-cell">
          <span class="name">{name ?? sandboxId}</span>
          {kind !== "sandbox" && <span class="quiet">{kind}</span>}
        </div>
      ),
    },
    { title: "Share", bare: true, cell: (line) => <Share of={line} largest={largest} /> },
    ...kinds.map(([key, title]) => ({ title, numeric: true, cell: (line: UsageLine) => money(line[key]) })),
    { title: "Together", numeric: true, cell: ({ totalMicros }) => <strong>{money(totalMicros)}</strong> },
  ];
  return (
    <>
      <ul class="legend" aria-hidden="true">
        {kinds.map(([key, title]) => (
          <li key={key}>
            <span class={`swatch ${key}`} /> {title}
          </li>
        ))}
      </ul>
      <Table
        label="What was used"
        columns={columns}
        rows={rows}
        keyOf={({ sandboxId, plan }) => `${sandboxId} ${plan}`}
      />
    </>
  );
}

/** Beside the numbers, so it says nothing to those who hear the page. */
function Share({ of, largest }: { of: UsageLine; largest: number }) {
  let from = 0;
  return (
    <svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      {KINDS.map(([key]) => {
        const width = largest === 0 ? 0 : (of[key] / largest) * 100;
        const x = from;
        from += width;
        return width === 0 ? null : <rect key={key} class={key} x={x} y={0} width={width} height={8} />;
      })}
    </svg>
  );
}

function factsOf(account: Account): (readonly [string, preact.ComponentChildren])[] {
  const { plan, quotas, used, spentTodayMicros, dailyLimitMicros, availableMicros, heldMicros, suspended } = account;
  const of = (value: number, limit: number | null, said = (n: number) => n.toLocaleString("en")) =>
    limit === null ? said(value) : `${said(value)} of ${said(limit)}`;
  const rows: (readonly [string, preact.ComponentChildren])[] = [
    ["Plan", PLANS[plan]],
    ["Spent today", `${money(spentTodayMicros)}${dailyLimitMicros === null ? "" : ` of ${money(dailyLimitMicros)}`}`],
    ["Awake", of(used.running, quotas.running)],
    ["vCPUs", of(used.vcpus, quotas.vcpus)],
    ["Memory", of(used.memoryMiB, quotas.memoryMiB, mebibytes)],
    ["Sandboxes", of(used.kept, quotas.kept)],
    ["Made today", of(used.createdToday, quotas.createdPerDay)],
  ];
  if (availableMicros !== null)
    rows.splice(1, 0, [
      "Credit left",
      `${money(availableMicros)}${heldMicros > 0 ? `, ${money(heldMicros)} held` : ""}`,
    ]);
  if (suspended) rows.unshift(["Suspended", "Everything sleeps, and nothing wakes"]);
  if (account.unpaidDeletesAt !== null)
    rows.unshift([
      "Unpaid",
      <>
        what sleeps is deleted <Time at={account.unpaidDeletesAt} />
      </>,
    ]);
  return rows;
}

const PLANS: Readonly<Record<Account["plan"], string>> = {
  unmetered: "Unmetered: use is shown, and costs nothing",
  metered: "Metered: by what is used",
  flat: "Flat: by sandbox and month",
  trial: "Trial",
};
