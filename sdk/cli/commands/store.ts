/** Verbs for stores that agents share. */
import { StoreAccess, StoreKind } from "../../contract/store.ts";
import type { Store } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const create: Part = {
  name: "create",
  summary: "Make a store",
  usage: "<name> [--kind K]",
  words: [1, 1],
  options: {
    kind: { type: "string", value: "K", multiple: true, help: `${StoreKind.options.join(", ")}; both unless given` },
  },
  async run({ args, out, client }) {
    const kinds = args.all("kind").map((word) => {
      const kind = StoreKind.options.find((one) => one === word);
      if (kind) return kind;
      throw new UsageError(`--kind is ${JSON.stringify(word)}`, `It is one of: ${StoreKind.options.join(", ")}.`);
    });
    const made = await client.stores.create(args.positionals[0] ?? "", kinds.length === 0 ? {} : { kinds });
    out.result(made.name, made);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List stores, and to whom each is open",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const data = await client.stores.list();
    const now = Date.now();
    const rows = data.map((one) => [one.name, one.kinds.join(","), grantsOf(one), ago(one.createdAt, now)]);
    out.result(rows.length === 0 ? "No stores." : table(["STORE", "KINDS", "GRANTS", "AGE"], rows), { data });
    return 0;
  },
};

const get: Part = {
  name: "get",
  summary: "Show a store",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const store = await client.stores.get(args.positionals[0] ?? "");
    const rows = store.grants.map(({ agent, access }) => [agent, access]);
    const open = rows.length === 0 ? "open to no agent" : table(["AGENT", "ACCESS"], rows);
    out.result(`${store.name}  ${store.kinds.join(",")}  ${store.createdAt}\n${open}`, store);
    return 0;
  },
};

const grant: Part = {
  name: "grant",
  summary: "Open a store to the sandbox of a name, or to '*'",
  usage: "<name> <agent> [--access read|write]",
  words: [2, 2],
  options: { access: { type: "string", value: "A", help: "read or write (read)" } },
  async run({ args, out, client }) {
    const [name = "", agent = ""] = args.positionals;
    const access = args.choice("access", StoreAccess.options) ?? "read";
    const store = await client.stores.grant(name, { agent, access });
    out.result(`${name}: ${grantsOf(store)}`, store);
    return 0;
  },
};

const revoke: Part = {
  name: "revoke",
  summary: "Close a store to an agent, at once",
  usage: "<name> <agent>",
  words: [2, 2],
  options: {},
  async run({ args, out, client }) {
    const [name = "", agent = ""] = args.positionals;
    const store = await client.stores.revoke(name, agent);
    out.result(`${name}: ${grantsOf(store)}`, store);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Delete a store with all that is in it",
  usage: "<name> --yes",
  words: [1, 1],
  options: { yes: { type: "boolean", help: "All that is in it goes for good" } },
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    if (!args.flag("yes"))
      throw new UsageError(
        `All that is in ${name} goes for good`,
        `Keep it: rouse memory export --store ${name}; then --yes.`,
      );
    const deleted = await client.stores.delete(name);
    out.result(`${name}: deleted`, deleted);
    return 0;
  },
};

export const store = group({
  name: "store",
  summary: "Share memory and state among agents; say who may read and write",
  details: "A sandbox reaches a store that is open to it at http://rouse.internal/stores/NAME/memory.",
  parts: [create, ls, get, grant, revoke, rm],
});

function grantsOf({ grants }: Store): string {
  return grants.map(({ agent, access }) => `${agent}:${access}`).join(" ") || "-";
}
