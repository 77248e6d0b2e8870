/** WebSocket frames (RFC 6455) in a stream of bytes: where they end, and what kind they are. Payloads are not touched. Pure. */

export const opcodes = { continuation: 0x0, text: 0x1, binary: 0x2, close: 0x8, ping: 0x9, pong: 0xa } as const;

export interface Frame {
  readonly opcode: number;
  /** The last of its message. */
  readonly fin: boolean;
  /** Payload of a ping or pong; null of others. */
  readonly control: Buffer | null;
}

export interface Read {
  /** Frames that ended in the chunk. */
  readonly frames: readonly Frame[];
  /** Offset in the chunk behind the last frame that ended in it; null where none did. */
  readonly frameEnd: number | null;
  /** Offset behind the last point at which no message is half through. */
  readonly messageEnd: number | null;
}

const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MASK_BYTES = 4;
/** A control frame's payload is no longer, bytes. */
const CONTROL_MAX = 125;

/** Follows one direction of a connection. What is no WebSocket is not found out: its bytes pass all the same. */
export class FrameReader {
  #header: number[] = [];
  #frame: { opcode: number; fin: boolean; left: number; control: number[] | null; mask: number[] } | null = null;
  #inMessage = false;

  /** No frame is half through. */
  get atFrameEnd(): boolean {
    return this.#frame === null && this.#header.length === 0;
  }

  /** No message is half through, and no frame. */
  get atMessageEnd(): boolean {
    return this.atFrameEnd && !this.#inMessage;
  }

  read(chunk: Buffer): Read {
    const frames: Frame[] = [];
    let [frameEnd, messageEnd]: [number | null, number | null] = [null, null];
    let at = 0;
    while (at < chunk.length || this.#frame?.left === 0) {
      if (!this.#frame) {
        this.#header.push(chunk[at++] ?? 0);
        this.#frame = parseHeader(this.#header);
        if (!this.#frame) continue;
        this.#header = [];
      }
      const frame = this.#frame;
      const taken = Math.min(frame.left, chunk.length - at);
      if (frame.control) for (let i = 0; i < taken; i++) frame.control.push(chunk[at + i] ?? 0);
      frame.left -= taken;
      at += taken;
      if (frame.left > 0) break;
      this.#frame = null;
      frames.push({ opcode: frame.opcode, fin: frame.fin, control: unmasked(frame) });
      if (isData(frame.opcode)) this.#inMessage = !frame.fin;
      frameEnd = at;
      if (!this.#inMessage) messageEnd = at;
    }
    return { frames, frameEnd, messageEnd };
  }
}

/** Frames of messages, not of the connection itself. */
export function isData(opcode: number): boolean {
  return opcode <= opcodes.binary;
}

/** A frame of at most 65 535 bytes. @param masked as a client must */
export function frameOf(opcode: number, payload: Buffer, masked: boolean): Buffer {
  const length =
    payload.length < LENGTH_16 ? [payload.length] : [LENGTH_16, payload.length >> 8, payload.length & 0xff];
  // A mask of zeros is one: it hides nothing, and there is no proxy between host and guest to be protected by it.
  const mask = masked ? [0, 0, 0, 0] : [];
  const [first = 0, ...rest] = length;
  return Buffer.concat([Buffer.from([0x80 | opcode, first | (masked ? 0x80 : 0), ...rest, ...mask]), payload]);
}

export function closeFrame(code: number, reason: string, masked: boolean): Buffer {
  return frameOf(opcodes.close, Buffer.concat([Buffer.from([code >> 8, code & 0xff]), Buffer.from(reason)]), masked);
}

function parseHeader(bytes: readonly number[]) {
  const [first = 0, second] = bytes;
  if (second === undefined) return null;
  const short = second & 0x7f;
  const lengthBytes = short === LENGTH_16 ? 2 : short === LENGTH_64 ? 8 : 0;
  const isMasked = (second & 0x80) !== 0;
  if (bytes.length < 2 + lengthBytes + (isMasked ? MASK_BYTES : 0)) return null;
  let left = lengthBytes === 0 ? short : 0;
  for (const byte of bytes.slice(2, 2 + lengthBytes)) left = left * 256 + byte;
  const opcode = first & 0x0f;
  const isPing = (opcode === opcodes.ping || opcode === opcodes.pong) && left <= CONTROL_MAX;
  return {
    opcode,
    fin: (first & 0x80) !== 0,
    left,
    control: isPing ? [] : null,
    mask: isMasked ? bytes.slice(2 + lengthBytes) : [],
  };
}

function unmasked({ control, mask }: { control: number[] | null; mask: readonly number[] }): Buffer | null {
  return control && Buffer.from(control.map((byte, i) => byte ^ (mask[i % MASK_BYTES] ?? 0)));
}
