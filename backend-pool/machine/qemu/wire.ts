/** The host's end of the virtio-serial port to PID 1 of a guest; the lines are described in `rouse-init.c`. */
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { Identity, Listening } from "../driver.ts";
import { connectUnix } from "./qmp.ts";

interface Waiting {
  readonly resolve: (values: string) => void;
  readonly reject: (fault: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export class Wire {
  readonly #socket: Socket;
  readonly #waiting = new Map<string, Waiting>();
  readonly #run = randomBytes(4).toString("hex");
  #next = 1;
  #rest = "";
  #up: (() => void)[] = [];
  /** Lines that wait until `release`; null when lines go out at once. */
  #held: string[] | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => this.#read(text));
    socket.on("error", () => undefined);
    socket.on("close", () => this.#end());
  }

  static async open(path: string, limitMs = 10_000): Promise<Wire> {
    return new Wire(await connectUnix(path, limitMs));
  }

  /** PID 1 finished its boot script. */
  up(limitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the guest did not boot in ${limitMs / 1000} s`)), limitMs);
      this.#up.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Clock, random numbers, identity. The line may be sent before the virtual CPUs run; it waits in QEMU then. */
  async wake(identity: Identity, limitMs: number): Promise<void> {
    const unixNs = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n;
    const fields = [
      unixNs,
      identity.hostname,
      randomBytes(16).toString("hex"),
      randomBytes(16).toString("hex"),
      randomBytes(48).toString("hex"),
      ...(identity.origin ? [identity.origin] : []),
    ];
    await this.#ask(`wake SEQ ${fields.join(" ")}`, limitMs);
  }

  /** Programs stand still until `wake`, or for half a second: two runs of one state then share nothing that they drew. */
  async still(limitMs: number): Promise<void> {
    await this.#ask("still SEQ", limitMs);
  }

  async sync(limitMs: number): Promise<void> {
    await this.#ask("sync SEQ", limitMs);
  }

  async off(limitMs: number): Promise<void> {
    await this.#ask("off SEQ", limitMs);
  }

  async cpuTicks(): Promise<number> {
    return Number(await this.#ask("cpu SEQ", 5000));
  }

  async listening(port: number): Promise<Listening> {
    const answer = await this.#ask(`port SEQ ${port}`, 5000);
    return answer === "1" ? "reachable" : answer === "2" ? "elsewhere" : "no";
  }

  /** Mount the volume of a slot at an absolute path. Like all of volumes, answers 0 or an errno of the guest. */
  mount(slot: number, mode: "rw" | "ro", path: string, limitMs: number): Promise<number> {
    return this.#askNumber(`mount SEQ ${slot} ${mode} ${Buffer.from(path).toString("hex")}`, limitMs);
  }

  /** 16 (EBUSY): a program uses it. */
  unmount(slot: number, limitMs: number): Promise<number> {
    return this.#askNumber(`unmount SEQ ${slot}`, limitMs);
  }

  /** Make the file system as large as its disk has become; answers the exit status of the program that does it. */
  grow(slot: number, limitMs: number): Promise<number> {
    return this.#askNumber(`grow SEQ ${slot}`, limitMs);
  }

  /** From then on the volume's file system is whole on its disk, until `thaw`, or for 30 s. */
  freeze(slot: number, limitMs: number): Promise<number> {
    return this.#askNumber(`freeze SEQ ${slot}`, limitMs);
  }

  thaw(slot: number, limitMs: number): Promise<number> {
    return this.#askNumber(`thaw SEQ ${slot}`, limitMs);
  }

  /**
   * Keep lines back from now on: QEMU would put one into the RAM of a guest that stands still. Returns when those that
   * are under way are answered, or after `limitMs`.
   */
  async hold(limitMs: number): Promise<void> {
    this.#held ??= [];
    const end = performance.now() + limitMs;
    while (this.#waiting.size > 0 && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 2));
  }

  release(): void {
    for (const line of this.#held ?? []) this.#socket.write(line);
    this.#held = null;
  }

  close(): void {
    this.#socket.destroy();
  }

  async #askNumber(line: string, limitMs: number): Promise<number> {
    return Number(await this.#ask(line, limitMs));
  }

  #ask(line: string, limitMs: number): Promise<string> {
    // A number of an earlier run may still be answered after a wake, so numbers carry the run they belong to.
    const seq = `${this.#run}.${this.#next++}`;
    if (this.#socket.destroyed) return Promise.reject(new Error("the machine ended"));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(seq);
        reject(new Error(`the guest did not answer "${line.split(" ")[0]}" in ${limitMs} ms`));
      }, limitMs);
      this.#waiting.set(seq, { resolve, reject, timer });
      const text = `${line.replace("SEQ", seq)}\n`;
      if (this.#held) this.#held.push(text);
      else this.#socket.write(text);
    });
  }

  #read(text: string): void {
    this.#rest = (this.#rest + text).slice(-8192);
    for (let end = this.#rest.indexOf("\n"); end >= 0; end = this.#rest.indexOf("\n")) {
      const [word, seq, values] = this.#rest.slice(0, end).split(" ");
      this.#rest = this.#rest.slice(end + 1);
      if (word === "up") {
        for (const resolve of this.#up.splice(0)) resolve();
        continue;
      }
      const waiting = word === "ok" && seq !== undefined ? this.#waiting.get(seq) : undefined;
      if (!waiting || seq === undefined) continue;
      this.#waiting.delete(seq);
      clearTimeout(waiting.timer);
      waiting.resolve(values ?? "");
    }
  }

  #end(): void {
    for (const waiting of this.#waiting.values()) {
      clearTimeout(waiting.timer);
      waiting.reject(new Error("the machine ended"));
    }
    this.#waiting.clear();
  }
}
