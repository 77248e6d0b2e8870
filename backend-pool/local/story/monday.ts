// Monday: the agent loads the user's data and takes a note, and starts a web server.
import { agentFor } from "./agent.ts";

const user = process.argv[2] ?? "u-42";
const monday = await agentFor(user);
await monday.interpreter.run("import pandas as pd\nnotes = ['prefers weekly summaries']");
await monday.interpreter.run("frame = pd.DataFrame({'spent': range(200_000)})");
await monday.exec("mkdir -p site && echo 'hello from monday' > site/index.html", { check: true });
await monday.spawn("python3 -m http.server 8080", { cwd: "site" });
await monday.exec("until curl -sf localhost:8080; do sleep 0.2; done");
const server = await monday.fetch("/");
if (!server.ok) throw new Error(`the web server answers ${server.status}: ${await server.text()}`);
const boot = await monday.exec("cat /proc/sys/kernel/random/boot_id");
console.log(
  JSON.stringify({ id: monday.id, url: monday.url(), page: (await server.text()).trim(), bootId: boot.stdout.trim() }),
);
