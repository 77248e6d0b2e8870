import type { Host } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { ago, table } from "../output.ts";

export const host: Command = {
  name: "host",
  summary: "Look after hosts: ls, drain, undrain, rm",
  usage: "<ls|drain|undrain|rm> [host]",
  details:
    "drain: the host takes no new machines; those it has go on. undrain takes it back.\n" +
    "rm: forget a host that does not report any more.",
  words: [1, 2],
  options: {},
  async run({ args, out, client }) {
    const [verb = "", hostId] = args.positionals;
    if (verb === "ls") {
      const hosts = await client.hosts();
      const heading = ["HOST", "STATE", "ACCELERATOR", "RUNNING", "PAUSED", "FREE MEMORY", "FREE DISK", "SEEN"];
      out.result(hosts.length === 0 ? "No hosts." : table(heading, hosts.map(rowOf)), { data: hosts });
      return 0;
    }
    if (verb !== "drain" && verb !== "undrain" && verb !== "rm")
      throw new UsageError(`there is no verb ${JSON.stringify(verb)} of hosts`, "Verbs: ls, drain, undrain, rm.");
    if (hostId === undefined) throw new UsageError(`host ${verb} needs a host`, "See them with: rouse host ls");
    if (verb === "rm") {
      await client.removeHost(hostId);
      out.result(`${hostId}: removed`, { hostId, removed: true });
      return 0;
    }
    const after = await client.drainHost(hostId, { draining: verb === "drain" });
    out.result(`${hostId}: ${stateOf(after)}`, after);
    return 0;
  },
};

function rowOf(one: Host): string[] {
  const gib = (mib: number) => `${(mib / 1024).toFixed(1)} GiB`;
  return [
    one.hostId,
    stateOf(one),
    one.accelerator,
    String(one.running),
    String(one.paused),
    gib(one.freeMemoryMiB),
    gib(one.freeDiskMiB),
    ago(one.lastSeenAt, Date.now()),
  ];
}

function stateOf(one: Host): string {
  return `${one.live ? "live" : "silent"}${one.draining ? ", draining" : ""}`;
}
