/** Watches of files and folders: `/files/watches`. Each is a program of its own (`watch.py`), whose lines are kept. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits, watchEvents } from "../../sdk/contract/guest-limits.ts";
import { Fields } from "./fields.ts";
import { Lines, readJson, sendJson, toFailure, type Call } from "./http.ts";
import { Replays } from "./replays.ts";
import { Slice } from "./slice.ts";
import { WatchLog, type Told } from "./watch-log.ts";

/** Watches that ended and can still be read. */
const ENDED_KEPT = 16;
const KEYS_KEPT = 256;
const BATCH_MS = 100;
/** Longest wait of one read, ms. */
const WAIT_MS = 8000;
const ID = /^[a-z0-9][a-z0-9-]{0,63}$/;

interface Asked {
  readonly path: string;
  readonly recursive: boolean;
  readonly events: readonly string[];
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly batchMs: number;
  readonly maxWatches: number;
  /** 0: until it is stopped. */
  readonly timeoutMs: number;
}

class FileWatch {
  readonly id: string;
  readonly asked: Asked;
  readonly log = new WatchLog();
  readonly startedAt = Date.now();
  readonly #child: ChildProcess;
  readonly #ready = Promise.withResolvers<void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(id: string, asked: Asked, python: string, script: string) {
    this.id = id;
    this.asked = asked;
    const { timeoutMs, ...rest } = asked;
    this.#child = spawn(python, ["-I", "-S", script, JSON.stringify(rest)], { stdio: ["pipe", "pipe", "ignore"] });
    const failed = (message: string): void => {
      this.#ready.reject(new RouseFailure("guest_failed", message));
      this.log.append({ k: "failure", code: "watch_failed", message });
    };
    this.#child.once("error", ({ message }) => failed(message));
    this.#child.stdin?.on("error", () => undefined);
    if (this.#child.stdout) {
      const lines = createInterface({ input: this.#child.stdout });
      lines.on("line", (line) => this.#take(JSON.parse(line) as Told));
      // Its last lines come before its end is told.
      lines.once("close", () => failed("The watch ended by itself."));
    }
    // Its time begins when it does.
    void this.ready.then(
      () => timeoutMs > 0 && !this.log.ended && (this.#timer = setTimeout(() => this.end("timeout"), timeoutMs)),
      () => undefined,
    );
  }

  /** @throws RouseFailure `file_not_found`, ... when there is nothing to watch */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  end(reason: "stopped" | "timeout"): void {
    this.log.append({ k: "end", reason });
    this.#ready.reject(new RouseFailure("conflict", "The watch was stopped."));
    this.#over();
  }

  info(): object {
    const { id, asked, startedAt } = this;
    const state = this.log.ended ? "ended" : "running";
    return { id, path: asked.path, cursor: 0, processId: id, state, startedAt };
  }

  #take(told: Told): void {
    if (told.k === "ready") this.#ready.resolve();
    else if (told.k === "refused") {
      const fault = Object.assign(new Error(String(told["message"])), { code: told["errno"] });
      this.#ready.reject(toFailure(fault, this.asked.path));
      this.log.append({ k: "end", reason: "stopped" });
    } else this.log.append(told);
    if (this.log.ended) this.#over();
  }

  #over(): void {
    clearTimeout(this.#timer);
    this.#child.stdin?.destroy();
    this.#child.kill("SIGKILL");
  }
}

export class Watches {
  readonly #all = new Map<string, FileWatch>();
  readonly #replays = new Replays<FileWatch>(KEYS_KEPT);
  readonly #home: string;
  readonly #python: string;
  readonly #script: string;

  /** @param script path of `watch.py` */
  constructor(home: string, python: string, script: string) {
    this.#home = home;
    this.#python = python;
    this.#script = script;
  }

  async create(call: Call): Promise<void> {
    const body = await readJson(call);
    const fields = new Fields(body);
    const path = fields.text("path");
    const id = fields.text("id");
    const events = fields.strings("events") ?? watchEvents.filter((one) => one !== "access");
    if (path === undefined || path === "" || path.includes("\0")) fields.fault("path", "expected a path without NUL");
    if (id !== undefined && !ID.test(id)) fields.fault("id", "1-64 of a-z 0-9 -, not starting with -");
    if (events.some((one) => !watchEvents.some((known) => known === one)))
      fields.fault("events", `expected some of ${watchEvents.join(", ")}`);
    const asked = {
      ...{ path: resolve(this.#home, path ?? "."), recursive: fields.flag("recursive"), events },
      ...{ include: fields.strings("include") ?? [], exclude: fields.strings("exclude") ?? [] },
      batchMs: fields.integer("batchMs", 10, 10_000) ?? BATCH_MS,
      timeoutMs: fields.integer("timeoutMs", 0, guestLimits.watchMsMax) ?? guestLimits.watchMs,
      maxWatches: fields.integer("maxWatches", 1, guestLimits.watchedMax) ?? guestLimits.watchedMax,
    };
    fields.check();
    const { value: watch, forget } = this.#replays.once(call, body, () => this.#start(id, asked));
    try {
      await watch.ready;
    } catch (fault) {
      forget();
      this.#all.delete(watch.id);
      throw fault;
    }
    sendJson(call, watch.info());
  }

  /** What would be lost with the agent, in words. */
  holds(): string[] {
    const held = [...this.#all.values()].filter(({ log }) => !log.ended);
    return held.length > 0 ? [`watches: ${held.length}`] : [];
  }

  list(call: Call): void {
    sendJson(call, { data: [...this.#all.values()].map((watch) => watch.info()) });
  }

  stop(call: Call, id: string): void {
    this.#get(id).end("stopped");
    sendJson(call, { stopped: true });
  }

  async events(call: Call, id: string): Promise<void> {
    const watch = this.#get(id);
    const fields = new Fields(call.query);
    const from = fields.integer("cursor", 0, Number.MAX_SAFE_INTEGER) ?? 0;
    const waitMs = fields.integer("waitMs", 0, WAIT_MS) ?? 0;
    const follow = fields.flag("follow");
    fields.check();
    if (follow) return this.#follow(call, watch, from);
    const { log } = watch;
    if (waitMs > 0) {
      const slice = new Slice(call, waitMs);
      await log.change(from, slice.signal).finally(() => slice.end());
    }
    const { lost, told } = log.read(from);
    sendJson(call, {
      events: told.flatMap((one) => (one.k === "events" ? (one["events"] as object[]) : [])),
      notices: told.filter((one) => one.k !== "events"),
      nextCursor: log.total,
      lostBytes: lost,
      ended: log.ended,
    });
  }

  async #follow(call: Call, { log }: FileWatch, from: number): Promise<void> {
    const lines = new Lines(call);
    const slice = new Slice(call, guestLimits.followSeconds * 1000);
    let cursor = Math.min(from, log.total);
    try {
      while (!slice.signal.aborted) {
        await log.change(cursor, slice.signal);
        if (call.gone.aborted) return;
        const { lost, told } = log.read(cursor);
        if (lost > 0) lines.write({ k: "lost", bytes: lost, cursor: cursor + lost });
        for (const one of told) {
          if (!lines.write(one)) await lines.drained();
          if (call.gone.aborted) return;
          cursor = one.cursor;
        }
        if (log.ended && cursor >= log.total) return lines.end();
      }
      lines.write({ k: "continue", cursor });
      lines.end();
    } finally {
      slice.end();
    }
  }

  #start(id: string | undefined, asked: Asked): FileWatch {
    const running = [...this.#all.values()].filter(({ log }) => !log.ended);
    const known = id === undefined ? undefined : running.find((one) => one.id === id);
    if (known && JSON.stringify(known.asked) === JSON.stringify(asked)) return known;
    if (known) throw new RouseFailure("conflict", `There is another watch ${id}; stop it first.`);
    if (running.length >= guestLimits.watches)
      throw new RouseFailure("quota_exceeded", `There are ${guestLimits.watches} watches already; stop one.`, {
        details: { limit: guestLimits.watches },
      });
    const name = id ?? `w-${randomBytes(6).toString("hex")}`;
    const watch = new FileWatch(name, asked, this.#python, this.#script);
    this.#all.delete(name);
    this.#all.set(name, watch);
    const ended = [...this.#all.values()].filter(({ log }) => log.ended);
    for (const { id: old } of ended.slice(0, Math.max(0, ended.length - ENDED_KEPT))) this.#all.delete(old);
    return watch;
  }

  /** @throws RouseFailure `watch_not_found` */
  #get(id: string): FileWatch {
    const found = this.#all.get(id);
    if (found) return found;
    throw new RouseFailure("watch_not_found", `There is no watch ${id}.`);
  }
}
