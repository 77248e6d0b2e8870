/** What stands at the end of a hook's URL: whose it is, and a part that nobody can guess. Pure but for random numbers. */
import { AccountName } from "../../sdk/contract/account.ts";
import { isLabel } from "../../sdk/contract/names.ts";
import { randomText } from "../../sdk/contract/random.ts";
import { sha256Hex } from "../hash.ts";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const SECRET_LENGTH = 32;

export interface HookToken {
  readonly account: string;
  readonly label: string;
  /** SHA-256 of the part that nobody can guess: all that is stored of it. */
  readonly hash: string;
}

export async function newHookToken(account: string, label: string): Promise<{ token: string; hash: string }> {
  const secret = randomText(LETTERS, SECRET_LENGTH);
  return { token: `${account}.${label}.${secret}`, hash: await sha256Hex(secret) };
}

/** null: no hook can have it. */
export async function parseHookToken(token: string): Promise<HookToken | null> {
  const [account = "", label = "", secret = "", ...rest] = token.split(".");
  if (rest.length > 0 || !AccountName.safeParse(account).success || !isLabel(label)) return null;
  if (secret.length !== SECRET_LENGTH || !/^[A-Za-z0-9]+$/.test(secret)) return null;
  return { account, label, hash: await sha256Hex(secret) };
}
