import type { Sandbox } from "../src/index.ts";
import type { Command } from "./command.ts";

/** A verb that changes one sandbox, waits, and shows the state that follows. `doing`: its present participle. */
export function change(
  name: string,
  summary: string,
  doing: string,
  act: (sandbox: Sandbox) => Promise<unknown>,
): Command {
  return {
    name,
    summary,
    usage: "<name>",
    words: [1, 1],
    options: {},
    async run({ args, out, sandbox }) {
      const [which = ""] = args.positionals;
      const target = await sandbox(which);
      out.progress(`${doing} ${which}...`);
      await act(target);
      out.result(`${which}: ${target.state}`, target.info);
      return 0;
    },
  };
}
