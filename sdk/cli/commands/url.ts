import { defaults } from "../../contract/sandbox.ts";
import { RouseError } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";

export const url: Command = {
  name: "url",
  summary: "Print a sandbox's URL",
  usage: "<name> [port] [--token] [--ttl SEC]",
  details: "Opening the URL wakes the sandbox. With --token it holds a token that lets a browser in until it ends.",
  words: [1, 2],
  options: {
    token: { type: "boolean", help: "With a token, for people without a key" },
    ttl: { type: "string", value: "SEC", help: "Seconds until the token ends, 60 to 604800 (a day)" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", portText] = args.positionals;
    const port = portText === undefined ? defaults.port : Number(portText);
    if (!Number.isInteger(port) || port < 1 || port > 65_535) {
      throw new UsageError(`${JSON.stringify(portText)} is not a port`, "Pass a port from 1 to 65535.");
    }
    const ttlSeconds = args.number("ttl");
    if (ttlSeconds !== undefined && !args.flag("token"))
      throw new UsageError("--ttl needs --token", "Pass --token --ttl SEC.");
    const target = await sandbox(name);
    if (!args.flag("token")) {
      out.result(target.url(port), { url: target.url(port), port });
      return 0;
    }
    // Opening a port anew would undo that it is public.
    const preview = await target.previews.get(port, { ttlSeconds }).catch((error: unknown) => {
      if (error instanceof RouseError && error.status === 404) return target.previews.create(port, { ttlSeconds });
      throw error;
    });
    out.result(preview.urlWithToken ?? preview.url, preview);
    return 0;
  },
};
