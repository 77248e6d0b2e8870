/** What each of the last months came to: bars, and the same as a table for those who read or hear it. */
import { money } from "../text.ts";

interface Props {
  readonly months: readonly { readonly month: string; readonly micros: number }[];
  readonly chosen: string;
  readonly onChoose: (month: string) => void;
  readonly nameOf: (month: string) => string;
}

const HEIGHT = 150;
const TOP = 18;
const STEP = 50;
const BAR = 28;

export function MonthChart({ months, chosen, onChoose, nameOf }: Props) {
  const largest = Math.max(...months.map(({ micros }) => micros), 1);
  const width = months.length * STEP;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${width} ${HEIGHT + TOP + 22}`} aria-hidden="true">
        <line x1={0} x2={width} y1={HEIGHT + TOP + 0.5} y2={HEIGHT + TOP + 0.5} class="axis" />
        {months.map(({ month, micros }, at) => {
          const height = micros === 0 ? 0 : Math.max(2, (micros / largest) * HEIGHT);
          const middle = at * STEP + STEP / 2;
          return (
            <g key={month} class={month === chosen ? "bar chosen" : "bar"} onClick={() => onChoose(month)}>
              <rect x={at * STEP} y={0} width={STEP} height={HEIGHT + TOP + 22} class="touch" />
              <rect x={middle - BAR / 2} y={TOP + HEIGHT - height} width={BAR} height={height} rx={3} />
              {micros > 0 && (
                <text x={middle} y={TOP + HEIGHT - height - 6}>
                  {money(micros)}
                </text>
              )}
              <text x={middle} y={TOP + HEIGHT + 16} class="tick">
                {nameOf(month).slice(0, 3)}
              </text>
            </g>
          );
        })}
      </svg>
      <details>
        <summary>As a table</summary>
        <table class="plain">
          <caption class="unseen">Cost by month</caption>
          <thead>
            <tr>
              <th scope="col">Month</th>
              <th scope="col" class="numeric">
                Cost
              </th>
            </tr>
          </thead>
          <tbody>
            {months.map(({ month, micros }) => (
              <tr key={month}>
                <th scope="row">{nameOf(month)}</th>
                <td class="numeric">{money(micros)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  );
}
