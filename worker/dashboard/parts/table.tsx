/** A table that becomes cards where it is narrow: roles are said, for browsers forget them with other layouts. */
import type { ComponentChildren } from "preact";

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Numbers stand at the right. */
  readonly numeric?: boolean;
  /** Of a narrow screen: without its title. */
  readonly bare?: boolean;
}

interface TableProps<T> {
  /** What it is, for those who don't see it. */
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
}

export function Table<T>({ label, columns, rows, keyOf }: TableProps<T>) {
  return (
    <table role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ title, numeric }) => (
            <th role="columnheader" scope="col" key={title} class={numeric ? "numeric" : ""}>
              {title === "Actions" ? <span class="unseen">{title}</span> : title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr role="row" key={keyOf(row)}>
            {columns.map(({ title, cell, numeric, bare }) => (
              <td
                role="cell"
                key={title}
                data-title={bare || title === "Actions" ? undefined : title}
                class={title === "Actions" ? "wide" : numeric ? "numeric" : ""}
              >
                {title === "Actions" ? <div class="row-actions">{cell(row)}</div> : cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
