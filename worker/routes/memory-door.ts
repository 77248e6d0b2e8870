/** Which memory a request means, who writes there, and whether they may. */
import {
  memoryOfSandbox,
  memoryOfStore,
  type Addition,
  type MemoryApi,
  type Writer,
} from "../../durable/memory/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { storesObject } from "../../durable/stores/api.ts";
import { sha256Hex } from "../../durable/hash.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { NewMemory } from "../../sdk/contract/memory.ts";
import { isPlainName } from "../../sdk/contract/names.ts";
import { canonical } from "../api/input.ts";
import { okOrThrow } from "./context.ts";
import { placeOf, type HomeContext } from "./place.ts";

export interface Door {
  readonly memory: MemoryApi;
  /** @throws RouseFailure `forbidden` unless they may */
  writer(): Promise<Writer>;
}

/** @throws RouseFailure `store_not_found`, `forbidden` */
export async function doorOf(context: HomeContext): Promise<Door> {
  const { env, account, operation, params } = context;
  if (!operation.path.startsWith("/v1/stores/")) {
    const memory = memoryOfSandbox(env.MEMORY, account, placeOf(context).sandboxId);
    return { memory, writer: () => writerOf(context) };
  }
  const { storeId, access } = await openStore(context, params[0] ?? "", "memory");
  const writer = async () => {
    if (access === "write") return writerOf(context);
    throw new RouseFailure("forbidden", "The store is open to this sandbox for reading alone.");
  };
  return { memory: memoryOfStore(env.MEMORY, account, storeId), writer };
}

/** @throws RouseFailure `store_not_found`; to a machine `forbidden`, the same whether there is such a store or not */
export async function openStore({ env, account, caller, place }: HomeContext, name: string, kind: "memory" | "state") {
  const label = caller ? null : (place?.label ?? "");
  return okOrThrow(await storesObject(env.STORES, account).open(name, kind, label));
}

async function writerOf({ env, account, caller, place }: HomeContext): Promise<Writer> {
  if (caller) return { author: { kind: "key", id: caller.keyId, name: caller.keyName }, generation: null };
  if (!place) throw new RouseFailure("unauthorized", "Nobody asks.");
  const { label, sandboxId, generation } = place;
  if (isPlainName(label)) return { author: { kind: "sandbox", id: sandboxId, name: label }, generation };
  const found = await sandboxObject(env.SANDBOX, account, label).get({ id: sandboxId });
  return { author: { kind: "sandbox", id: sandboxId, name: found.ok ? found.sandbox.name : null }, generation };
}

/** @param key Idempotency-Key of the whole; null: none */
export function additionsOf(inputs: readonly NewMemory[], key: string | null): Promise<Addition[]> {
  return Promise.all(
    inputs.map(async (input, index) => {
      const { idempotencyId } = input;
      const own = idempotencyId === undefined ? null : `id:${idempotencyId}`;
      const common = key === null ? null : `key:${key}#${index}`;
      // Under one key a longer batch is another request.
      const what = own === null ? [input, inputs.length] : [input];
      const fingerprint = own === null && common === null ? "" : await sha256Hex(canonical(what));
      return { input, key: own ?? common, fingerprint, origin: null };
    }),
  );
}
