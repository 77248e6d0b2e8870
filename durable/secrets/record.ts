/** A secret as it is kept beside its sealed value, as the API shows it, and as a run has it. Pure. */
import type { BrokeredSecret } from "../../sdk/contract/egress.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { BROKERED_ENV_VALUE } from "../../sdk/contract/secret-providers.ts";
import type { Secret, SecretSettings } from "../../sdk/contract/secret.ts";
import { iso, isoOrNull } from "../time.ts";

/** Times in Unix milliseconds. */
export interface SecretRecord extends SecretSettings {
  readonly name: string;
  /** What programs have in the place of the value; null before it was ever needed. */
  readonly placeholder: string | null;
  /** Raised by each new value. */
  readonly version: number;
  readonly valueBytes: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What a run is given. */
export interface Given {
  readonly brokered: readonly BrokeredSecret[];
  /** Variables; they win over the sandbox's own. */
  readonly env: Readonly<Record<string, string>>;
}

/** A secret with its value. */
export interface Opened {
  readonly record: SecretRecord;
  readonly value: string;
}

export function stored(
  before: SecretRecord | null,
  name: string,
  settings: SecretSettings,
  { isNewValue, valueBytes }: { isNewValue: boolean; valueBytes: number },
  now: number,
): SecretRecord {
  const placeholder = before?.placeholder ?? (settings.mode === "placeholder" ? newPlaceholder() : null);
  const version = (before?.version ?? 0) + (isNewValue ? 1 : 0);
  return { ...settings, name, placeholder, version, valueBytes, createdAt: before?.createdAt ?? now, updatedAt: now };
}

/** Whether a secret is, but for its value, what is asked for. */
export function isAsAsked(record: SecretRecord, settings: SecretSettings): boolean {
  const { mode, hosts, header, format, rules, envName } = record;
  return JSON.stringify({ mode, hosts, header, format, rules, envName }) === JSON.stringify(inOrder(settings));
}

function inOrder({ mode, hosts, header, format, rules, envName }: SecretSettings): SecretSettings {
  return { mode, hosts, header, format, rules, envName };
}

/** @param scope the sandbox that it is of; empty for the account's */
export function toSecret(record: SecretRecord, scope: string, lastUsedAt: number | null): Secret {
  const { name, mode, hosts, header, format, rules, envName, placeholder, version, valueBytes } = record;
  return {
    ...{ name, kind: "secret", sandboxId: scope === "" ? null : scope, mode, hosts: [...hosts], header, format },
    rules: rules.map((rule) => ({ ...rule })),
    ...{ envName, placeholder: mode === "placeholder" ? placeholder : null, version, valueBytes },
    createdAt: iso(record.createdAt),
    updatedAt: iso(record.updatedAt),
    lastUsedAt: isoOrNull(lastUsedAt),
  };
}

/**
 * What a run has of the secrets of its sandbox. A sandbox's own comes before the account's of the same name; of several
 * with one variable the last wins, a sandbox's own over all.
 * @param ofAccount in the order in which the sandbox names them
 */
export function given(own: readonly Opened[], ofAccount: readonly Opened[]): Given {
  const names = new Set(own.map(({ record }) => record.name));
  const all = [...ofAccount.filter(({ record }) => !names.has(record.name)), ...own];
  const env: Record<string, string> = {};
  for (const { record, value } of all) if (record.envName !== null) env[record.envName] = inGuest(record, value);
  // A sandbox's own is looked at first.
  const brokered = all.toReversed().flatMap(({ record, value }) => toBrokered(record, value) ?? []);
  return { brokered, env };
}

function inGuest({ mode, placeholder }: SecretRecord, value: string): string {
  if (mode === "env") return value;
  return mode === "placeholder" ? (placeholder ?? "") : BROKERED_ENV_VALUE;
}

function toBrokered(record: SecretRecord, value: string): BrokeredSecret | null {
  const { name, version, mode, hosts, header, format, placeholder, rules } = record;
  if (mode === "env") return null;
  return {
    ...{ name, version, mode, hosts: [...hosts], value },
    ...(header === null ? {} : { header }),
    ...(format === null ? {} : { format }),
    ...(mode === "placeholder" && placeholder !== null ? { placeholder } : {}),
    ...(rules.length === 0 ? {} : { rules: rules.map((rule) => ({ ...rule })) }),
  };
}

const BASE62 = `${BASE36}ABCDEFGHIJKLMNOPQRSTUVWXYZ`;

function newPlaceholder(): string {
  return `rsec_${randomText(BASE62, 32)}`;
}
