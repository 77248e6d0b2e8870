import { SandboxState, sandboxStates } from "../../contract/sandbox.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { ago, table } from "../output.ts";

export const ls: Command = {
  name: "ls",
  summary: "List sandboxes",
  usage: "[--state S] [--label K=V] [--all]",
  words: [0, 0],
  options: {
    state: { type: "string", value: "S", multiple: true, help: `Only in this state: ${sandboxStates.join(", ")}` },
    label: { type: "string", value: "K=V", multiple: true, help: "Only with this label" },
    all: { type: "boolean", help: "Also those that can't run again" },
  },
  async run({ args, out, client }) {
    const states = args.all("state").map((text) => {
      const state = SandboxState.safeParse(text);
      if (!state.success)
        throw new UsageError(`there is no state ${JSON.stringify(text)}`, `States: ${sandboxStates.join(", ")}.`);
      return state.data;
    });
    const page = await client.sandboxes.list({
      state: states.length === 0 ? undefined : states,
      labels: args.pairs("label"),
      includeStopped: args.flag("all"),
      limit: 100,
    });
    const infos = (await page.toArray()).map((sandbox) => sandbox.info);
    const now = Date.now();
    const rows = infos.map((info) => [
      info.name ?? info.id,
      info.state,
      ago(info.createdAt, now),
      info.state === "running" || info.pausedAt === null ? ago(info.lastActiveAt, now) : ago(info.pausedAt, now),
      info.url,
    ]);
    out.result(
      rows.length === 0
        ? "No sandboxes. Make one: rouse create --name demo"
        : table(["NAME", "STATE", "AGE", "IDLE SINCE", "URL"], rows),
      { data: infos },
    );
    return 0;
  },
};
