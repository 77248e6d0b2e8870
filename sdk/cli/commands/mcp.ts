import type { McpServer } from "../../contract/mcp.ts";
import type { McpGateway } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { table } from "../output.ts";

const catalog: Part = {
  name: "catalog",
  summary: "List servers that need no installation",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ client, out }) {
    const data = await client.mcp.catalog();
    const rows = data.map(({ id, description, options }) => [
      id,
      options.map((one) => `${one.name}=${one.default ?? ""}`).join(" "),
      description,
    ]);
    out.result(table(["SERVER", "OPTIONS", ""], rows), { data });
    return 0;
  },
};

const start: Part = {
  name: "start",
  summary: "Start servers in the sandbox and print their URL; the words after -- are a command of your own",
  usage: "<sandbox> <server>... [--secret S.K=N] [--env S.K=V] [--option S.K=V] [--port 8765] [--replace] [-- CMD...]",
  words: [2, 14],
  options: {
    secret: { type: "string", multiple: true, value: "S.K=N", help: "Server S has the secret N as variable K" },
    env: { type: "string", multiple: true, value: "S.K=V", help: "Variable K of server S" },
    option: { type: "string", multiple: true, value: "S.K=V", help: "Option K of server S" },
    port: { type: "string", value: "P", help: "Port of the gateway (8765)" },
    replace: { type: "boolean", help: "These servers alone, under a new token" },
  },
  takesRest: true,
  async run({ args, out, sandbox }) {
    const [which = "", ...names] = args.positionals;
    const facts = {
      secrets: settings("secret", args.all("secret"), names),
      env: settings("env", args.all("env"), names),
      options: settings("option", args.all("option"), names),
    };
    // The last name is that of the command.
    const own = args.rest === null ? null : names.at(-1);
    const servers = names.map((name): McpServer => {
      const given = { secrets: facts.secrets.get(name), env: facts.env.get(name) };
      const common = {
        ...(given.secrets ? { secrets: given.secrets } : {}),
        ...(given.env ? { env: given.env } : {}),
      };
      if (name === own) return { name, command: [...(args.rest ?? [])], ...common };
      const options = facts.options.get(name);
      return { id: name, ...(options ? { options } : {}), ...common };
    });
    const target = await sandbox(which);
    const made = await target.mcp.start(servers, { port: args.number("port"), replace: args.flag("replace") });
    show(made, out);
    return 0;
  },
};

const status: Part = {
  name: "status",
  summary: "Show the servers, their URLs and token",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    show(await (await sandbox(which)).mcp.status(), out);
    return 0;
  },
};

const stop: Part = {
  name: "stop",
  summary: "Stop all servers; their token opens nothing any more",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    await (await sandbox(which)).mcp.stop();
    out.result("No MCP servers.", { stopped: true });
    return 0;
  },
};

function show(gateway: McpGateway, out: { note(text: string): void; result(text: string, value: object): void }): void {
  const { servers, url, token, warnings } = gateway;
  for (const warning of warnings) out.note(warning);
  const rows = servers.map((one) => [one.name, one.status, one.url, one.message?.split("\n")[0] ?? ""]);
  const all = servers.length > 1 ? `\n\nAll of them: ${url}` : "";
  const bearer = token === null ? "" : `${all === "" ? "\n" : ""}\nAuthorization: Bearer ${token}`;
  out.result(
    servers.length === 0 ? "No MCP servers." : `${table(["SERVER", "STATE", "URL", ""], rows)}${all}${bearer}`,
    gateway,
  );
}

/** `S.K=V`, by server. @throws UsageError */
function settings(
  option: string,
  texts: readonly string[],
  names: readonly string[],
): Map<string, Record<string, string>> {
  const all = new Map<string, Record<string, string>>();
  for (const text of texts) {
    const match = /^([^.=]+)\.([^=]+)=(.*)$/s.exec(text);
    const [, server = "", key = "", value = ""] = match ?? [];
    if (!match || !names.includes(server))
      throw new UsageError(`--${option} is SERVER.NAME=VALUE, of a server that is started`, "See rouse help mcp.");
    all.set(server, { ...all.get(server), [key]: value });
  }
  return all;
}

export const mcp = group({
  name: "mcp",
  summary: "MCP servers in a sandbox, for agents anywhere",
  details:
    "Such as:\n" +
    "  rouse mcp start agent-1 memory filesystem --option filesystem.paths=/workspace/notes\n" +
    "  rouse mcp start agent-1 mine --secret mine.API_KEY=my-secret -- npx -y my-server",
  parts: [catalog, start, status, stop],
});
