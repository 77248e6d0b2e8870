import { RouseError } from "../../src/index.ts";
import type { Command, Context } from "../command.ts";
import { table } from "../output.ts";
import { bookedOf, topHeading, topLines, topRow, topSummary, type Booked, type TopLine } from "../top-table.ts";
import { fitted } from "../text-width.ts";

const SECONDS = 5;
const CLEAR = "\u001b[H\u001b[J";
/** Another screen, so that what was there comes back; and no cursor. */
const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";

export const top: Command = {
  name: "top",
  summary: "Show sandboxes with their states, CPU and cost, over and over",
  usage: "[--once] [--every SEC] [--all]",
  details:
    "q or Ctrl-C ends it. CPU is of one virtual CPU, on average since the look before; hosts report it every few seconds.\n" +
    "Looking wakes nothing. Without a terminal, or with --once, it looks once; with --json each look is a line.",
  words: [0, 0],
  options: {
    once: { type: "boolean", help: "Look once" },
    every: { type: "string", value: "SEC", help: `Seconds between two looks, 1 to 3600 (${SECONDS})` },
    all: { type: "boolean", help: "Also those that can't run again" },
  },
  async run(context) {
    const { args, out } = context;
    const everyMs = (args.whole("every", 1, 3600) ?? SECONDS) * 1000;
    const once = args.flag("once") || (!out.json && process.stdout.isTTY !== true);
    let before: Look | null = null;
    if (once) {
      show(context, await look(context, before), false);
      return 0;
    }
    const keys = new Keys();
    if (!out.json) process.stdout.write(ENTER);
    try {
      for (;;) {
        const seen = await look(context, before);
        if (keys.ended) return 0;
        show(context, seen, !out.json);
        before = seen;
        if (await keys.wait(everyMs)) return 0;
      }
    } finally {
      keys.close();
      if (!out.json) process.stdout.write(LEAVE);
    }
  },
};

interface Look {
  readonly at: number;
  readonly lines: readonly TopLine[];
  readonly booked: ReadonlyMap<string, Booked> | null;
}

async function look({ args, client }: Context, before: Look | null): Promise<Look> {
  const [page, booked] = await Promise.all([
    client.sandboxes.list({ includeStopped: args.flag("all"), limit: 100 }).then((first) => first.toArray()),
    // Money is not for every key to see.
    client.usage({}).then(bookedOf, (error: unknown) => {
      if (error instanceof RouseError && error.status === 403) return null;
      throw error;
    }),
  ]);
  const at = Date.now();
  const infos = page.map(({ info }) => info);
  return { at, booked, lines: topLines(infos, booked, before?.booked ?? null, before ? at - before.at : 0) };
}

function show({ out }: Context, { lines, at }: Look, live: boolean): void {
  if (!live) {
    const text = `${table(
      topHeading,
      lines.map((line) => topRow(line, at)),
      out.look,
    )}\n${topSummary(lines)}`;
    return out.result(text, { at: new Date(at).toISOString(), data: lines });
  }
  const rows = (process.stdout.rows || 24) - 3;
  const shown = table(
    topHeading,
    lines.slice(0, rows).map((line) => topRow(line, at)),
    out.look,
  );
  const rest = lines.length > rows ? `  (${lines.length - rows} more)` : "";
  const head = fitted(
    `rouse top  ${new Date(at).toLocaleTimeString()}  ${topSummary(lines)}${rest}  q quits`,
    out.look.width,
  );
  process.stdout.write(`${CLEAR}${head}\n\n${shown}`);
}

/** What somebody presses meanwhile. */
class Keys {
  ended = false;
  #wake: (() => void) | null = null;
  readonly #onKey = (bytes: Buffer): void => {
    // q, Ctrl-C, Ctrl-D: in raw mode they are only keys.
    if (["q", "Q", "\u0003", "\u0004"].includes(bytes.toString())) this.#end();
  };
  readonly #end = (): void => {
    this.ended = true;
    this.#wake?.();
  };

  constructor() {
    process.on("SIGINT", this.#end);
    process.on("SIGTERM", this.#end);
    if (!process.stdin.isTTY) return;
    process.stdin.setRawMode(true);
    process.stdin.on("data", this.#onKey);
  }

  /** Whether it ended meanwhile. */
  async wait(ms: number): Promise<boolean> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.ended) this.#wake();
    });
    return this.ended;
  }

  close(): void {
    process.off("SIGINT", this.#end);
    process.off("SIGTERM", this.#end);
    if (!process.stdin.isTTY) return;
    process.stdin.off("data", this.#onKey);
    process.stdin.setRawMode(false);
    process.stdin.pause();
  }
}
