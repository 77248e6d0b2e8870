import type { Command } from "../command.ts";
import { keySources } from "../key-sources.ts";
import { table } from "../output.ts";

export const whoami: Command = {
  name: "whoami",
  summary: "Show whose key is in use, and where it comes from",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const me = await client.me();
    const { baseUrl, source } = await client.transport.credentials();
    const rows = [
      ["account", me.orgName],
      ["access", me.access ?? me.role],
      ...(me.namePrefix ? [["names", `${me.namePrefix}...`]] : []),
      ["key", `${me.credentialId ?? "-"}, from ${keySources[source]}`],
      ["address", baseUrl],
    ];
    out.result(table(["FIELD", "VALUE"], rows), { ...me, baseUrl, source });
    return 0;
  },
};
