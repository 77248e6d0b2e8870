/** Requests and answers of the guest agent. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { errorBody, RouseFailure, statusOf, type ErrorCode } from "../../sdk/contract/error-codes.ts";

/** Largest JSON body; stdin of a command is part of one. */
const BODY_LIMIT = 16 * 1_048_576;

export class Call {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  readonly path: string;
  readonly #search: string;
  #query: URLSearchParams | null = null;
  #gone: AbortController | null = null;

  constructor(req: IncomingMessage, res: ServerResponse) {
    this.req = req;
    this.res = res;
    this.method = req.method ?? "GET";
    const url = req.url ?? "/";
    const mark = url.indexOf("?");
    this.path = mark < 0 ? url : url.slice(0, mark);
    this.#search = mark < 0 ? "" : url.slice(mark + 1);
    if (this.requestId !== undefined) res.setHeader("x-request-id", this.requestId);
  }

  get query(): URLSearchParams {
    return (this.#query ??= new URLSearchParams(this.#search));
  }

  get requestId(): string | undefined {
    const id = this.req.headers["x-request-id"];
    return typeof id === "string" ? id : undefined;
  }

  /** Aborted when the answer is over or its reader gone. */
  get gone(): AbortSignal {
    if (!this.#gone) {
      const gone = new AbortController();
      this.#gone = gone;
      if (this.res.destroyed) gone.abort();
      else this.res.once("close", () => gone.abort());
    }
    return this.#gone.signal;
  }
}

/** @throws RouseFailure `invalid_request`, `payload_too_large` */
export async function readJson(call: Call): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of call.req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_LIMIT) throw new RouseFailure("payload_too_large", `A body has at most ${BODY_LIMIT} bytes.`);
    chunks.push(chunk);
  }
  if (size === 0) return {};
  let json: unknown;
  try {
    json = JSON.parse(Buffer.concat(chunks).toString());
  } catch (fault) {
    throw new RouseFailure("invalid_request", "The body is not JSON.", { cause: fault });
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    throw new RouseFailure("invalid_request", "The body is not a JSON object.");
  }
  return json as Record<string, unknown>;
}

export function sendJson(call: Call, body: object): void {
  send(call, 200, JSON.stringify(body));
}

export function sendFailure(call: Call, fault: unknown): void {
  if (call.res.headersSent) {
    call.res.destroy();
    return;
  }
  const failure = toFailure(fault);
  send(call, statusOf(failure.code), JSON.stringify(errorBody(failure, call.requestId)));
  call.req.resume();
}

function send({ res }: Call, status: number, text: string): void {
  res.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
  });
  res.end(text);
}

/** A stream of JSON lines; its headers go at once. */
export class Lines {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
    call.res.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
    call.res.flushHeaders();
  }

  /** Answers whether the reader takes more now; if not, wait for `drained`. */
  write(event: object): boolean {
    const { res } = this.#call;
    return res.destroyed || res.write(`${JSON.stringify(event)}\n`);
  }

  /** Resolves when the reader takes more, or is gone. */
  drained(): Promise<void> {
    const { res } = this.#call;
    if (res.destroyed || !res.writableNeedDrain) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        res.off("drain", done);
        res.off("close", done);
        resolve();
      };
      res.on("drain", done);
      res.on("close", done);
    });
  }

  end(): void {
    this.#call.res.end();
  }
}

const errnoCodes: Record<string, [code: ErrorCode, text: string]> = {
  ENOENT: ["file_not_found", "There is no such file or folder"],
  EISDIR: ["is_a_directory", "That is a folder"],
  ENOTDIR: ["not_a_directory", "A part of the path is not a folder"],
  EACCES: ["file_access_denied", "The guest user may not do that"],
  EPERM: ["file_access_denied", "The guest user may not do that"],
  EROFS: ["file_access_denied", "That file system is read-only"],
  ETXTBSY: ["file_access_denied", "That program runs just now"],
  EBUSY: ["file_access_denied", "That is in use by the system"],
  EEXIST: ["file_exists", "That exists already"],
  ENOTEMPTY: ["directory_not_empty", "The folder is not empty"],
  ENOSPC: ["disk_full", "The disk is full"],
  EDQUOT: ["disk_full", "The disk is full"],
  EFBIG: ["disk_full", "The file is larger than the file system allows"],
  ENAMETOOLONG: ["invalid_path", "The path or a name in it is too long"],
  ELOOP: ["invalid_path", "The path leads in a circle of links"],
  EINVAL: ["invalid_path", "The path can't be used like that"],
  ENXIO: ["invalid_path", "That is not a regular file"],
};

/** `path`: what the caller asked for, when the system's error names a file of ours. */
export function toFailure(fault: unknown, path?: string): RouseFailure {
  if (fault instanceof RouseFailure) return fault;
  if (fault instanceof Error && "code" in fault && typeof fault.code === "string") {
    const [code, meaning] = errnoCodes[fault.code] ?? [];
    const where = path ?? ("path" in fault && typeof fault.path === "string" ? fault.path : undefined);
    if (code) return new RouseFailure(code, where === undefined ? `${meaning}.` : `${meaning}: ${where}`);
  }
  return new RouseFailure("guest_failed", "The guest agent failed.", { cause: fault });
}
