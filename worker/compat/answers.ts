/** Answers of Rouse as Runtime's clients read them. Pure. */
import type { Account, KeyAccess } from "../../sdk/contract/account.ts";
import type { EventList } from "../../sdk/contract/event.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import type { DeletedSecret, Secret, SecretList, StoredSecret } from "../../sdk/contract/secret.ts";
import { uuidOf } from "../../sdk/contract/uuid.ts";
import type { z } from "zod";
import type { Shape } from "./paths.ts";

/** Fields that hold a sandbox's id, in answers and in details of errors. */
const idFields: ReadonlySet<string> = new Set(["id", "sandboxId", "sourceSandboxId", "resourceId", "forkId", "forkOf"]);
/** What callers put into an answer is none of ours to spell. */
const foreign: ReadonlySet<string> = new Set(["labels", "env", "secrets"]);

/** The same with every sandbox's id as a UUID. */
export function respelled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(respelled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([field, one]: [string, unknown]) => {
      if (foreign.has(field)) return [field, one];
      const isId = idFields.has(field) && typeof one === "string" && labelOfId(one) !== null;
      return [field, isId ? uuidOf(one) : respelled(one)];
    }),
  );
}

/** What an answer depends on besides itself. */
export interface Asked {
  readonly url: URL;
  readonly access: KeyAccess;
  readonly namePrefix: string | null;
}

export function shaped(shape: Shape, answer: unknown, asked: Asked): unknown {
  switch (shape) {
    case "secret":
      return secret(answer as StoredSecret | DeletedSecret);
    case "secrets":
      return { secrets: (answer as z.infer<typeof SecretList>).data.filter(({ mode }) => mode !== "env").map(secret) };
    case "limits":
      return limits(answer as Account, asked);
    case "events":
      return events(answer as z.infer<typeof EventList>, asked.url.searchParams.getAll("type"));
  }
}

function secret(one: Secret | StoredSecret | DeletedSecret): object {
  if ("deleted" in one) return { name: one.name, deleted: true, enforced: one.enforced };
  const { name, hosts, header, format, rules, placeholder, valueBytes, createdAt, updatedAt } = one;
  return {
    ...{ name, hosts, placeholder, valueBytes, createdAt, updatedAt },
    ...(header === null ? {} : { header, format }),
    ...(rules.length === 0 ? {} : { rules }),
    ...("enforced" in one ? { enforced: one.enforced } : {}),
    ...("replayed" in one ? { replayed: one.replayed } : {}),
  };
}

function limits({ dailyLimitMicros, spentTodayMicros }: Account, { access, namePrefix }: Asked): object {
  const part = access === "sandboxes" || namePrefix !== null ? "selected" : null;
  return {
    access: part ?? (access === "billing" ? null : access),
    daily: {
      limitMicros: dailyLimitMicros,
      usedMicros: spentTodayMicros,
      remainingMicros: dailyLimitMicros === null ? null : Math.max(0, dailyLimitMicros - spentTodayMicros),
      window: "24h",
    },
    trial: null,
  };
}

/** That product's names of what happens; other types keep theirs. */
const types: Readonly<Record<string, string>> = {
  "sandbox.started": "sandbox.running",
  "sandbox.booted": "sandbox.running",
  "snapshot.created": "snapshot.ready",
};

function events({ data, hasMore, nextAfter }: z.infer<typeof EventList>, wanted: readonly string[]): object {
  const all = data.map(({ id, type, timestamp, subject, data: facts, sandbox }) => {
    const failed = type === "sandbox.failed" ? `sandbox.${String(facts["action"])}_failed` : null;
    const named = failed ?? types[type] ?? type;
    return { id, type: named, createdAt: timestamp, resourceId: subject, data: { ...facts, sandbox } };
  });
  return {
    data: all.filter(({ type }) => wanted.length === 0 || wanted.includes(type)),
    nextCursor: hasMore ? String(nextAfter) : null,
  };
}
