/** Ids of sandboxes that come in their UUID spelling. */
import { accountObject } from "../durable/account/api.ts";
import { suffixOfUuid, uuidOf } from "../sdk/contract/uuid.ts";
import { BoundedMap } from "./bounded-map.ts";

/** An id never has another UUID, so what was found holds for good. */
const known = new BoundedMap<string>(16_384);

/**
 * The id that a UUID spells; null for any other text, and where the account has no such sandbox. Nobody knows a UUID
 * before its sandbox is there, so only what was found is kept.
 */
export async function idOfUuid(env: Env, account: string, text: string): Promise<string | null> {
  const suffix = suffixOfUuid(text);
  if (suffix === null) return null;
  const key = `${account}/${text}`;
  const before = known.get(key);
  if (before !== undefined) return before;
  const id = await accountObject(env.ACCOUNT, account).idWith(suffix);
  if (id === null || uuidOf(id) !== text) return null;
  known.set(key, id);
  return id;
}
