/** Stores that an organisation's agents share: memory and state with one keeper, opened to agents by grants. */
import { z } from "zod";
import { newId, SandboxName } from "./names.ts";

export const storeLimits = {
  /** Stores of one account. */
  perAccount: 100,
  grantsMax: 1000,
} as const;

/** A store that is deleted and made again under its name has another. */
export const StoreId = z.string().regex(/^str-[0-9a-z]{20}$/, "a store id such as str-...");
export function storeId(account: string): Promise<string> {
  return newId("str", "store", account, null);
}

export const StoreName = z
  .string()
  .regex(/^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "a store's name has 1 to 63 of a-z, 0-9 and -, from a letter on");

export const storeKinds = ["memory", "state"] as const;
export const StoreKind = z.enum(storeKinds);
export type StoreKind = z.infer<typeof StoreKind>;

export const StoreAccess = z.enum(["read", "write"]);
export type StoreAccess = z.infer<typeof StoreAccess>;

export const Grant = z
  .strictObject({
    /** Name of a sandbox, whichever has it; `*`: every sandbox of the account. */
    agent: SandboxName,
    /** `write` is `read` as well. */
    access: StoreAccess,
  })
  .meta({ id: "Grant" });
export type Grant = z.infer<typeof Grant>;

const Grants = z
  .array(Grant)
  .max(storeLimits.grantsMax)
  .refine((grants) => new Set(grants.map(({ agent }) => agent)).size === grants.length, "an agent has one grant");

/** `PUT /v1/stores/{name}`: made, or as this says from now on. */
export const PutStore = z
  .strictObject({
    /** What it has; both unless given. What it has once it keeps. */
    kinds: z
      .array(StoreKind)
      .min(1)
      .refine((kinds) => new Set(kinds).size === kinds.length, "each kind once")
      .optional(),
    /** In the place of all there were; those there are unless given, none in a new one. */
    grants: Grants.optional(),
  })
  .meta({ id: "PutStore" });
export type PutStore = z.infer<typeof PutStore>;

/** `POST /v1/stores/{name}:grant`. */
export const GrantStore = Grant;
/** `POST /v1/stores/{name}:revoke`. */
export const RevokeStore = z.strictObject({ agent: SandboxName }).meta({ id: "RevokeStore" });
export type RevokeStore = z.infer<typeof RevokeStore>;

export const Store = z
  .object({
    kind: z.literal("store"),
    id: z.string(),
    name: z.string(),
    kinds: z.array(StoreKind),
    grants: z.array(z.object({ agent: z.string(), access: StoreAccess })),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Store" });
export type Store = z.infer<typeof Store>;

export const StoreList = z.object({ data: z.array(Store) }).meta({ id: "StoreList" });
export type StoreList = z.infer<typeof StoreList>;

/** `DELETE /v1/stores/{name}`: with all that is in it. */
export const DeleteStoreQuery = z.strictObject({
  /** The store's name once more. */
  confirm: z.string(),
});

export const DeletedStore = z.object({ name: z.string(), deleted: z.literal(true) }).meta({ id: "DeletedStore" });
export type DeletedStore = z.infer<typeof DeletedStore>;
