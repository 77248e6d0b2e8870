/** Running the command line as its users do: as a process of its own. */
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { Args, UsageError } from "../../sdk/cli/args.ts";
import { commands } from "../../sdk/cli/commands/index.ts";
import { Output } from "../../sdk/cli/output.ts";
import { Rouse } from "../../sdk/src/index.ts";
import { TEST_KEY, WireServer } from "./wire-server.ts";

const MAIN = join(import.meta.dirname, "../../sdk/cli/main.ts");

/** The command line in one file, made once: from its hundred sources a process takes three times as long to start. */
const program = mkdtemp(join(tmpdir(), "rouse-cli-")).then(async (folder) => {
  const outfile = join(folder, "main.mjs");
  await build({ entryPoints: [MAIN], outfile, bundle: true, platform: "node", format: "esm", logLevel: "error" });
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return outfile;
});

export interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A server, and a folder of its own that is the command line's home and working folder. */
export class CliBench {
  readonly server: WireServer;
  readonly folder: string;
  readonly #program: string;

  private constructor(server: WireServer, folder: string, main: string) {
    this.server = server;
    this.folder = folder;
    this.#program = main;
  }

  static async start(): Promise<CliBench> {
    return new CliBench(await WireServer.start(), await mkdtemp(join(tmpdir(), "rouse-test-")), await program);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true });
  }

  /** For those who start it by other means. */
  argv(words: readonly string[]): string[] {
    return [process.execPath, this.#program, ...words];
  }

  get env(): Record<string, string | undefined> {
    return {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      HOME: this.folder,
      XDG_CONFIG_HOME: join(this.folder, "config"),
      ROUSE_HOME: join(this.folder, "home"),
      ROUSE_API_URL: this.server.url,
      ROUSE_API_KEY: TEST_KEY,
    };
  }

  launch(words: readonly string[], env: Record<string, string | undefined> = {}) {
    const child = spawn(process.execPath, [this.#program, ...words], {
      cwd: this.folder,
      env: { ...this.env, ...env },
    });
    const run: Run = { code: null, stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (run.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (run.stderr += text));
    const done = new Promise<Run>((resolve) => child.on("close", (code) => resolve({ ...run, code })));
    return { child, done };
  }

  /**
   * Why the command line refuses words, without a process of its own: those take long, and refusals are many. null when
   * it does not. What a process does with a refusal is tested once.
   */
  async refusal(words: readonly string[]): Promise<UsageError | null> {
    const [name, ...others] = words;
    const command = commands.find((one) => one.name === name);
    if (command === undefined) throw new Error(`no verb ${name}`);
    const client = new Rouse({ baseUrl: this.server.url, apiKey: TEST_KEY });
    try {
      const args = Args.parse(others, command.options);
      await command.run({ args, out: new Output(true), client, sandbox: (id) => client.sandboxes.get(id) });
      return null;
    } catch (error) {
      if (error instanceof UsageError) return error;
      throw error;
    }
  }

  run(words: readonly string[], env: Record<string, string | undefined> = {}, input = ""): Promise<Run> {
    const { child, done } = this.launch(words, env);
    child.stdin.end(input);
    return done;
  }
}
