/** Requests as JSON lines. Neither queries nor headers: both may hold secrets. */

export interface RequestNote {
  readonly id: string;
  readonly startedAt: number;
  account?: string;
  sandbox?: string;
  woken?: boolean;
  /** In the place of a path that is a secret. */
  path?: string;
  /** It is for a program in a sandbox. */
  toProgram?: true;
}

/** An answer of a program that took so long has a line, ms. */
const SLOW_MS = 1000;

/**
 * Those that a program of a running machine answered well and soon have no line.
 * @param wanted `ROUSE_LOG`: `all` for each, `off` for none
 */
export function logRequest(
  wanted: string | undefined,
  { method }: Request,
  url: URL,
  note: RequestNote,
  status: number,
): void {
  if (wanted === "off") return;
  const { id, startedAt, toProgram, ...rest } = note;
  const ms = Date.now() - startedAt;
  const isPlain = toProgram === true && note.woken !== true && status < 500 && ms < SLOW_MS;
  if (isPlain && wanted !== "all") return;
  const line = {
    requestId: id,
    method,
    host: url.host,
    path: url.pathname,
    status,
    ms,
    ...rest,
  };
  console.log(JSON.stringify(line));
}

/** The caller's request id when it is a harmless one, else a new one. */
export function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id");
  return given !== null && /^[\w.:-]{1,128}$/.test(given) ? given : crypto.randomUUID();
}
