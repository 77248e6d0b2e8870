import type { Session, SessionScope } from "../../src/index.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const create: Part = {
  name: "create",
  summary: "Make a session token for web pages or programs without a key, and print it, this once",
  usage: "<sandbox> [--origin URL]... [--scope S]... [--servers] [--ttl SEC] [--name N]",
  words: [1, 1],
  options: {
    origin: { type: "string", value: "URL", multiple: true, help: "Exact origin of pages that may use it" },
    scope: {
      type: "string",
      value: "S",
      multiple: true,
      help: "exec, files, files:read, interpreter, terminal or http (the first two, and interpreter)",
    },
    servers: { type: "boolean", help: "Servers may use it, too; without origins, they always may" },
    ttl: { type: "string", value: "SEC", help: "Seconds until it ends, at most a day (900)" },
    name: { type: "string", value: "N", help: "Whose page it is for" },
  },
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const origins = args.all("origin");
    const scopes = args.all("scope") as SessionScope[];
    const made = await (
      await sandbox(which)
    ).sessions.create({
      name: args.text("name"),
      scopes: scopes.length > 0 ? scopes : undefined,
      origins: origins.length > 0 ? origins : undefined,
      servers: args.flag("servers") ? true : undefined,
      ttlSeconds: args.number("ttl"),
    });
    out.note(`It ends at ${made.expiresAt}. Revoke it with: rouse session rm ${which} ${made.id}`);
    out.result(made.token, made);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List sessions, the newest first",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const sessions = await (await sandbox(which)).sessions.list();
    const heading = ["SESSION", "NAME", "SCOPES", "ORIGINS", "STATE", "ENDS", "USED"];
    out.result(sessions.length === 0 ? "No sessions." : table(heading, sessions.map(rowOf)), { data: sessions });
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Revoke a session, at once, open connections too",
  usage: "<sandbox> <session>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", id = ""] = args.positionals;
    const session = await (await sandbox(which)).sessions.revoke(id);
    out.result(`${session.id} is revoked`, session);
    return 0;
  },
};

function rowOf({ id, name, scopes, origins, servers, state, expiresAt, lastUsedAt }: Session): string[] {
  const used = lastUsedAt === null ? "never" : ago(lastUsedAt, Date.now());
  const from = [...origins, ...(servers ? ["servers"] : [])].join(" ");
  return [id, name ?? "", scopes.join(" "), from, state, expiresAt, used];
}

export const session = group({
  name: "session",
  summary: "Session tokens: a sandbox for web pages and programs without a key",
  parts: [create, ls, rm],
});
