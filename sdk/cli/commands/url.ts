import { defaults } from "../../contract/sandbox.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { portOf, previewOf } from "../port.ts";

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
    const port = portText === undefined ? defaults.port : portOf(portText);
    const ttlSeconds = args.number("ttl");
    if (ttlSeconds !== undefined && !args.flag("token"))
      throw new UsageError("--ttl needs --token", "Pass --token --ttl SEC.");
    const target = await sandbox(name);
    if (!args.flag("token")) {
      out.result(target.url(port), { url: target.url(port), port });
      return 0;
    }
    const preview = await previewOf(target, port, ttlSeconds);
    out.result(preview.urlWithToken ?? preview.url, preview);
    return 0;
  },
};
