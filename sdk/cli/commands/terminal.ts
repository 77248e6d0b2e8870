import { spawnSync } from "node:child_process";
import type { Terminal } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { ago, exitCodes, table } from "../output.ts";
import type { Output } from "../output.ts";
import { Escapes, Modes } from "../terminal-input.ts";

/** Typed bytes that the sandbox has not taken yet, of which more is not read from the keyboard. */
const AHEAD_BYTES = 1_048_576;

export const terminal: Command = {
  name: "terminal",
  summary: "Open a terminal, or come back to one",
  usage: "<name> [options] [-- <command...>]",
  details:
    "A login shell unless there is a command. ~. at the beginning of a line looks away, and the terminal goes on;\n" +
    "~~ there types one ~. It goes on over sleep and broken connections; while the sandbox sleeps, a key wakes it.\n" +
    "Exits with the command's code, 128 + n when signal n ended it, 0 after ~.",
  words: [1, 1],
  takesRest: true,
  options: {
    attach: { type: "string", short: "a", value: "ID", help: "Come back to a terminal, with what it wrote meanwhile" },
    list: { type: "boolean", short: "l", help: "List terminals" },
    kill: { type: "string", value: "ID", help: "End a terminal and what runs in it" },
    cwd: { type: "string", value: "PATH", help: "Working folder (/workspace)" },
    env: { type: "string", value: "K[=V]", multiple: true, help: "Variable; K alone takes this shell's value" },
  },
  async run({ args, out, sandbox }) {
    const name = args.positionals[0] ?? "";
    const [attach, kill] = [args.text("attach"), args.text("kill")];
    const asked = ["attach", "list", "kill"].filter((option) => args.given().includes(option));
    if (asked.length > 1) throw new UsageError(`--${asked.join(" and --")} go not together`, "Give one of them.");
    if (asked.length > 0 && args.rest !== null)
      throw new UsageError(`--${asked[0]} takes no command`, "Leave out what is after --.");
    if (args.flag("list")) {
      const all = await (await sandbox(name)).terminal.list();
      const rows = all.map((one) => [one.id, one.state, ago(one.startedAt, Date.now()), one.command]);
      out.result(table(["ID", "STATE", "AGE", "COMMAND"], rows), { data: all });
      return exitCodes.ok;
    }
    if (kill !== undefined) {
      await (await sandbox(name)).terminal.kill(kill);
      out.result(`ended ${kill}`, { id: kill });
      return exitCodes.ok;
    }
    if (out.json) throw new UsageError("a terminal has no JSON", "Use rouse exec --json for a command's output.");
    if (!process.stdin.isTTY || !process.stdout.isTTY)
      throw new UsageError("this is no terminal", "Use rouse exec -i to pass input to a command.");
    const { cols, rows } = sizeNow();
    const words = args.rest ?? [];
    const command = words.length === 0 ? undefined : words.length === 1 ? words[0] : words;
    const [cwd, env] = [args.text("cwd"), args.pairs("env", process.env)];
    const { terminal: terminals } = await sandbox(name);
    const opened =
      attach === undefined
        ? await terminals.open({ command, cwd, env, cols, rows })
        : await terminals.attach(attach, { cols, rows });
    return await new Keyboard(opened, out).serve(`rouse terminal ${name} --attach ${opened.id}`);
  },
};

/** One's own terminal in the service of another; it is set back however this ends. */
class Keyboard {
  readonly #terminal: Terminal;
  readonly #out: Output;
  readonly #escapes = new Escapes();
  readonly #modes = new Modes();
  readonly #onKeys = (keys: Buffer): void => this.#type(keys);
  readonly #onResize = (): void => {
    const { cols, rows } = sizeNow();
    this.#terminal.resize(cols, rows);
  };
  readonly #onEnd = (): void => this.#terminal.detach();
  readonly #onExit = (): void => this.#restore();
  readonly #onSignal = (_signal: string, number: number): void => process.exit(exitCodes.signal + number);
  #waiting = 0;
  #isRaw = false;

  constructor(terminal: Terminal, out: Output) {
    this.#terminal = terminal;
    this.#out = out;
  }

  /** @param comeBack how to see it again */
  async serve(comeBack: string): Promise<number> {
    const { stdin, stdout } = process;
    process.on("exit", this.#onExit);
    for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, this.#onSignal);
    stdin.setRawMode(true);
    this.#isRaw = true;
    // Node's raw mode still turns a new line into two characters, which the terminal there has done already.
    spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
    stdin.on("data", this.#onKeys);
    stdin.once("end", this.#onEnd);
    stdout.on("resize", this.#onResize);
    this.#onResize(); // it may have changed while the connection was made
    try {
      for await (const event of this.#terminal.events()) {
        if (event.type === "output") {
          this.#modes.read(event.data);
          await this.#out.pass("stdout", event.data);
        } else if (event.type === "exit") {
          const { exitCode } = event;
          return exitCode === null ? exitCodes.failure : exitCode < 0 ? exitCodes.signal - exitCode : exitCode;
        }
      }
      this.#restore();
      this.#out.note(`\r\n[looked away; the terminal goes on: ${comeBack}]`);
      return exitCodes.ok;
    } finally {
      this.#terminal.detach();
      this.#restore();
      process.off("exit", this.#onExit);
      for (const signal of ["SIGTERM", "SIGHUP"] as const) process.off(signal, this.#onSignal);
      stdin.off("data", this.#onKeys);
      stdin.off("end", this.#onEnd);
      stdout.off("resize", this.#onResize);
      stdin.pause();
    }
  }

  #type(keys: Buffer): void {
    const { typed, detach } = this.#escapes.read(keys);
    this.#waiting += typed.length;
    if (this.#waiting > AHEAD_BYTES) process.stdin.pause();
    const taken = (): void => {
      this.#waiting -= typed.length;
      if (this.#waiting <= AHEAD_BYTES && this.#isRaw) process.stdin.resume();
    };
    // What becomes of the terminal is told by its events.
    void this.#terminal.write(typed).then(taken, () => undefined);
    if (detach) this.#terminal.detach();
  }

  #restore(): void {
    if (!this.#isRaw) return;
    this.#isRaw = false;
    process.stdout.write(this.#modes.reset());
    // It may be gone, together with its window.
    try {
      process.stdin.setRawMode(false);
    } catch {}
  }
}

/** A terminal that nobody has looked at says that it has no size. */
function sizeNow(): { cols: number; rows: number } {
  const { columns, rows } = process.stdout;
  return { cols: columns || 80, rows: rows || 24 };
}
