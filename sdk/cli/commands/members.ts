import { memberRoles } from "../../contract/account.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const add: Part = {
  name: "add",
  summary: "Add a person and print their id",
  usage: "<name> --role R [--email E]",
  words: [1, 1],
  options: {
    role: { type: "string", value: "R", help: `${memberRoles.join(", ")}: what their keys may do` },
    email: { type: "string", value: "E", help: "E-mail address" },
  },
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    const role = args.choice("role", memberRoles);
    if (role === undefined) throw new UsageError("members add needs --role", `One of: ${memberRoles.join(", ")}.`);
    const member = await client.members.create({ name, role, email: args.text("email") });
    out.result(member.id, member);
    out.note(`To give ${name} a key: rouse keys create --member ${member.id}`);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List members",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const members = await client.members.list();
    const now = Date.now();
    const rows = members.map((one) => [one.id, one.name, one.role, one.email ?? "-", ago(one.createdAt, now)]);
    const text = rows.length === 0 ? "No members." : table(["MEMBER", "NAME", "ROLE", "E-MAIL", "AGE"], rows);
    out.result(text, { data: members });
    return 0;
  },
};

const rm: Part = {
  name: "rm",
  summary: "Remove a person and revoke their keys",
  usage: "<id>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [id = ""] = args.positionals;
    const member = await client.members.remove(id);
    out.result(`${id}: removed`, member);
    return 0;
  },
};

export const members = group({
  name: "members",
  summary: "Add, list and remove the people of the account",
  parts: [add, ls, rm],
});
