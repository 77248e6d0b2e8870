import { defaults } from "../../contract/sandbox.ts";
import { openBrowser, openerOf } from "../browser.ts";
import type { Command } from "../command.ts";
import { portOf, previewOf } from "../port.ts";

export const open: Command = {
  name: "open",
  summary: "Open a sandbox's URL in a browser, or print it where there is none",
  usage: "<name> [port] [--print]",
  details:
    "The URL has a token that lets this browser in for a day, unless the port is open to everybody. It wakes the sandbox.",
  words: [1, 2],
  options: { print: { type: "boolean", help: "Only print it" } },
  async run({ args, out, sandbox }) {
    const [name = "", portText] = args.positionals;
    const port = portText === undefined ? defaults.port : portOf(portText);
    const preview = await previewOf(await sandbox(name), port);
    const url = preview.urlWithToken ?? preview.url;
    const opens = !args.flag("print") && openerOf(process.platform, process.env).length > 0;
    if (opens) openBrowser(url);
    // The token lets anybody in: where a browser has it, it need not stay on the screen.
    out.result(opens ? `Opened ${preview.url}` : url, { url, port, opened: opens, expiresAt: preview.tokenExpiresAt });
    return 0;
  },
};
