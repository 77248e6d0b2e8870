/** A command of a run, in the machine: begun once under the run's id, then looked after by its process. */
import type { z } from "zod";
import { OutputPage, Process } from "../../sdk/contract/guest.ts";
import { scheduleLimits, type ScheduleAction } from "../../sdk/contract/schedule.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import type { Machine, Reached } from "./machine.ts";
import type { Output } from "./record.ts";

export type Command = Extract<ScheduleAction, { kind: "command" }>;

/** Longest wait for an answer of the guest agent, milliseconds, and its longest answer, bytes. */
const AGENT_MS = 30_000;
const ANSWER_MAX = 1_048_576;
/** Answers that the end of an output comes in, at most. */
const PAGES_MAX = 8;

export class Commands {
  readonly #machine: Machine;
  readonly #runId: string;
  readonly #command: Command;

  constructor(machine: Machine, runId: string, command: Command) {
    this.#machine = machine;
    this.#runId = runId;
    this.#command = command;
  }

  get limitMs(): number {
    return (this.#command.timeoutSeconds ?? scheduleLimits.commandSecondsDefault) * 1000;
  }

  /** While the machine knows the run's id, this is the process that was begun first. */
  start(cause: Cause): Promise<Reached<Process>> {
    return this.#begin(this.#command, cause);
  }

  /** null: the sandbox does not run. A value of null: its machine knows nothing of the command. */
  async get(processId: string, cause: Cause, wake: boolean): Promise<Reached<Process | null> | null> {
    const got = await this.#ask(Process, { method: "GET", path: pathOf(processId) }, cause, wake);
    if (got === null || got.ok || got.failure.code !== "process_not_found") return got;
    return this.#recalled(cause);
  }

  /** The end of what it wrote. null: it is kept no more. */
  async output(
    { id, outputBytes }: Process,
    cause: Cause,
  ): Promise<Reached<{ output: Output | null; truncated: boolean }>> {
    const chunks: { stream: "stdout" | "stderr"; bytes: Uint8Array }[] = [];
    const begin = Math.max(0, outputBytes - scheduleLimits.outputBytes);
    let truncated = begin > 0;
    for (let cursor = begin, pages = 0; cursor < outputBytes && pages < PAGES_MAX; pages++) {
      const query = `cursor=${cursor}&maxBytes=${outputBytes - cursor}`;
      const page = await this.#ask(OutputPage, { method: "GET", path: `${pathOf(id)}/output?${query}` }, cause, true);
      if (page === null) return { ok: false, failure: { code: "sandbox_waking" }, woken: false, wakeMs: null };
      if (!page.ok && page.failure.code === "process_not_found")
        return { ok: true, value: { output: null, truncated: true }, woken: false, wakeMs: null };
      if (!page.ok) return page;
      const { value } = page;
      truncated ||= value.truncated;
      for (const { stream, text, base64 } of value.chunks) chunks.push({ stream, bytes: bytesOf(text, base64) });
      if (value.nextCursor <= cursor) break;
      cursor = value.nextCursor;
    }
    const joined = (which: "stdout" | "stderr") =>
      join(chunks.filter(({ stream }) => stream === which).map(({ bytes }) => bytes));
    const output = { stdout: joined("stdout"), stderr: joined("stderr"), body: null };
    return { ok: true, value: { output, truncated }, woken: false, wakeMs: null };
  }

  /**
   * The machine lists no such process: too many others ended since, or its RAM is another. A call with the run's id that
   * could not begin anything tells which: it is refused as another request only where the id is known.
   */
  async #recalled(cause: Cause): Promise<Reached<Process | null>> {
    const nowhere = { ...this.#command, cwd: `/proc/${this.#runId}` };
    const asked = await this.#begin(nowhere, cause);
    if (asked.ok || asked.failure.code === "file_not_found")
      return { ok: true, value: null, woken: false, wakeMs: null };
    return asked.failure.code === "idempotency_key_reused" ? this.#begin(this.#command, cause) : asked;
  }

  async #begin({ command, argv, cwd, env }: Command, cause: Cause): Promise<Reached<Process>> {
    const body = JSON.stringify({ command, argv, cwd, env, timeoutMs: this.limitMs });
    const begun = await this.#ask(Process, { method: "POST", path: "/agent/processes", body }, cause, true);
    return begun ?? { ok: false, failure: { code: "sandbox_waking" }, woken: false, wakeMs: null };
  }

  /** null: the sandbox does not run, and is not to wake. What a guest answers is read as a stranger's. */
  async #ask<T extends z.ZodType>(
    schema: T,
    { method, path, body = null }: { method: string; path: string; body?: string | null },
    cause: Cause,
    wake: boolean,
  ): Promise<Reached<z.infer<T>> | null> {
    const headers = new Headers(body === null ? {} : { "content-type": "application/json" });
    if (body !== null) headers.set("idempotency-key", this.#runId);
    const request = { method, path, headers, body };
    const sent = await this.#machine.send(request, { cause, wake, limitMs: AGENT_MS, most: ANSWER_MAX });
    const { woken, wakeMs } = sent;
    // The agent answers at once, or not at all: that says nothing of the command.
    if (!sent.ok && sent.failure.code === "timeout")
      return { ok: false, failure: { code: "guest_busy" }, woken, wakeMs };
    if (!sent.ok) return sent;
    if (sent.value === null) return null;
    const parsed = schema.safeParse(jsonOf(sent.value.begin));
    return parsed.success
      ? { ok: true, value: parsed.data, woken, wakeMs }
      : { ok: false, failure: { code: "guest_failed" }, woken, wakeMs };
  }
}

function pathOf(processId: string): string {
  return `/agent/processes/${encodeURIComponent(processId)}`;
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

function bytesOf(text: string, base64: string | undefined): Uint8Array {
  try {
    if (base64 !== undefined) return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    // A guest that says so says the text as well.
  }
  return new TextEncoder().encode(text);
}

/** No more than is kept, whatever a guest says. */
function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all.slice(-scheduleLimits.outputBytes);
}
