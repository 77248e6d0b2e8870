/**
 * A held socket's connection to a program: its messages count as use of the machine, the open connection does not, and
 * the edge is told how many messages have reached the program. That is known from the program's own answers to pings,
 * which it gives in their place among the messages.
 */
import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { closeFrame, FrameReader, frameOf, isData, opcodes } from "./frames.ts";

/** A program that has not answered a ping for so long is taken to answer none, milliseconds. */
const DEAF_MS = 3000;
/** Longest head of an answer, bytes. */
const HEAD_MAX = 65_536;
/** How fast a program may send, bytes and bytes per second: nobody else is told when a client can't keep up. */
const PACE_BURST = 8_388_608;
const PACE_PER_SECOND = 4_194_304;
/** What the program's end of the connection is told when the machine goes to sleep, or ends: the other side goes away. */
const GOING_AWAY = 1001;

export interface HeldSocketOptions {
  readonly client: Duplex;
  readonly program: Duplex;
  /** Opens each message that tells of others. */
  readonly word: string;
  /** A message went either way. */
  readonly onUse: () => void;
  /** 3 s unless said. */
  readonly deafMs?: number;
}

export class HeldSocket {
  readonly #client: Duplex;
  readonly #program: Duplex;
  readonly #word: string;
  readonly #onUse: () => void;
  readonly #deafMs: number;
  readonly #toProgram = new FrameReader();
  readonly #toClient = new FrameReader();
  readonly #secret = randomBytes(8);
  readonly #pace = new Pace();
  /** The answer's head so far; null once it is through. */
  #head: Buffer | null = Buffer.alloc(0);
  #isOpen = false;
  /** Messages that were given to the program's connection, and those that are known to have reached it. */
  #given = 0;
  #reached = 0;
  #told = 0;
  /** How many messages the ping under way stands for. */
  #asked: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isDeaf = false;
  #turn: NodeJS.Timeout | undefined;

  constructor({ client, program, word, onUse, deafMs = DEAF_MS }: HeldSocketOptions) {
    this.#client = client;
    this.#program = program;
    this.#word = word;
    this.#onUse = onUse;
    this.#deafMs = deafMs;
  }

  /** Carry bytes until one side ends. @param head what came of the client's already */
  join(head: Buffer): void {
    const [client, program] = [this.#client, this.#program];
    if (head.length > 0) this.#fromClient(head);
    client.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    program.on("data", (chunk: Buffer) => this.#fromProgram(chunk));
    client.on("drain", () => this.#resume());
    program.on("drain", () => client.resume());
    client.once("end", () => program.end());
    program.once("end", () => client.end());
    program.once("close", () => this.#stop());
    client.once("close", () => this.#stop());
  }

  /** The machine goes to sleep: the program is told, if it can be, and the edge sees the connection break. */
  sleep(): void {
    this.#stop();
    if (this.#isOpen && this.#toProgram.atFrameEnd && !this.#program.destroyed)
      this.#program.write(closeFrame(GOING_AWAY, "", true), () => this.#program.destroy());
    else this.#program.destroy();
    this.#client.destroy();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#turn);
  }

  #fromClient(chunk: Buffer): void {
    const { frames, frameEnd } = this.#toProgram.read(chunk);
    const data = frames.filter(({ opcode }) => isData(opcode));
    if (data.length > 0) this.#onUse();
    this.#given += data.filter(({ fin }) => fin).length;
    const given = this.#given;
    const onWritten = () => this.#isDeaf && this.#reach(given);
    if (this.#given > 0 && this.#asked === null && this.#reached < this.#given && frameEnd !== null) {
      const ping = frameOf(opcodes.ping, this.#stampOf(this.#given), true);
      this.#ask();
      chunk = Buffer.concat([chunk.subarray(0, frameEnd), ping, chunk.subarray(frameEnd)]);
    }
    if (!this.#program.write(chunk, onWritten)) this.#client.pause();
  }

  /** A ping is on its way. */
  #ask(): void {
    this.#asked = this.#given;
    if (this.#isDeaf) return;
    this.#timer = setTimeout(() => {
      // It may yet answer, and is believed again then; until then, what was given to it counts.
      this.#isDeaf = true;
      this.#reach(this.#given);
    }, this.#deafMs);
    this.#timer.unref();
  }

  #stampOf(count: number): Buffer {
    const stamp = Buffer.alloc(this.#secret.length + 4);
    this.#secret.copy(stamp);
    stamp.writeUInt32BE(count >>> 0, this.#secret.length);
    return stamp;
  }

  #fromProgram(chunk: Buffer): void {
    const rest = this.#head === null ? chunk : this.#answered(chunk);
    if (!rest || rest.length === 0) return;
    if (!this.#isOpen) return this.#send(rest);
    const { frames, messageEnd } = this.#toClient.read(rest);
    if (frames.some(({ opcode }) => isData(opcode))) this.#onUse();
    for (const { opcode, control } of frames) if (opcode === opcodes.pong && control) this.#pong(control);
    const wait = this.#pace.waitMs(rest.length, performance.now());
    if (wait > 0) {
      this.#program.pause();
      this.#turn = setTimeout(() => this.#resume(), wait);
      this.#turn.unref();
    }
    const news = messageEnd === null ? null : this.#news();
    if (news && messageEnd !== null)
      this.#send(Buffer.concat([rest.subarray(0, messageEnd), news, rest.subarray(messageEnd)]));
    else this.#send(rest);
  }

  /** What follows the head, once that is here. */
  #answered(chunk: Buffer): Buffer | null {
    const head = Buffer.concat([this.#head ?? Buffer.alloc(0), chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1 && head.length < HEAD_MAX) {
      this.#head = head;
      return null;
    }
    this.#head = null;
    this.#isOpen = head.subarray(0, 16).toString("latin1").startsWith("HTTP/1.1 101 ") && end !== -1;
    if (!this.#isOpen) return head;
    this.#client.write(Buffer.concat([head.subarray(0, end), Buffer.from(`\r\n${hostHeaders.socketWord}: 1\r\n\r\n`)]));
    return head.subarray(end + 4);
  }

  #pong(stamp: Buffer): void {
    const count = this.#asked;
    if (count === null || !stamp.equals(this.#stampOf(count))) return;
    clearTimeout(this.#timer);
    this.#isDeaf = false;
    this.#asked = null;
    this.#reached = Math.max(this.#reached, count);
    if (this.#given > this.#reached && this.#toProgram.atFrameEnd) {
      this.#program.write(frameOf(opcodes.ping, this.#stampOf(this.#given), true));
      this.#ask();
    }
  }

  /** Not while bytes of the program are looked at: what is told must come between its messages. */
  #reach(count: number): void {
    if (count <= this.#reached) return;
    this.#reached = count;
    if (!this.#toClient.atMessageEnd) return;
    const news = this.#news();
    if (news && !this.#client.destroyed) this.#client.write(news);
  }

  /** How many messages have reached the program, unless that was told. */
  #news(): Buffer | null {
    if (!this.#isOpen || this.#told === this.#reached) return null;
    this.#told = this.#reached;
    return frameOf(opcodes.text, Buffer.from(`${this.#word}:${this.#reached}`), false);
  }

  #send(bytes: Buffer): void {
    if (!this.#client.write(bytes)) this.#program.pause();
  }

  #resume(): void {
    if (this.#client.writableNeedDrain || this.#pace.waitMs(0, performance.now()) > 0) return;
    this.#program.resume();
  }
}

/** A bucket of bytes. */
class Pace {
  #left = PACE_BURST;
  #at = 0;

  /** How long to take no more after these bytes, milliseconds. */
  waitMs(bytes: number, now: number): number {
    this.#left = Math.min(PACE_BURST, this.#left + ((now - this.#at) / 1000) * PACE_PER_SECOND) - bytes;
    this.#at = now;
    return this.#left >= 0 ? 0 : Math.ceil((-this.#left / PACE_PER_SECOND) * 1000);
  }
}
