/** Logins that `rouse login` saved, by the origin of their installation. Only where there is a file system. */
import { z } from "zod";
import { AuthenticationError } from "./errors.ts";
import { environmentVariable, nodeModule } from "./node.ts";

const Login = z.object({
  apiKey: z.string().regex(/^[!-~]+$/, "a key without white space"),
  account: z.string(),
  savedAt: z.iso.datetime(),
});
/** What a later version adds stays when this one writes. */
const Logins = z.looseObject({
  version: z.literal(1),
  /** Origin of the last login. */
  current: z.string().optional(),
  logins: z.record(z.string(), Login),
});
export type Logins = z.infer<typeof Logins>;
export type SavedLogin = z.infer<typeof Login>;

/** Path of the file, or null without a file system. */
export async function loginsPath(): Promise<string | null> {
  const os = await nodeModule("node:os");
  const path = await nodeModule("node:path");
  if (os === null || path === null) return null;
  try {
    const config = environmentVariable("XDG_CONFIG_HOME") ?? path.join(os.homedir(), ".config");
    return path.join(config, "rouse", "credentials.json");
  } catch {
    // Some runtimes have the module and no home.
    return null;
  }
}

/**
 * All saved logins; null when there is no file.
 * @throws AuthenticationError `credentials_file` when others can read it, or it is not what `rouse login` writes
 */
export async function readLogins(): Promise<Logins | null> {
  const file = await loginsPath();
  const fs = await nodeModule("node:fs/promises");
  if (file === null || fs === null) return null;
  const text = await readPrivately(fs, file);
  if (text === null) return null;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw refusal(file, "is not JSON", `Remove it and run \`rouse login\` again.`);
  }
  const parsed = Logins.safeParse(json);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues.map((issue) => issue.path.map(String).join(".")).join(", ");
  throw refusal(file, `is not as this version writes it (${where})`, "Remove it and run `rouse login` again.");
}

/** The saved login of an installation. */
export function loginOf(logins: Logins | null, origin: string): SavedLogin | null {
  return logins !== null && Object.hasOwn(logins.logins, origin) ? (logins.logins[origin] ?? null) : null;
}

/** Save a login, and let its installation be the one that counts. Answers the file's path, null without a file system. */
export async function saveLogin(
  origin: string,
  { apiKey, account }: { apiKey: string; account: string },
): Promise<string | null> {
  const before = await readLogins();
  const login: SavedLogin = { apiKey, account, savedAt: new Date().toISOString() };
  return await write({ ...before, version: 1, current: origin, logins: { ...before?.logins, [origin]: login } });
}

/** Forget a login; answers it, or null when there was none. */
export async function forgetLogin(origin: string): Promise<SavedLogin | null> {
  const before = await readLogins();
  const login = loginOf(before, origin);
  if (before === null || login === null) return null;
  const { [origin]: _forgotten, ...logins } = before.logins;
  const { current, ...others } = before;
  await write({ ...others, ...(current === origin || current === undefined ? {} : { current }), logins });
  return login;
}

type FileSystem = typeof import("node:fs/promises");

/** A key that others could read, or that a link led to, is not used. */
async function readPrivately(fs: FileSystem, file: string): Promise<string | null> {
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants;
  let handle;
  try {
    handle = await fs.open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ELOOP" || code === "EMLINK") throw refusal(file, "is a symbolic link", "Put the file itself there.");
    if (code === "ENOENT" || code === "ENOTDIR" || !(error instanceof Error && "errno" in error)) return null;
    throw refusal(file, `can't be read (${String(code)})`, "Look at its owner and mode.", error);
  }
  try {
    const facts = await handle.stat();
    if (!facts.isFile()) throw refusal(file, "is no file", "Remove it and run `rouse login` again.");
    const os = await nodeModule("node:os");
    if (os?.platform() !== "win32" && (facts.mode & 0o077) !== 0) {
      const hint = `Run: chmod 600 ${file} - and revoke its keys with \`rouse keys rm\` if others may have read them.`;
      throw refusal(file, "is open to others on this machine", hint);
    }
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}

/** Readers see the file before or after, never a part of it. */
async function write(logins: Logins): Promise<string | null> {
  const file = await loginsPath();
  const fs = await nodeModule("node:fs/promises");
  const path = await nodeModule("node:path");
  if (file === null || fs === null || path === null) return null;
  const folder = path.dirname(file);
  await fs.mkdir(folder, { recursive: true, mode: 0o700 });
  await fs.chmod(folder, 0o700);
  const part = `${file}.${crypto.randomUUID()}`;
  try {
    const handle = await fs.open(part, "wx", 0o600);
    try {
      await handle.writeFile(`${JSON.stringify(logins, null, 2)}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await fs.rename(part, file);
  } catch (error) {
    await fs.rm(part, { force: true });
    throw error;
  }
  return file;
}

function refusal(file: string, why: string, hint: string, cause?: unknown): AuthenticationError {
  return new AuthenticationError({ code: "credentials_file", message: `${file} ${why}.`, hint, cause });
}
