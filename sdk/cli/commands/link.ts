import type { Link } from "../../src/index.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const create: Part = {
  name: "create",
  summary: "Make a link for people without a key, and print it, this once",
  usage: "<sandbox> [--name N] [--port P] [--path /PREFIX] [--ttl SEC] [--no-wake]",
  words: [1, 1],
  options: {
    name: { type: "string", value: "N", help: "Whom it is for" },
    port: { type: "string", value: "P", help: "Port of the program (8080)" },
    path: { type: "string", value: "/PREFIX", help: "It opens this path and what is below it (/)" },
    ttl: { type: "string", value: "SEC", help: "Seconds until it ends, at most a year (604800, a week)" },
    "no-wake": { type: "boolean", help: "It does not wake the sandbox" },
  },
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const made = await (
      await sandbox(which)
    ).links.create({
      name: args.text("name"),
      port: args.number("port"),
      path: args.text("path"),
      ttlSeconds: args.number("ttl"),
      wake: args.flag("no-wake") ? false : undefined,
    });
    out.note(`It ends at ${made.expiresAt}. Revoke it with: rouse link rm ${which} ${made.id}`);
    out.result(made.urlWithToken ?? made.url, made);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List links, the newest first",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const links = await (await sandbox(which)).links.list();
    const heading = ["LINK", "NAME", "PORT", "PATH", "STATE", "ENDS", "USED"];
    out.result(links.length === 0 ? "No links." : table(heading, links.map(rowOf)), { data: links });
    return 0;
  },
};

const show: Part = {
  name: "show",
  summary: "Show a link and when it was used",
  usage: "<sandbox> <link>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", id = ""] = args.positionals;
    const link = await (await sandbox(which)).links.get(id);
    const uses = (link.uses ?? []).map(({ at, request, woke }) => [
      ago(at, Date.now()),
      request,
      woke ? "woke it" : "",
    ]);
    const heading = ["LINK", "NAME", "PORT", "PATH", "STATE", "ENDS", "USED"];
    const log = uses.length === 0 ? "Never used." : table(["WHEN", "REQUEST", ""], uses);
    out.result(`${table(heading, [rowOf(link)])}\n\n${log}`, link);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Revoke a link, at once, open connections too",
  usage: "<sandbox> <link>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", id = ""] = args.positionals;
    const link = await (await sandbox(which)).links.revoke(id);
    out.result(`${link.id} is revoked`, link);
    return 0;
  },
};

function rowOf({ id, name, port, path, state, expiresAt, lastUsedAt }: Link): string[] {
  const used = lastUsedAt === null ? "never" : ago(lastUsedAt, Date.now());
  return [id, name ?? "", String(port), path, state, expiresAt, used];
}

export const link = group({
  name: "link",
  summary: "Share links: a port of a sandbox for people without a key",
  parts: [create, ls, show, rm],
});
