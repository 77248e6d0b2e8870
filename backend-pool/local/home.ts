/** What a local installation keeps for itself: secrets and the key that its SDK and CLI find without asking. */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { FIRST_EPOCH, hostSecrets } from "../../sdk/contract/host-secrets.ts";
import { DEFAULT_ACCOUNT, newApiKey } from "../../sdk/contract/account.ts";

const Secrets = z.object({ hostSecret: z.string(), signingSecret: z.string(), apiKey: z.string() });
export type Secrets = z.infer<typeof Secrets>;

export interface Home {
  readonly dir: string;
  readonly secrets: Secrets;
}

/** Read the secrets of a home, or make them. */
export async function openHome(dir: string): Promise<Home> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const secretsFile = join(dir, "secrets.json");
  const text = await readFile(secretsFile, "utf8").catch(() => null);
  if (text !== null) return { dir, secrets: Secrets.parse(JSON.parse(text)) };
  const secret = () => randomBytes(32).toString("base64url");
  const secrets = { hostSecret: secret(), signingSecret: secret(), apiKey: newApiKey(DEFAULT_ACCOUNT) };
  await writeSecretly(secretsFile, secrets);
  return { dir, secrets };
}

/** Leave address and key where the local SDK and CLI look. */
export async function publishKey(home: Home, url: string): Promise<string> {
  const file = join(home.dir, "local-key");
  await writeSecretly(file, { apiKey: home.secrets.apiKey, url });
  return file;
}

/** The secrets of one host agent of this installation; answers their file. */
export async function writeHostSecrets({ secrets }: Home, hostId: string, dir: string): Promise<string> {
  const file = join(dir, "host-secrets.json");
  const roots = { host: secrets.hostSecret, signing: secrets.signingSecret };
  await writeSecretly(file, await hostSecrets(roots, hostId, FIRST_EPOCH));
  return file;
}

async function writeSecretly(file: string, content: object): Promise<void> {
  const part = `${file}.${process.pid}`;
  await writeFile(part, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  await rename(part, file);
}
