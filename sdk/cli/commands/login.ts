import { findBaseUrl } from "../../src/credentials.ts";
import type { Command } from "../command.ts";
import { logIn } from "../device-login.ts";

export const login: Command = {
  name: "login",
  summary: "Get a key by opening a link, and save it for later",
  usage: "[--no-browser] [--name N] [--trial]",
  details:
    "Logs in to ROUSE_API_URL, else where the last login was, else to http://localhost:8787, and makes that the one that\n" +
    "counts from then on. The link is printed on stderr (with --json as one line of JSON) and holds for 15 minutes.",
  words: [0, 0],
  options: {
    "no-browser": { type: "boolean", help: "Only print the link" },
    name: {
      type: "string",
      value: "N",
      help: "What the page and the list of keys show (rouse on this machine's name)",
    },
    trial: { type: "boolean", help: "A trial account will do" },
  },
  async run({ args, out }) {
    const baseUrl = await findBaseUrl();
    const terms = { name: args.text("name"), trial: args.flag("trial"), browser: !args.flag("no-browser") };
    const { account } = await logIn(out, { baseUrl, ...terms });
    out.result(`Logged in to ${baseUrl}, account ${account}`, { account, baseUrl });
    if (process.env["ROUSE_API_KEY"]) out.note("ROUSE_API_KEY is set, and counts before this login.");
    return 0;
  },
};
