/** What is typed at a terminal of a sandbox, and what its output leaves set in one's own. Pure. */

const [ESCAPE, DOT, CR, LF] = [0x7e, 0x2e, 0x0d, 0x0a];

/** `~.` at the beginning of a line looks away, `~~` there is one `~`; everything else is typed. */
export class Escapes {
  #atLineStart = true;
  #escaped = false;

  read(bytes: Uint8Array): { readonly typed: Uint8Array<ArrayBuffer>; readonly detach: boolean } {
    const typed: number[] = [];
    for (const byte of bytes) {
      if (this.#escaped) {
        this.#escaped = false;
        if (byte === DOT) return { typed: Uint8Array.from(typed), detach: true };
        if (byte !== ESCAPE) typed.push(ESCAPE);
      } else if (byte === ESCAPE && this.#atLineStart) {
        this.#escaped = true;
        continue;
      }
      typed.push(byte);
      this.#atLineStart = byte === CR || byte === LF;
    }
    return { typed: Uint8Array.from(typed), detach: false };
  }
}

/** A visible cursor, which is on unless it is turned off. */
const CURSOR = "25";
const ESC = String.fromCharCode(27);
const SEQUENCE = new RegExp(`${ESC}\\[\\?([\\d;]{1,60})([hl])`, "g");
/** Longest part of a sequence that may be at the end of a piece. */
const TAIL = 64;

/** Modes of a terminal, such as its other screen or a hidden cursor, that a program set and did not reset. */
export class Modes {
  readonly #changed = new Set<string>();
  #tail = "";

  read(bytes: Uint8Array): void {
    const text = this.#tail + Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    let end = 0;
    for (const match of text.matchAll(SEQUENCE)) {
      end = match.index + match[0].length;
      for (const mode of (match[1] ?? "").split(";")) {
        const isUsual = (match[2] === "h") === (mode === CURSOR);
        if (isUsual) this.#changed.delete(mode);
        else this.#changed.add(mode);
      }
    }
    this.#tail = text.slice(Math.max(end, text.length - TAIL));
  }

  /** What sets all of them back, and colours. */
  reset(): string {
    const back = [...this.#changed].map((mode) => `\u001b[?${mode}${mode === CURSOR ? "h" : "l"}`);
    return `${back.join("")}\u001b[0m`;
  }
}
