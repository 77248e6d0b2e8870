/**
 * The image of an agent preset: what the default image holds, the runtime on top, and what has to run in the state that
 * new sandboxes begin with.
 */
import { copyFile, mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  imageOf,
  PRESET_FOLDER,
  servicesOf,
  TRIGGER_PROGRAM,
  TRUST_MODULE,
  type AgentPreset,
  type PresetRecipe,
} from "../../../sdk/contract/agent-preset.ts";
import type { OnBoot, Service } from "../../../sdk/contract/boot.ts";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";
import type { Progress } from "../../progress.ts";
import type { Image } from "../build.ts";
import { removeTree } from "../leftovers.ts";
import { inTurn } from "../turn.ts";
import { contentKey } from "../recipe.ts";

/** What is done in a machine before its state becomes the one that new machines begin with. */
export interface Readying {
  readonly onBoot: OnBoot | null;
  readonly services: readonly Service[];
  /** Whether the services are stopped again. */
  readonly stops: boolean;
  /** Shell commands, by the user. */
  readonly seal: readonly string[];
  readonly limitMs: number;
}

export interface AgentImage {
  readonly image: Image;
  readonly readying: Readying;
}

const [trigger = "", trust = ""] = ["agent-trigger.ts", "agent-trust.ts"].map((name) =>
  fileURLToPath(new URL(name, import.meta.url)),
);
const npm = fileURLToPath(new URL("../../../node_modules/npm/bin/npm-cli.js", import.meta.url));
const BUILD_LIMIT_MS = 1_800_000;
const READY_LIMIT_MS = 2_400_000;

/** Build it, or find it in the cache. @throws Error that says which step failed */
export async function buildAgentImage(
  preset: AgentPreset & { readonly recipe: PresetRecipe },
  base: Image,
  cacheDir: string,
  progress: Progress,
): Promise<AgentImage> {
  const name = imageOf(preset);
  const { recipe } = preset;
  const { golden, seal = [], ...content } = recipe;
  const ran = content.firstRun && [preset.env ?? {}, preset.user ?? ""];
  const key = contentKey(
    base.key,
    content,
    ran ?? [],
    await readFile(trigger),
    await readFile(trust),
    "agent layout 2",
  );
  const dir = join(cacheDir, "base", `${name}-${key}`);
  const disk = join(dir, "disk.ext4");
  if (!(await exists(disk))) {
    await progress.step(
      `building the image "${name}" (${preset.title} ${preset.version}, once, 1 to 4 minutes)`,
      (part) => inTurn(cacheDir, dir, part, () => buildDisk(preset, base, dir, part)),
    );
  }
  const services = servicesOf(preset);
  // A state with the agent up keeps what the image has, for each sandbox to replace; one without makes all of it anew.
  const stops = golden === "prepared";
  const readying = { onBoot: (stops && preset.identity) || null, services, stops, seal, limitMs: READY_LIMIT_MS };
  return {
    image: { ...base, name, key, bootKey: contentKey(key, base.bootKey, readying), disk },
    readying,
  };
}

async function buildDisk(
  { recipe, env = {}, user = "runtime" }: AgentPreset & { readonly recipe: PresetRecipe },
  base: Image,
  dir: string,
  under: (part: string) => void,
): Promise<void> {
  if (await exists(join(dir, "disk.ext4"))) return;
  const part = `${dir}.part-${process.pid}`;
  const root = join(part, "root");
  await removeTree(part);
  await mkdir(part, { recursive: true, mode: 0o755 });
  try {
    under("copying the default image");
    await copyContent(base.disk, root);
    // Everything below is done inside, or in a folder that is new: the image's links lead nowhere on this host.
    const inside = (command: string, input?: string) =>
      run("chroot", [root, "/bin/sh", "-ec", command], {
        timeoutMs: BUILD_LIMIT_MS,
        ...(input === undefined ? {} : { input }),
      });
    await inside(`cat > ${TRIGGER_PROGRAM}`, await readFile(trigger, "utf8"));
    await inside(`cat > ${TRUST_MODULE}`, await readFile(trust, "utf8"));
    await withNetwork(root, inside, async () => {
      if (recipe.apt?.length) {
        under("Debian packages");
        await inside(
          `apt-get -q update && apt-get -q -y --no-install-recommends install ${recipe.apt.map(quoted).join(" ")}`,
        );
      }
      if (recipe.npm?.length) {
        under(recipe.npm.join(", "));
        await installNpm(recipe.npm, root, part);
      }
      if (recipe.pip?.length) {
        under(recipe.pip.join(", "));
        await inside(`pip install --no-cache-dir --root-user-action ignore ${recipe.pip.map(quoted).join(" ")}`);
      }
      for (const { path, content, mode = "644", owner = "root" } of recipe.files ?? []) {
        await inside(fileCommand(path, mode, owner), content);
      }
      for (const command of recipe.commands ?? []) {
        under(command.slice(0, 60));
        await inside(command);
      }
    });
    for (const command of recipe.firstRun ?? []) {
      under("its first start");
      await runAlone(root, user, env, command);
    }
    await inside("rm -rf /var/cache/apt/* /var/lib/apt/lists/* /root/.npm /root/.cache /tmp/*");
    const made = join(part, "disk.ext4");
    under("writing the file system");
    await run("truncate", ["-s", `${recipe.sizeMiB}M`, made]);
    const eager = ["-E", "lazy_itable_init=0,lazy_journal_init=0"];
    await run("mkfs.ext4", ["-q", "-F", "-L", "rouse", ...eager, "-d", root, made]);
    await removeTree(root);
    await rename(part, dir);
  } finally {
    await removeTree(part);
  }
}

/** The files of a disk as a folder: read from a mount, which alone gives owners, rights and devices as they are. */
async function copyContent(disk: string, root: string): Promise<void> {
  const mount = `${root}-of-default`;
  await mkdir(mount, { mode: 0o700 });
  await run("mount", ["-o", "loop,ro,nodev,nosuid,noexec", disk, mount]);
  try {
    await run("cp", ["-a", "--reflink=auto", mount, root]);
  } finally {
    await run("umount", ["-l", mount]);
  }
  await run("chmod", ["755", root]);
  await run("rm", ["-rf", join(root, "lost+found")]);
}

/** npm of this host, which knows its registry and its proxies; scripts of packages are not run on it. */
async function installNpm(packages: readonly string[], root: string, part: string): Promise<void> {
  const prefix = join(part, "npm");
  await mkdir(prefix, { mode: 0o755 });
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts", "--omit=dev"];
  await run(process.execPath, [npm, "install", "--prefix", prefix, ...quiet, "--", ...packages], {
    cwd: prefix,
    timeoutMs: BUILD_LIMIT_MS,
  });
  await run("chroot", [root, "/bin/sh", "-ec", `mkdir -p ${PRESET_FOLDER}`]);
  await run("chown", ["-R", "0:0", prefix]);
  for (const name of ["node_modules", "package.json", "package-lock.json"])
    await rename(join(prefix, name), join(root, PRESET_FOLDER, name));
}

/** As that user, with processes, mounts and a loopback of its own, which end with the command. */
async function runAlone(root: string, user: string, env: Readonly<Record<string, string>>, command: string) {
  const variables = { HOME: "/workspace", USER: user, PATH: "/usr/local/bin:/usr/bin:/bin", ...env };
  const words = Object.entries(variables).map(([name, value]) => quoted(`${name}=${value}`));
  const asUser = `setpriv --reuid=${user} --regid=${user} --init-groups env -i ${words.join(" ")}`;
  const script = `ip link set lo up && cd /workspace && exec ${asUser} /bin/sh -ec ${quoted(command)}`;
  const apart = ["--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", `--mount-proc=${root}/proc`];
  await run("unshare", [...apart, "chroot", root, "/bin/sh", "-ec", script], { timeoutMs: BUILD_LIMIT_MS });
}

/** The image's resolver is the machine's own, which is not there yet. */
async function withNetwork(
  root: string,
  inside: (command: string, input?: string) => Promise<unknown>,
  work: () => Promise<void>,
): Promise<void> {
  const kept = join(root, "etc/.resolv.conf.image");
  await rename(join(root, "etc/resolv.conf"), kept);
  await copyFile("/etc/resolv.conf", join(root, "etc/resolv.conf"));
  await work();
  await inside("mv /etc/.resolv.conf.image /etc/resolv.conf");
}

function fileCommand(path: string, mode: string, owner: "root" | "runtime"): string {
  const folder = path.slice(0, path.lastIndexOf("/")) || "/";
  // Folders that are missing are the owner's; those that are there stay as they are.
  const make = owner === "root" ? "mkdir -p" : "setpriv --reuid=runtime --regid=runtime --init-groups mkdir -p";
  return [
    `${make} ${quoted(folder)}`,
    `umask 077 && cat > ${quoted(path)}`,
    `chmod ${mode} ${quoted(path)}`,
    `chown ${owner}:${owner} ${quoted(path)}`,
  ].join(" && ");
}

/** As one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
