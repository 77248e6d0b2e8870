/** A second QEMU beside the system's own: the one of Debian's backports, unpacked into a folder and not installed. */
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defaultHome } from "../../backend-pool/config.ts";
import { removeLeftovers } from "../../backend-pool/images/leftovers.ts";
import { run } from "../../backend-pool/process.ts";

export interface OtherQemu {
  readonly version: string;
  /** Holds a `qemu-system-x86_64`. */
  readonly bin: string;
}

const PROGRAM = "qemu-system-x86_64";
const DOWNLOAD_LIMIT_MS = 180_000;

/** Its own libraries, modules and firmware first; what it does not bring is the system's. */
const WRAPPER = `#!/bin/sh
root="\${0%/*}/../root"
export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu" QEMU_MODULE_DIR="$root/usr/lib/x86_64-linux-gnu/qemu"
exec "$root/usr/bin/${PROGRAM}" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
`;

/** One of another version than `system`, fetched once; or why there is none. */
export async function otherQemu(system: string): Promise<OtherQemu | string> {
  const about = await readFile("/etc/os-release", "utf8").catch(() => "");
  const codename = /^ID=debian$/m.test(about) ? /^VERSION_CODENAME=(\w+)$/m.exec(about)?.[1] : undefined;
  if (codename === undefined || process.arch !== "x64")
    return "only Debian on x86-64 has another QEMU in its backports";
  const cache = join(defaultHome(), "test-qemu");
  await mkdir(cache, { recursive: true, mode: 0o700 });
  await removeLeftovers(cache);
  const known = (await readdir(cache)).filter((name) => name.startsWith(`${codename}-`) && !name.includes(".part-"));
  for (const name of known) {
    const found = await check(join(cache, name)).catch(() => null);
    if (found && found.version !== system) return found;
  }
  const part = join(cache, `${codename}.part-${process.pid}`);
  try {
    await fetchInto(part, codename);
    const { version } = await check(part);
    if (version === system) return `the backports have the system's QEMU, ${system}`;
    const dir = join(cache, `${codename}-${version}`);
    await rm(dir, { recursive: true, force: true });
    await rename(part, dir);
    return { version, bin: join(dir, "bin") };
  } catch (fault) {
    return `no QEMU from ${codename}-backports: ${fault instanceof Error ? fault.message : String(fault)}`;
  } finally {
    await rm(part, { recursive: true, force: true });
  }
}

/** @throws Error when it does not even tell its version */
async function check(dir: string): Promise<OtherQemu> {
  const bin = join(dir, "bin");
  const { stdout } = await run(join(bin, PROGRAM), ["--version"], { timeoutMs: 20_000 });
  const version = /version (\S+)/.exec(stdout)?.[1];
  if (version === undefined) throw new Error(`it answers "${stdout.slice(0, 100)}" when asked for its version`);
  return { version, bin };
}

/** With package lists of its own, so that nothing of the system changes and no right is needed. */
async function fetchInto(dir: string, codename: string): Promise<void> {
  const at = (...names: string[]) => join(dir, ...names);
  await Promise.all(
    ["apt/lists/partial", "apt/archives/partial", "debs", "root", "bin"].map((name) => {
      return mkdir(at(name), { recursive: true });
    }),
  );
  const sources = await backports(codename);
  await writeFile(at("apt/sources.list"), sources);
  const settings = [
    `Dir::Etc::SourceList=${at("apt/sources.list")}`,
    "Dir::Etc::SourceParts=/dev/null",
    `Dir::State::Lists=${at("apt/lists")}`,
    `Dir::Cache=${at("apt")}`,
    // Its own user could not write here.
    "APT::Sandbox::User=root",
    "Acquire::Retries=2",
    "APT::Update::Error-Mode=any",
  ].flatMap((setting) => ["-o", setting]);
  const apt = (args: string[], cwd = dir) => {
    return run("apt-get", ["-q", ...settings, ...args], { cwd, timeoutMs: DOWNLOAD_LIMIT_MS });
  };
  await apt(["update"]);
  // What it needs beyond what is installed, libraries and firmware included.
  const needed = ["-s", "-y", "--no-install-recommends", "-t", `${codename}-backports`, "install", "qemu-system-x86"];
  const { stdout } = await apt(needed);
  const packages = Array.from(
    stdout.matchAll(/^Inst (\S+) (?:\[\S+\] )?\((\S+) /gm),
    (line) => `${line[1]}=${line[2]}`,
  );
  if (packages.length === 0) throw new Error("there is none newer than the system's");
  await apt(["download", ...packages], at("debs"));
  for (const name of await readdir(at("debs"))) await run("dpkg-deb", ["-x", at("debs", name), at("root")]);
  await writeFile(at("bin", PROGRAM), WRAPPER);
  await chmod(at("bin", PROGRAM), 0o755);
  await Promise.all(["apt", "debs"].map((name) => rm(at(name), { recursive: true })));
}

/** The mirror that this system's own packages come from. */
async function backports(codename: string): Promise<string> {
  const format = ["--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"];
  const { stdout } = await run("apt-get", ["indextargets", ...format]).catch(() => ({ stdout: "" }));
  const own = stdout.split("\n").find((line) => line.endsWith(` ${codename} main`));
  const mirror = own?.split(" ")[0] ?? "http://deb.debian.org/debian/";
  return `deb ${mirror} ${codename}-backports main\n`;
}
