/** A secret that is typed or piped in: words of a command line are seen by everybody on the machine. */
import { text } from "node:stream/consumers";
import { UsageError } from "./args.ts";

/**
 * All of standard input but a line's end at its end; of a terminal one line, which is not shown.
 * @throws UsageError when there is none
 */
export async function secretFromInput(prompt: string): Promise<string> {
  const typed = process.stdin.isTTY ? await typedLine(prompt) : (await text(process.stdin)).replace(/\r?\n$/, "");
  if (typed === "")
    throw new UsageError("there is no value on standard input", "Such as: printf %s KEY | rouse secret set NAME");
  return typed;
}

function typedLine(prompt: string): Promise<string> {
  const { stdin, stderr } = process;
  stderr.write(prompt);
  stdin.setRawMode(true);
  stdin.setEncoding("utf8");
  return new Promise((resolve, reject) => {
    let line = "";
    const end = (act: () => void) => {
      stdin.off("data", take);
      stdin.setRawMode(false);
      stdin.pause();
      stderr.write("\n");
      act();
    };
    const take = (chunk: string) => {
      for (const char of chunk) {
        if (char === "\r" || char === "\n" || char === "\u0004") return end(() => resolve(line));
        if (char === "\u0003") return end(() => reject(new UsageError("stopped", "Nothing was stored.")));
        line = char === "\u007f" || char === "\b" ? [...line].slice(0, -1).join("") : line + char;
      }
    };
    stdin.on("data", take);
    stdin.resume();
  });
}
