/** One JSON line per request. Neither queries nor headers: both may hold secrets. */

export interface RequestNote {
  readonly id: string;
  readonly startedAt: number;
  account?: string;
  sandbox?: string;
  woken?: boolean;
  /** In the place of a path that is a secret. */
  path?: string;
}

export function logRequest(env: Env, request: Request, note: RequestNote, status: number): void {
  if (env.ROUSE_LOG === "off") return;
  const url = new URL(request.url);
  const { id, startedAt, ...rest } = note;
  const line = {
    requestId: id,
    method: request.method,
    host: url.host,
    path: url.pathname,
    status,
    ms: Date.now() - startedAt,
    ...rest,
  };
  console.log(JSON.stringify(line));
}

/** The caller's request id when it is a harmless one, else a new one. */
export function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id");
  return given !== null && /^[\w.:-]{1,128}$/.test(given) ? given : crypto.randomUUID();
}
