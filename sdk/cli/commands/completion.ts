import { z } from "zod";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { completionScript, shells, wordsFor, type Shell } from "../completion.ts";

const Named = z.object({ data: z.array(z.object({ name: z.string().nullable(), id: z.string() })) });
/** Whoever pressed a key waits no longer for names, milliseconds. */
const NAMES_MS = 1500;

/** `completion` knows the other commands, so it is made with them. */
export function completionCommand(commands: () => readonly Command[]): Command {
  return {
    name: "completion",
    summary: "Print a script that completes verbs, options and names of sandboxes in a shell",
    usage: `<${shells.join("|")}>`,
    details:
      "bash: add  source <(rouse completion bash)  to ~/.bashrc\n" +
      "zsh:  add  source <(rouse completion zsh)  to ~/.zshrc, after compinit\n" +
      "fish: rouse completion fish > ~/.config/fish/completions/rouse.fish",
    words: [1, 1],
    takesRest: true,
    options: {},
    async run({ args, out, client }) {
      const [shell = ""] = args.positionals;
      // What the scripts ask, with the words of the line so far; the last is the one to complete.
      if (shell === "words") {
        const names = async (): Promise<string[]> => {
          const call = { method: "GET", path: "/v1/sandboxes", query: { limit: 100 } } as const;
          const answer = await client.transport.json({ ...call, timeoutMs: NAMES_MS, maxRetries: 0 });
          return Named.parse(answer).data.map(({ name, id }) => name ?? id);
        };
        const words = await wordsFor(commands(), args.rest ?? [], () => names().catch(() => []));
        out.result(words.join("\n"), { words });
        return 0;
      }
      const known = shells.find((one) => one === shell);
      if (known === undefined)
        throw new UsageError(`there is no completion for ${JSON.stringify(shell)}`, `Shells: ${shells.join(", ")}.`);
      const script = completionScript(known satisfies Shell);
      out.result(script, { shell: known, script });
      return 0;
    },
  };
}
