/**
 * Secrets in their three modes: a service outside gets them, and they are looked for in all places where they may not
 * be, by root of the machine and on its host.
 */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { Rouse, type Sandbox } from "rouse";
import { z } from "zod";
import { Authority } from "../../egress/ca.ts";
import { search } from "./canaries.ts";
import type { Prepared } from "./prepared.ts";
import type { Stage } from "./tell.ts";

const SERVICE = "api.rouse-demo.com";
const MODES = ["broker", "placeholder", "env"] as const;
type Mode = (typeof MODES)[number];

export interface SecretsResult {
  /** Files, processes and values that were searched, in the machine and on the host. */
  readonly places: number;
  readonly canariesFound: number;
  readonly brokeredCallOk: boolean;
}

/** Looks for the prefix that all canaries have: the machine's root does not know more, or would have them. */
const GUEST_SEARCH = `
import json, os, re
pattern = re.compile(b"rouse-can" + b"ary-(broker|placeholder|env)-[0-9a-f]{32}")
places, found = 0, []
def look(path, size=None):
    global places
    try:
        with open(path, "rb") as file:
            data, rest = b"", b""
            places += 1
            while True:
                chunk = file.read(4194304)
                if not chunk:
                    break
                data = rest + chunk
                found.extend((match.group(1).decode(), path) for match in pattern.finditer(data))
                rest = data[-80:]
    except OSError:
        pass
def memory(pid):
    global places
    try:
        with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb", 0) as mem:
            places += 1
            for line in maps:
                span, rights = line.split()[:2]
                if "rw" not in rights or "[v" in line:
                    continue
                start, end = (int(part, 16) for part in span.split("-"))
                at = start
                while at < end:
                    try:
                        mem.seek(at)
                        data = mem.read(min(end - at, 4194304))
                    except (OSError, OverflowError, ValueError):
                        break
                    if not data:
                        break
                    found.extend((match.group(1).decode(), "/proc/%s/mem" % pid) for match in pattern.finditer(data))
                    at += len(data)
    except OSError:
        pass
me = str(os.getpid())
for pid in os.listdir("/proc"):
    if pid.isdigit() and pid != me:
        look("/proc/%s/environ" % pid)
        look("/proc/%s/cmdline" % pid)
        memory(pid)
look("/proc/cmdline")
for folder in ["/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr/lib/rouse", "/usr/local", "/var", "/workspace", "/dev/shm", "/sys/firmware"]:
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if os.path.isfile(path) and not os.path.islink(path):
                look(path)
print(json.dumps({"places": places, "found": found}))
`;
const GuestFound = z.object({ places: z.int(), found: z.array(z.tuple([z.enum(MODES), z.string()])) });

/** What the service tells of a request: the digest of what it got, so that no answer brings a secret into the machine. */
const Told = z.object({ authorization: z.string(), key: z.string() });

export async function prepareSecrets(stateDir: string): Promise<Prepared> {
  const authority = await Authority.open(join(stateDir, "service-authority.pem"));
  const caFile = join(stateDir, "service-ca.pem");
  await writeFile(caFile, authority.pem, { mode: 0o600 });
  const server = createServer(
    { SNICallback: (name, done) => done(null, authority.context(name)) },
    ({ headers, url }, res) => {
      const told = { authorization: digest(headers.authorization ?? ""), key: digest(String(headers["x-key"] ?? "")) };
      res.setHeader("content-type", "application/json");
      res.end(JSON.stringify({ ...told, url }));
    },
  ).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    options: {
      env: {
        ROUSE_EGRESS_HOSTS: JSON.stringify({ [`${SERVICE}:443`]: `127.0.0.1:${port}` }),
        ROUSE_EGRESS_UPSTREAM_CA: caFile,
        ROUSE_ARCHIVE_SECONDS: "0",
      },
    },
    tell: tellSecrets,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** @throws Error when a request does not carry its secret, or a secret is where it may not be */
export async function tellSecrets(stage: Omit<Stage, "accelerator"> & { stateDir: string }): Promise<SecretsResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url });
  const canaries = Object.fromEntries(
    MODES.map((mode) => [mode, `rouse-canary-${mode}-${randomBytes(16).toString("hex")}`]),
  ) as Record<Mode, string>;
  say("A machine is made that may reach one service alone, and it sleeps ...");
  const sandbox = await rouse.sandboxes.create({
    name: `secretive-${process.pid}`,
    idlePauseSeconds: 0,
    network: { internet: false, allow: [SERVICE] },
  });
  await sandbox.pause();
  say("It gets three secrets: one that its host puts into requests, one by a placeholder, one as a variable ...");
  await sandbox.secrets.set("broker", { value: canaries.broker, hosts: [SERVICE] });
  await sandbox.secrets.set("placeholder", { value: canaries.placeholder, mode: "placeholder", hosts: [SERVICE] });
  await sandbox.secrets.set("env", { value: canaries.env, mode: "env" });

  const awake = await call(sandbox);
  const variable = (await sandbox.exec('printf %s "$ENV" | sha256sum')).stdout.slice(0, 64);
  const isRight =
    awake.authorization === digest(`Bearer ${canaries.broker}`) &&
    awake.key === digest(canaries.placeholder) &&
    variable === digest(canaries.env);
  if (!isRight) throw new Error("a secret did not get where it belongs");
  say("The service got the first two, and a program in the machine the third.");

  say("Root of the machine looks for them: all processes with their memory, and all files ...");
  await sandbox.files.write("/workspace/search.py", GUEST_SEARCH);
  const looked = await sandbox.exec("sudo env -u ENV python3 /workspace/search.py", { timeoutMs: 600_000 });
  if (looked.exitCode !== 0) throw new Error(`the search in the machine failed: ${looked.stderr}`);
  const guest = GuestFound.parse(JSON.parse(looked.stdout));
  // The third is given to programs: they have it in memory, and may not find it in a file. That it is found there shows
  // that the search finds what there is.
  if (!guest.found.some(([mode]) => mode === "env")) throw new Error("the search in the machine found nothing at all");
  const inGuest = guest.found.filter(([mode, path]) => mode !== "env" || !path.startsWith("/proc/"));

  say("It sleeps and is stored; every file of its host and of the edge is searched ...");
  await sandbox.pause();
  await sandbox.waitUntilDurable();
  const host = await search([stage.stateDir], canaries, (file, mode) => mode === "env" && isMemory(file));
  say(
    `${host.files} files of the host with ${Math.round(host.bytes / 1_048_576)} MiB, ${guest.places} places in the machine`,
  );
  for (const [mode, path] of inGuest) say(`FOUND in the machine: ${mode}, ${path}`);
  for (const { word, file } of host.found) say(`FOUND on the host: ${word}, ${file}`);
  const again = await call(sandbox);
  await sandbox.delete();
  const canariesFound = inGuest.length + host.found.length;
  const brokeredCallOk = again.authorization === digest(`Bearer ${canaries.broker}`);
  if (canariesFound > 0 || !brokeredCallOk) throw new Error(`${canariesFound} secrets are where they may not be`);
  return { places: guest.places + host.files, canariesFound, brokeredCallOk };
}

/** As any program would, with a header of its own that its host replaces. */
async function call(sandbox: Sandbox): Promise<z.infer<typeof Told>> {
  const command = `curl -fsS -m 60 -H "authorization: Bearer mine" -H "x-key: $PLACEHOLDER" https://${SERVICE}/v1/echo`;
  const { stdout, stderr, exitCode } = await sandbox.exec(command);
  if (exitCode !== 0) throw new Error(`the service was not reached: ${stderr}`);
  return Told.parse(JSON.parse(stdout));
}

/** RAM of a machine, which has what its programs have; what is stored of it is encrypted. */
function isMemory(file: string): boolean {
  return ["ram", "device-state"].includes(basename(file));
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
