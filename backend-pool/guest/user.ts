/** The guest user: who commands and file work run as. */
import { chownSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Become that user for good, before anything else runs. One process with one set of rights is simpler to trust than a
 * privileged one that has to lower its rights for each file. The folders are made first, and become the user's.
 * @throws when there is no such user, or this process may not become it
 */
export function becomeUser(name: string, folders: readonly string[]): void {
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((entry) => entry.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(":").map(Number) ?? [];
  if (uid === undefined || gid === undefined) throw new Error(`there is no user ${name}`);
  for (const folder of folders) {
    // On a disk that is full, an agent without one of them is better than none.
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      chownSync(folder, uid, gid);
    } catch (fault) {
      console.error(fault);
    }
  }
  if (process.getuid?.() !== uid) {
    process.initgroups?.(name, gid);
    process.setgid?.(gid);
    process.setuid?.(uid);
  }
  process.env["USER"] = name;
}

/** A folder of the agent's own, for pipes and sockets. */
export function stateFolder(folder: string | undefined): string {
  if (folder === undefined) return mkdtempSync(join(tmpdir(), "rouse-agent-"));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return mkdtempSync(join(folder, "agent-"));
}
