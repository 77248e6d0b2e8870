import { keyAccesses, parseApiKey } from "../../contract/account.ts";
import type { Key } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { microsOf, usd } from "../money.ts";
import { ago, table } from "../output.ts";
import { endOf } from "../time.ts";

const create: Part = {
  name: "create",
  summary: "Make a key and print it, this once",
  usage: "[--name N] [options]",
  words: [0, 0],
  options: {
    name: { type: "string", value: "N", help: "What it is for" },
    access: { type: "string", value: "A", help: `${keyAccesses.join(", ")} (full, or what the member's role may)` },
    prefix: { type: "string", value: "P", help: "It sees and makes only sandboxes whose name begins so" },
    "max-sandboxes": { type: "string", value: "N", help: "Sandboxes made with it that may exist at once" },
    ttl: { type: "string", value: "SEC", help: "Seconds until it ends, at least 60" },
    expires: { type: "string", value: "ISO", help: "When it ends, such as 2026-12-31 or 2026-12-31T18:00:00Z" },
    "daily-limit": { type: "string", value: "USD", help: "What sandboxes made with it may cost in a day (UTC)" },
    member: { type: "string", value: "ID", help: "The member who holds it" },
  },
  async run({ args, out, client }) {
    const expires = args.text("expires");
    const ttlSeconds = args.whole("ttl");
    if (expires !== undefined && ttlSeconds !== undefined)
      throw new UsageError("--ttl and --expires say the same", "Use one of them.");
    const made = await client.keys.create({
      name: args.text("name"),
      access: args.choice("access", keyAccesses),
      namePrefix: args.text("prefix"),
      maxSandboxes: args.whole("max-sandboxes"),
      ttlSeconds,
      expiresAt: expires === undefined ? undefined : endOf("--expires", expires),
      dailyLimitMicros: microsOf("--daily-limit", args.text("daily-limit")),
      memberId: args.text("member"),
    });
    out.result(made.key, made);
    out.note(`This is the only time that the key is shown. Its id is ${made.id}.`);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List keys, also those that ended",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const keys = await client.keys.list();
    const now = Date.now();
    const rows = keys.map((key) => [
      key.id,
      key.name,
      key.access,
      stateOf(key, now),
      limitsOf(key),
      usd(key.spentTodayMicros),
      ago(key.createdAt, now),
    ]);
    const heading = ["KEY", "NAME", "ACCESS", "STATE", "LIMITS", "TODAY", "AGE"];
    out.result(rows.length === 0 ? "No keys." : table(heading, rows), { data: keys });
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Revoke a key, at once",
  usage: "<id>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [word = ""] = args.positionals;
    // A whole key must not get into a path, which servers log.
    const id = parseApiKey(word)?.keyId ?? word;
    const revoked = await client.keys.revoke(id);
    out.result(`${id}: revoked`, revoked);
    return 0;
  },
};

export const keys = group({ name: "keys", summary: "Make, list and revoke API keys", parts: [create, ls, rm] });

function stateOf(key: Key, now: number): string {
  if (key.revokedAt !== null) return "revoked";
  if (key.expiresAt === null) return "active";
  return Date.parse(key.expiresAt) <= now ? "ended" : `until ${key.expiresAt.slice(0, 16)}Z`;
}

function limitsOf({ namePrefix, maxSandboxes, dailyLimitMicros, memberId }: Key): string {
  const limits = [
    ...(namePrefix === null ? [] : [`names ${namePrefix}...`]),
    ...(maxSandboxes === null ? [] : [`${maxSandboxes} sandboxes`]),
    ...(dailyLimitMicros === null ? [] : [`${usd(dailyLimitMicros)} a day`]),
    ...(memberId === null ? [] : [`of ${memberId}`]),
  ];
  return limits.join(", ") || "-";
}
