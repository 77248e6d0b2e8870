/**
 * A WebSocket of which each message counts as use of the machine, and the open connection does not. Bytes pass as they
 * are. When the machine goes to sleep, its client is told by a close code of its own, and can come back later.
 */
import type { Duplex } from "node:stream";
import { RESTING_CLOSE } from "../../sdk/contract/guest-limits.ts";
import { closeFrame, FrameReader, isData } from "./frames.ts";

/** Longest head of an answer, bytes. */
const HEAD_MAX = 65_536;

export interface PulseSocketOptions {
  readonly client: Duplex;
  readonly guest: Duplex;
  /** A message went either way. */
  readonly onUse: () => void;
}

export class PulseSocket {
  readonly #client: Duplex;
  readonly #guest: Duplex;
  readonly #toClient = new FrameReader();
  /** The answer's head so far; null once it is through. */
  #head: Buffer | null = Buffer.alloc(0);
  #isOpen = false;

  /** @param head what came of the client's already */
  constructor({ client, guest, onUse }: PulseSocketOptions, head: Buffer) {
    this.#client = client;
    this.#guest = guest;
    const toGuest = new FrameReader();
    const fromClient = (chunk: Buffer): void => {
      if (toGuest.read(chunk).frames.some(({ opcode }) => isData(opcode))) onUse();
    };
    if (head.length > 0) {
      fromClient(head);
      guest.write(head);
    }
    client.on("data", fromClient);
    guest.on("data", (chunk: Buffer) => {
      const rest = this.#head === null ? chunk : this.#behindHead(chunk);
      if (this.#isOpen && this.#toClient.read(rest).frames.some(({ opcode }) => isData(opcode))) onUse();
    });
    client.pipe(guest);
    guest.pipe(client);
  }

  /** The machine goes to sleep, or ends. */
  rest(): void {
    this.#guest.unpipe(this.#client);
    this.#guest.destroy();
    if (!this.#isOpen || !this.#toClient.atFrameEnd) this.#client.destroy();
    else this.#client.end(closeFrame(RESTING_CLOSE.code, RESTING_CLOSE.reason, false));
  }

  #behindHead(chunk: Buffer): Buffer {
    const head = Buffer.concat([this.#head ?? Buffer.alloc(0), chunk]);
    const end = head.indexOf("\r\n\r\n");
    this.#head = end === -1 && head.length < HEAD_MAX ? head : null;
    this.#isOpen = end !== -1 && head.subarray(0, 16).toString("latin1").startsWith("HTTP/1.1 101 ");
    return this.#isOpen ? head.subarray(end + 4) : Buffer.alloc(0);
  }
}
