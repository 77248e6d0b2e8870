/** A sandbox's rules and secrets as its record has them. Pure. */
import type { NetworkRules } from "../../sdk/contract/network.ts";
import type { NetworkInput } from "../../sdk/contract/network-settings.ts";
import { isLive } from "./lifecycle.ts";
import type { SandboxRecord } from "./record.ts";

/** Lists that are empty are left out. */
export function rulesOf({ internet = true, allow = [], deny = [] }: NetworkInput): NetworkRules {
  const once = (targets: readonly string[]) => [...new Set(targets)];
  return {
    internet,
    ...(allow.length > 0 ? { allow: once(allow) } : {}),
    ...(deny.length > 0 ? { deny: once(deny) } : {}),
  };
}

/** Its host is to be told, at once or with the next run. */
export function withNews(record: SandboxRecord): SandboxRecord {
  return {
    ...record,
    egressVersion: record.egressVersion + 1,
    configurePending: record.configurePending || isLive(record.life.state),
  };
}

export function hasSecrets({ secrets, ownSecrets }: SandboxRecord): boolean {
  return ownSecrets || secrets.length > 0;
}

/** The run that begins, with what it is told. */
export function runOf({ id, life, egressVersion }: SandboxRecord): string {
  return `${id} ${life.generation} ${egressVersion}`;
}
