import type { Host } from "../../src/index.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const ls: Part = {
  name: "ls",
  summary: "List hosts",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const hosts = await client.hosts();
    const heading = [
      "HOST",
      "STATE",
      "ACCELERATOR",
      "RUNNING",
      "PAUSED",
      "UNSTORED",
      "FREE MEMORY",
      "FREE DISK",
      "SEEN",
    ];
    out.result(hosts.length === 0 ? "No hosts." : table(heading, hosts.map(rowOf)), { data: hosts });
    return 0;
  },
};

const add: Part = {
  name: "add",
  summary: "Make a host's secrets and print them, this once",
  usage: "<host>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [hostId = ""] = args.positionals;
    const made = await client.addHost(hostId);
    const { hostKey, controlSecret, ticketSecret } = made;
    out.result(JSON.stringify({ hostKey, controlSecret, ticketSecret }, null, 2), made);
    out.note(
      "Save this on the host in a file of mode 0600, and set ROUSE_SECRETS_FILE to its path. It is not shown again; a key\n" +
        `that ${hostId} had before is over.`,
    );
    return 0;
  },
};

const drain: Part = {
  name: "drain",
  summary: "Let it take no new machines, and give up sleepers that are stored; what runs goes on",
  usage: "<host>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [hostId = ""] = args.positionals;
    const after = await client.drainHost(hostId);
    out.result(`${hostId}: ${stateOf(after)}`, after);
    return 0;
  },
};

const undrain: Part = {
  name: "undrain",
  summary: "Let it take new machines again",
  usage: "<host>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [hostId = ""] = args.positionals;
    const after = await client.drainHost(hostId, { draining: false });
    out.result(`${hostId}: ${stateOf(after)}`, after);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Forget a host that does not report any more",
  usage: "<host>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [hostId = ""] = args.positionals;
    await client.removeHost(hostId);
    out.result(`${hostId}: removed`, { hostId, removed: true });
    return 0;
  },
};

export const host = group({
  name: "host",
  summary: "Look after hosts",
  parts: [ls, add, drain, undrain, rm],
});

function rowOf(one: Host): string[] {
  const gib = (mib: number) => `${(mib / 1024).toFixed(1)} GiB`;
  return [
    one.hostId,
    stateOf(one),
    one.accelerator,
    String(one.running),
    String(one.paused),
    String(one.unstored ?? "?"),
    gib(one.freeMemoryMiB),
    gib(one.freeDiskMiB),
    ago(one.lastSeenAt, Date.now()),
  ];
}

function stateOf(one: Host): string {
  return `${one.live ? "live" : "silent"}${one.draining ? ", draining" : ""}`;
}
