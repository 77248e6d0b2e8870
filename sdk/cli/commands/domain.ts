/** Verbs for the domains of a sandbox. */
import type { Domain, Sandbox } from "../../src/index.ts";
import type { Args, OptionSpecs } from "../args.ts";
import { group, type Part } from "../group.ts";
import type { Output } from "../output.ts";
import { ago, exitCodes, table } from "../output.ts";

const waits: OptionSpecs = {
  wait: { type: "boolean", help: "Look again and again until it is verified" },
  timeout: { type: "string", value: "SECONDS", help: "With --wait: for so long at most (600)" },
};

const add: Part = {
  name: "add",
  summary: "Add a domain, and print the DNS records to set",
  usage: "<sandbox> <domain> [--port P] [--wait [--timeout SECONDS]]",
  words: [2, 2],
  options: { port: { type: "string", value: "P", help: "Port of the program (8080)" }, ...waits },
  async run({ args, out, sandbox }) {
    const [which = "", domain = ""] = args.positionals;
    const target = await sandbox(which);
    const made = await target.domains.create({ domain, port: args.whole("port", 1, 65_535) });
    if (args.flag("wait")) {
      out.note(`Set these records where the DNS of ${made.domain} is served:\n\n${recordsOf(made)}\n`);
      return waitFor(target, made.domain, args, out);
    }
    if (made.state !== "verified") out.note(`Then: rouse domain verify ${which} ${made.domain}`);
    out.result(recordsOf(made), made);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List domains, the oldest first",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const data = await (await sandbox(which)).domains.list();
    const now = Date.now();
    const rows = data.map((one) => [
      ...[one.domain, String(one.port), one.state, one.reason ?? ""],
      one.checkedAt === null ? "never" : ago(one.checkedAt, now),
    ]);
    const heading = ["DOMAIN", "PORT", "STATE", "WHY", "LOOKED AT"];
    out.result(data.length === 0 ? "No domains." : table(heading, rows), { data });
    return 0;
  },
};

const show: Part = {
  name: "show",
  summary: "Show a domain with the DNS records to set",
  usage: "<sandbox> <domain>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", domain = ""] = args.positionals;
    const found = await (await sandbox(which)).domains.get(domain);
    out.result(shown(found), found);
    return 0;
  },
};

const verify: Part = {
  name: "verify",
  summary: "Look at its DNS now; exits with 1 while it is not verified",
  usage: "<sandbox> <domain> [--wait [--timeout SECONDS]]",
  words: [2, 2],
  options: waits,
  async run({ args, out, sandbox }) {
    const [which = "", domain = ""] = args.positionals;
    const target = await sandbox(which);
    if (args.flag("wait")) return waitFor(target, domain, args, out);
    const seen = await target.domains.verify(domain);
    out.result(shown(seen), seen);
    return seen.state === "verified" ? 0 : exitCodes.failure;
  },
};

const port: Part = {
  name: "port",
  summary: "Have requests for it reach another port",
  usage: "<sandbox> <domain> <port>",
  words: [3, 3],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", domain = "", text = ""] = args.positionals;
    const changed = await (await sandbox(which)).domains.update(domain, { port: Number(text) });
    out.result(`${changed.domain} leads to port ${changed.port}`, changed);
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Give a domain up",
  usage: "<sandbox> <domain>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", domain = ""] = args.positionals;
    const gone = await (await sandbox(which)).domains.delete(domain);
    out.result(`${gone.domain} is given up`, gone);
    return 0;
  },
};

async function waitFor(sandbox: Sandbox, domain: string, args: Args, out: Output): Promise<number> {
  const seconds = args.whole("timeout", 1, 604_800) ?? 600;
  const onLook = (seen: Domain) => out.progress(`${seen.domain}: ${seen.state}${whyOf(seen)}`);
  const verified = await sandbox.domains.waitVerified(domain, { timeoutMs: seconds * 1000, onLook });
  out.result(shown(verified), verified);
  return 0;
}

function recordsOf({ records }: Domain): string {
  return table(
    ["TYPE", "NAME", "VALUE"],
    records.map(({ type, name, value }) => [type, name, value]),
  );
}

function shown(domain: Domain): string {
  const { state, port: to, dns, missingSince, expiresAt, url } = domain;
  const leads = dns && [...dns.cnames, ...dns.addresses].join(", ");
  const here =
    dns?.pointsHere === true ? "here" : dns?.pointsHere === false ? "not here" : "can't be told whether here";
  const lines = [
    `${domain.domain} is ${state}${whyOf(domain)}, for port ${to}`,
    ...(state === "verified" ? [`  open: ${url}`] : []),
    ...(missingSince === null ? [] : [`  TXT record gone since ${missingSince}`]),
    ...(expiresAt === null ? [] : [`  looked for until ${expiresAt}`]),
    ...(dns === null ? [] : [`  leads to ${leads === "" ? "nothing" : leads} (${here})`]),
  ];
  return `${lines.join("\n")}\n\n${recordsOf(domain)}`;
}

function whyOf({ reason }: Domain): string {
  return reason === null ? "" : ` (${reason})`;
}

export const domain = group({
  name: "domain",
  summary: "Domains of your own for a sandbox",
  parts: [add, ls, show, verify, port, rm],
});
