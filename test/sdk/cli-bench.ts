/** Running the command line as its users do: as a process of its own. */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TEST_KEY, WireServer } from "./wire-server.ts";

const MAIN = join(import.meta.dirname, "../../sdk/cli/main.ts");

export interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A server, and a folder of its own that is the command line's home and working folder. */
export class CliBench {
  readonly server: WireServer;
  readonly folder: string;

  private constructor(server: WireServer, folder: string) {
    this.server = server;
    this.folder = folder;
  }

  static async start(): Promise<CliBench> {
    return new CliBench(await WireServer.start(), await mkdtemp(join(tmpdir(), "rouse-test-")));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true });
  }

  launch(words: readonly string[], env: Record<string, string | undefined> = {}) {
    const child = spawn(process.execPath, [MAIN, ...words], {
      cwd: this.folder,
      env: {
        PATH: process.env["PATH"],
        HOME: this.folder,
        ROUSE_API_URL: this.server.url,
        ROUSE_API_KEY: TEST_KEY,
        ...env,
      },
    });
    const run: Run = { code: null, stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (run.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (run.stderr += text));
    const done = new Promise<Run>((resolve) => child.on("close", (code) => resolve({ ...run, code })));
    return { child, done };
  }

  run(words: readonly string[], env: Record<string, string | undefined> = {}, input = ""): Promise<Run> {
    const { child, done } = this.launch(words, env);
    child.stdin.end(input);
    return done;
  }
}
