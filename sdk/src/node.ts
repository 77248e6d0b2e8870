/**
 * Node's own modules, only where there is a Node: the rest of the SDK also runs in Workers and browsers. The variable
 * specifier keeps bundlers from trying to resolve the module.
 */
interface NodeModules {
  "node:crypto": typeof import("node:crypto");
  "node:fs": typeof import("node:fs");
  "node:fs/promises": typeof import("node:fs/promises");
  "node:net": typeof import("node:net");
  "node:os": typeof import("node:os");
  "node:path": typeof import("node:path");
  "node:stream": typeof import("node:stream");
  "node:zlib": typeof import("node:zlib");
}

/** The module, or null in a runtime that has none of that name. */
export async function nodeModule<Name extends keyof NodeModules>(name: Name): Promise<NodeModules[Name] | null> {
  const specifier: string = name;
  try {
    return (await import(specifier)) as NodeModules[Name];
  } catch {
    return null;
  }
}

/** An environment variable, or undefined where it is unset, empty, or there is no environment. */
export function environmentVariable(name: string): string | undefined {
  const value = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name];
  return value === "" ? undefined : value;
}
