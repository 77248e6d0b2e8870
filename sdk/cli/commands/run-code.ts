import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { Command } from "../command.ts";
import { exitCodes } from "../output.ts";

export const runCode: Command = {
  name: "run-code",
  summary: "Run Python in a sandbox's interpreter, where variables stay",
  usage: "<name> <file|->",
  words: [2, 2],
  options: {
    context: { type: "string", value: "ID", help: "Context to run in" },
    timeout: { type: "string", value: "SEC", help: "Time limit (none)" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", file = ""] = args.positionals;
    const seconds = args.number("timeout");
    const code = file === "-" ? await text(process.stdin) : await readFile(file, "utf8");
    const target = await sandbox(name);
    const run = await target.interpreter.run(code, {
      context: args.text("context"),
      timeoutMs: seconds === undefined ? 0 : Math.ceil(seconds * 1000),
      interruptOnDisconnect: true,
      ...(out.json
        ? {}
        : {
            onStdout: (chunk: string) => process.stdout.write(chunk),
            onStderr: (chunk: string) => process.stderr.write(chunk),
          }),
    });
    if (out.json) out.result("", run);
    else {
      for (const result of run.results) {
        const plain = result.data["text/plain"];
        out.result(typeof plain === "string" ? plain : `<${Object.keys(result.data).join(", ")}>`, null);
      }
      if (run.error !== null) out.note(run.error.traceback || `${run.error.name}: ${run.error.value}`);
      else if (run.status !== "ok") out.note(`rouse: the run ended as ${run.status}`);
    }
    if (run.status === "ok") return exitCodes.ok;
    return run.status === "timeout" ? exitCodes.timedOut : exitCodes.failure;
  },
};
