/**
 * A post office between edge and host agent, one for each direction: every message passes, unless a rule says what
 * becomes of it. Bytes on their way into guests, or into the store, are passed through as they are.
 */
import { once } from "node:events";
import { createServer, request, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Letter {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A letter that arrived, and what was answered. */
export interface Delivered {
  readonly letter: Letter;
  readonly status: number;
  readonly text: string;
}

/**
 * - `lost`: never arrives, and the sender's connection breaks
 * - `answer lost`: arrives and is done; the connection breaks before the answer
 * - `twice`: arrives, and again right after; the sender gets the first answer
 * - `late`: the sender's connection breaks at once, and it arrives when the rule is released
 * - `copied`: passes, and a copy of it arrives when the rule is released
 * - `held`: waits until the rule is released
 * - `answer held`: is done, and its answer waits until the rule is released
 */
export type Fate = "lost" | "answer lost" | "twice" | "late" | "copied" | "held" | "answer held";

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** What becomes of the letters that match. */
export class Rule {
  readonly fate: Fate;
  readonly matches: (letter: Letter) => boolean;
  /** How many letters more it is for. */
  left: number;
  /** The first letter that met it. */
  readonly seen: Promise<Letter>;
  /** With the first letter's answer, when it arrived: null when nobody was there to answer. */
  readonly arrived: Promise<number | null>;
  readonly released: Promise<void>;
  readonly #seen = Promise.withResolvers<Letter>();
  readonly #arrived = Promise.withResolvers<number | null>();
  readonly #released = Promise.withResolvers<void>();

  constructor(fate: Fate, matches: (letter: Letter) => boolean, times: number) {
    this.fate = fate;
    this.matches = matches;
    this.left = times;
    this.seen = this.#seen.promise;
    this.arrived = this.#arrived.promise;
    this.released = this.#released.promise;
  }

  met(letter: Letter): void {
    this.left -= 1;
    this.#seen.resolve(letter);
  }

  done(status: number | null): void {
    this.#arrived.resolve(status);
  }

  /** Let go of what the rule keeps back. Answers what the receiver said to it. */
  async release(): Promise<number | null> {
    this.#released.resolve();
    return this.arrived;
  }
}

export class Proxy {
  /** Nothing passes, and connections break. */
  cut = false;
  /** Every control message that the receiver answered. */
  readonly delivered: Delivered[] = [];
  #rules: Rule[] = [];
  readonly #target: () => string;
  readonly #server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0 }, (req, res) => {
    this.#take(req, res).catch(() => res.destroy());
  });

  private constructor(target: () => string) {
    this.#target = target;
  }

  static async open(target: () => string): Promise<Proxy> {
    const proxy = new Proxy(target);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What becomes of the next letters that match; the rule made last comes first. */
  rule(fate: Fate, matches: (letter: Letter) => boolean, times = 1): Rule {
    const rule = new Rule(fate, matches, times);
    this.#rules.unshift(rule);
    return rule;
  }

  /** Forget all rules, and let go of what they keep back. */
  async heal(): Promise<void> {
    this.cut = false;
    const kept = this.#rules;
    this.#rules = [];
    for (const rule of kept) {
      rule.left = 0;
      // One that met nothing has nothing to let go of.
      rule.done(null);
      await rule.release();
    }
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (this.cut) return void res.destroy();
    const path = req.url ?? "/";
    if (path.startsWith("/m/") || path.startsWith("/internal/blobs/")) return this.#stream(req, res);
    const chunks: Buffer[] = [];
    for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const letter: Letter = { method: req.method ?? "GET", path, headers: req.headers, body };
    const rule = this.#rules.find((one) => one.left > 0 && one.matches(letter));
    if (!rule) return this.#answer(res, await this.#deliver(letter));
    rule.met(letter);
    switch (rule.fate) {
      case "lost":
        rule.done(null);
        return void res.destroy();
      case "answer lost":
        rule.done((await this.#deliver(letter))?.status ?? null);
        return void res.destroy();
      case "twice": {
        const first = await this.#deliver(letter);
        rule.done((await this.#deliver(letter))?.status ?? null);
        return this.#answer(res, first);
      }
      case "late":
        res.destroy();
        await rule.released;
        return rule.done((await this.#deliver(letter))?.status ?? null);
      case "copied":
        this.#answer(res, await this.#deliver(letter));
        await rule.released;
        return rule.done((await this.#deliver(letter))?.status ?? null);
      case "held": {
        await rule.released;
        const answer = await this.#deliver(letter);
        rule.done(answer?.status ?? null);
        return this.#answer(res, answer);
      }
      case "answer held": {
        const answer = await this.#deliver(letter);
        rule.done(answer?.status ?? null);
        await rule.released;
        return this.#answer(res, answer);
      }
    }
  }

  #answer(res: ServerResponse, answer: Answer | null): void {
    // The sender may have given up meanwhile, or the network was cut.
    if (!answer || this.cut) return void res.destroy();
    const type = answer.headers["content-type"];
    res.writeHead(answer.status, type === undefined ? {} : { "content-type": type });
    res.end(answer.text);
  }

  /** null: nobody was there to take it, or to answer. */
  #deliver(letter: Letter): Promise<Answer | null> {
    const { method, path, body } = letter;
    const headers: IncomingHttpHeaders = { ...letter.headers, connection: "close" };
    headers["content-length"] = String(Buffer.byteLength(body));
    // Answers are read here, and go on as text.
    delete headers["accept-encoding"];
    return new Promise((resolve) => {
      const req = request(this.#target() + path, { method, headers, agent: false }, (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("error", () => resolve(null));
        res.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          const status = res.statusCode ?? 0;
          this.delivered.push({ letter, status, text });
          resolve({ status, headers: res.headers, text });
        });
      });
      req.on("error", () => resolve(null));
      req.end(body);
    });
  }

  #stream(req: IncomingMessage, res: ServerResponse): void {
    const { method, headers, url = "/" } = req;
    const onward = request(this.#target() + url, { method, headers, agent: false }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
      answer.on("error", () => res.destroy());
    });
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  }
}

/** Which letters: those about the sandboxes of one label, by what they ask or tell. */
export const about = {
  create: (label: string) => (letter: Letter) => letter.method === "PUT" && ofLabel(letter, label),
  destroy: (label: string) => (letter: Letter) => letter.method === "DELETE" && ofLabel(letter, label),
  act: (label: string, verb: string) => (letter: Letter) =>
    letter.method === "POST" && ofLabel(letter, label) && letter.path.endsWith(`:${verb}`),
  event: (label: string, type: string) => (letter: Letter) =>
    letter.path.endsWith("/events") &&
    letter.path.includes(`/machines/${label}~`) &&
    letter.body.includes(`"type":"${type}"`),
  archive: (label: string, step: string) => (letter: Letter) =>
    letter.path.endsWith("/archive") &&
    letter.path.includes(`/machines/${label}~`) &&
    letter.body.includes(`"step":"${step}"`),
  volumeArchive: (step: string) => (letter: Letter) =>
    letter.path.endsWith("/archive") && letter.path.includes("/volumes/") && letter.body.includes(`"step":"${step}"`),
  usage: (label: string) => (letter: Letter) =>
    letter.path === "/internal/usage" && letter.body.includes(`"id":"${label}~`),
  heartbeat: (letter: Letter) => letter.path.endsWith("/heartbeat"),
};

function ofLabel({ path }: Letter, label: string): boolean {
  return path.startsWith(`/machines/${label}~`);
}
