/** Where a program means to go: how it is written in a request line, and in the line of `rouse-redirect`. Pure. */

export interface Target {
  /** A name in lower case, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

const NAME = /^[a-z0-9_]([a-z0-9_.-]{0,253}[a-z0-9_])?$/;

/** `host:port`, `[address]:port`; with a default port also without one. null: no target. */
export function readTarget(text: string, defaultPort?: number): Target | null {
  const [, six, plain, digits] = /^(?:\[([0-9a-fA-F:.]{2,45})\]|([^:[\]]{1,255}))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = (six ?? plain ?? "").toLowerCase().replace(/\.$/, "");
  const port = digits === undefined ? defaultPort : Number(digits);
  if (port === undefined || port < 1 || port > 65_535) return null;
  if (six === undefined && !NAME.test(host)) return null;
  return { host, port };
}

export function writeTarget({ host, port }: Target): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Longest first line of `rouse-redirect`, its end included. */
export const FIRST_LINE_BYTES = 32;

/** The line in front of what a program wrote: `203.0.113.7:443`. null: it is none. */
export function readFirstLine(line: string): Target | null {
  const target = readTarget(line);
  return target && /^(\d{1,3}\.){3}\d{1,3}$/.test(target.host) ? target : null;
}
