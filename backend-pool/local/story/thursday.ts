// Thursday, from another process: the same interpreter, the same variables, the same web server.
import { agentFor } from "./agent.ts";

const user = process.argv[2] ?? "u-42";
const thursday = await agentFor(user);
const recall = await thursday.interpreter.run("notes");
const rows = await thursday.interpreter.run("int(frame.spent.sum())");
const boot = await thursday.exec("cat /proc/sys/kernel/random/boot_id");
console.log(
  JSON.stringify({
    reused: thursday.info.reused,
    recall: recall.results[0]?.data["text/plain"],
    sum: rows.results[0]?.data["text/plain"],
    bootId: boot.stdout.trim(),
  }),
);
