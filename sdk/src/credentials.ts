/**
 * Where the API is and with which key: options, then environment, then a saved login, then what `npm start` left on this
 * machine.
 */
import { environmentVariable, nodeModule } from "./node.ts";
import { AuthenticationError, InvalidRequestError } from "./errors.ts";
import { loginOf, readLogins } from "./logins.ts";

/** Where a local installation serves the API. */
export const DEFAULT_BASE_URL = "http://localhost:8787";

export interface Credentials {
  /** An origin without trailing slash. */
  baseUrl: string;
  apiKey: string;
  /** Where the key was found. */
  source: "option" | "environment" | "login" | "local";
}

/** Check and normalise a base URL. @throws InvalidRequestError `invalid_base_url` */
export function parseBaseUrl(text: string): string {
  const refuse = (why: string): never => {
    throw new InvalidRequestError({
      code: "invalid_base_url",
      message: `The base URL ${why}.`,
      hint: "Use an origin such as https://rouse.example.com, without path, query or password.",
    });
  };
  const url = URL.canParse(text) ? new URL(text) : refuse("is not a URL");
  if (url.username !== "" || url.password !== "") refuse("holds a user or password");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") refuse("has a path, query or fragment");
  if (url.protocol !== "https:" && url.protocol !== "http:") refuse("is neither https nor http");
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    refuse(`sends the key unencrypted to ${url.hostname}; plain http is for this machine only`);
  }
  return url.origin;
}

/** Whether a host name means this machine. */
export function isLoopback(hostname: string): boolean {
  return (
    hostname === "localhost" ||
    hostname.endsWith(".localhost") ||
    hostname === "[::1]" ||
    /^127(?:\.\d{1,3}){3}$/.test(hostname)
  );
}

/** The installation that is meant: `ROUSE_API_URL`, that of the last login, or the default. */
export async function findBaseUrl(): Promise<string> {
  return parseBaseUrl(environmentVariable("ROUSE_API_URL") ?? (await readLogins())?.current ?? DEFAULT_BASE_URL);
}

/**
 * Find base URL and key. A key that is given without a base URL goes to the default one, not to where the last login
 * was: a saved login's address comes only with its own key.
 * @throws AuthenticationError `missing_api_key`, or `credentials_file` for saved logins that can't be used
 * @throws InvalidRequestError `invalid_base_url`
 */
export async function findCredentials(options: {
  apiKey?: string | undefined;
  baseUrl?: string | undefined;
}): Promise<Credentials> {
  const given = options.baseUrl ?? environmentVariable("ROUSE_API_URL");
  const baseUrl = given === undefined ? undefined : parseBaseUrl(given);
  const fromEnvironment = environmentVariable("ROUSE_API_KEY");
  const apiKey = options.apiKey ?? fromEnvironment;
  if (apiKey !== undefined) {
    if (!/^\S+$/.test(apiKey)) {
      throw new AuthenticationError({
        code: "missing_api_key",
        message: "The API key is empty or holds white space.",
        hint: "Pass the key exactly as it was made, such as rouse_default_...",
      });
    }
    const source = options.apiKey === undefined ? "environment" : "option";
    return { baseUrl: baseUrl ?? DEFAULT_BASE_URL, apiKey, source };
  }
  const logins = await readLogins();
  const origin = baseUrl ?? logins?.current;
  const login = origin === undefined ? null : loginOf(logins, origin);
  if (origin !== undefined && login !== null)
    return { baseUrl: parseBaseUrl(origin), apiKey: login.apiKey, source: "login" };
  // The local key opens only this machine's installation, so it goes nowhere else.
  if (baseUrl === undefined || isLoopback(new URL(baseUrl).hostname)) {
    const local = await readLocalKey();
    if (local !== null)
      return { baseUrl: baseUrl ?? local.url ?? DEFAULT_BASE_URL, apiKey: local.apiKey, source: "local" };
  }
  throw new AuthenticationError({
    code: "missing_api_key",
    message: `No API key for ${baseUrl ?? DEFAULT_BASE_URL}.`,
    hint: "Run `rouse login`, set ROUSE_API_KEY (and ROUSE_API_URL), or pass apiKey; on the machine that runs Rouse, start it once with `npm start`.",
  });
}

/** Path of the local key file, or null without a file system. */
export async function localKeyPath(): Promise<string | null> {
  const os = await nodeModule("node:os");
  const path = await nodeModule("node:path");
  if (os === null || path === null) return null;
  const home =
    environmentVariable("ROUSE_HOME") ??
    path.join(environmentVariable("XDG_DATA_HOME") ?? path.join(os.homedir(), ".local", "share"), "rouse");
  return path.join(home, "local-key");
}

async function readLocalKey(): Promise<{ apiKey: string; url: string | null } | null> {
  const file = await localKeyPath();
  const fs = await nodeModule("node:fs/promises");
  if (file === null || fs === null) return null;
  let json: unknown;
  try {
    json = JSON.parse(await fs.readFile(file, "utf8"));
  } catch {
    return null;
  }
  if (typeof json !== "object" || json === null || !("apiKey" in json)) return null;
  if (typeof json.apiKey !== "string" || !/^\S+$/.test(json.apiKey)) return null;
  const url = "url" in json && typeof json.url === "string" ? parseBaseUrl(json.url) : null;
  return url !== null && !isLoopback(new URL(url).hostname) ? null : { apiKey: json.apiKey, url };
}
