import { SocketRules } from "../../contract/socket.ts";
import type { HeldSocket, SocketRule } from "../../src/index.ts";
import { group, type Part } from "../group.ts";
import { jsonFrom } from "../json-file.ts";
import { ago, table } from "../output.ts";

const ls: Part = {
  name: "ls",
  summary: "List the sockets that are held, the oldest first",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const held = await (await sandbox(which)).sockets.list();
    const heading = ["SOCKET", "SINCE", "PORT", "PATH", "STATE", "IN", "OUT", "BUFFERED", "WAITS FOR"];
    const now = Date.now();
    const rows = held.map((one) => rowOf(one, now));
    out.result(held.length === 0 ? "No held sockets." : table(heading, rows), { data: held });
    return 0;
  },
};

const rules: Part = {
  name: "rules",
  summary: "Show which WebSockets are held",
  usage: "<sandbox>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const { sockets = [] } = (await sandbox(which)).info;
    out.result(shown(sockets), { sockets });
    return 0;
  },
};

const set: Part = {
  name: "set",
  summary: "Set which WebSockets are held while the sandbox sleeps",
  usage: "<sandbox> <FILE>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", file = ""] = args.positionals;
    const target = await sandbox(which);
    await target.update({ sockets: await jsonFrom(file, SocketRules, "rules", "See rouse help sockets.") });
    const { sockets = [] } = target.info;
    out.result(shown(sockets), { sockets });
    return 0;
  },
};

const close: Part = {
  name: "close",
  summary: "Close a held socket, for its client and for the program",
  usage: "<sandbox> <socket>",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", id = ""] = args.positionals;
    const closed = await (await sandbox(which)).sockets.close(id);
    out.result(`${closed.id} is closed`, closed);
    return 0;
  },
};

function rowOf(one: HeldSocket, now: number): string[] {
  const { id, since, port, path, state, framesIn, framesOut, buffered, waitsFor } = one;
  const counts = [framesIn, framesOut, buffered].map(String);
  return [id, ago(since, now), String(port), path, state, ...counts, waitsFor ?? ""];
}

function shown(rules: readonly SocketRule[]): string {
  if (rules.length === 0) return "No WebSocket is held.";
  const rows = rules.map((rule) => [
    rule.path,
    rule.port === undefined ? "any" : String(rule.port),
    rule.keep === false ? "no" : "yes",
    rule.announce === true ? "yes" : "no",
    rule.reopenOnWake === false ? "no" : "yes",
    rule.ping === undefined ? "" : `${rule.ping} -> ${rule.pong ?? ""}`,
  ]);
  return table(["PATH", "PORT", "HELD", "ANNOUNCES", "REOPENS ON WAKE", "PING"], rows);
}

export const sockets = group({
  name: "sockets",
  summary: "WebSockets that stay open while a sandbox sleeps",
  details:
    "FILE (- for stdin) holds all rules as a JSON list, the first that fits counts; [] for none. Such as:\n" +
    '  [{"path":"/ws*"},{"path":"/chat","port":3000,"announce":true,"ping":"ping","pong":"pong"}]',
  parts: [ls, rules, set, close],
  unnamed: "ls",
});
