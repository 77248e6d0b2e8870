/** Device login (RFC 8628): a program shows a link and a code, a person approves, the program gets a key of its own. */
import { z } from "zod";
import { AccountName } from "../contract/account.ts";
import { isLoopback, parseBaseUrl } from "./credentials.ts";
import { AuthenticationError, RouseError } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import { decideRetry } from "./retry.ts";
import type { RetryState } from "./retry.ts";
import { CallScope, sleep } from "./scope.ts";
import { connectionError, errorOfResponse, unexpectedAnswer } from "./transport.ts";
import { VERSION } from "./version.ts";

const CLIENT_ID = "rouse-sdk";
const GRANT = "urn:ietf:params:oauth:grant-type:device_code";
/** What `slow_down` adds to the time between polls (RFC 8628, 3.5). */
const SLOW_DOWN_MS = 5000;
/** Shortest time between polls, whatever the server says. */
const INTERVAL_MIN_MS = 100;
/** Longest time between polls while the server is not reached. */
const LOST_WAIT_MAX_MS = 30_000;
/** Longest wait for one answer. */
const ATTEMPT_MS = 30_000;

/** A page on which a person may have to enter a key: never over an open line. */
const Link = z.string().refine((text) => {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname));
}, "no https link");
const Started = z.object({
  device_code: z.string().min(1),
  user_code: z.string().regex(/^[ -~]{1,64}$/),
  verification_uri: Link,
  verification_uri_complete: Link.optional(),
  expires_in: z.number().positive().max(86_400),
  interval: z.number().min(0).max(3600).default(5),
});
const Token = z.object({ access_token: z.string().regex(/^[!-~]+$/), account: AccountName });
const OAuthError = z.object({ error: z.string(), error_description: z.string().optional() });

/** What the person needs. */
export interface DeviceCode {
  /** The page; it asks for the code. */
  verificationUri: string;
  /** The page with the code filled in. */
  verificationUriComplete: string;
  /** The page shows it too: only if both are the same is it this program that is approved. */
  userCode: string;
  expiresAt: Date;
}

export interface DeviceLoginOptions {
  /** Origin of the API, by https, or by http on this machine. */
  baseUrl: string;
  /** What the person is shown: which program on which machine asks. At most 128 characters. */
  clientName?: string | undefined;
  /** `trial`: a trial account will do, where the installation offers them. */
  scope?: string | undefined;
  /** Show link and code; called once, before the wait. */
  onCode: (code: DeviceCode) => void | Promise<void>;
  /** Ends the wait; it then throws {@link RouseError} `cancelled`. */
  signal?: AbortSignal | undefined;
  /** Used in place of the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** What a login gives. The key is listed under the client's name, and revoked like any other. */
export interface LoginResult {
  apiKey: string;
  account: string;
}

/**
 * Get a key by a person's approval, and wait for it as long as the code holds (15 minutes). Lost connections are bridged.
 * @throws AuthenticationError `access_denied`, `expired_token`, or `login_failed` for any other refusal
 *
 * @example
 * const { apiKey } = await deviceLogin({
 *   baseUrl: "https://rouse.example.com",
 *   clientName: "my agent",
 *   onCode: ({ verificationUriComplete, userCode }) => console.log(verificationUriComplete, userCode),
 * });
 */
export async function deviceLogin(options: DeviceLoginOptions): Promise<LoginResult> {
  const line = new Line(parseBaseUrl(options.baseUrl), options);
  const started = await begin(line, options);
  const endsAt = performance.now() + started.expires_in * 1000;
  await options.onCode({
    verificationUri: started.verification_uri,
    verificationUriComplete: started.verification_uri_complete ?? started.verification_uri,
    userCode: started.user_code,
    expiresAt: new Date(Date.now() + started.expires_in * 1000),
  });
  let intervalMs = Math.max(INTERVAL_MIN_MS, started.interval * 1000);
  let waitMs = intervalMs;
  let lost: RouseError | undefined;
  for (;;) {
    const leftMs = endsAt - performance.now();
    if (leftMs <= 0) throw loginError("expired_token", lost);
    await sleep(Math.min(waitMs, leftMs), options.signal);
    let answer: unknown;
    try {
      answer = await line.post("/oauth/token", { grant_type: GRANT, device_code: started.device_code });
    } catch (error) {
      if (!(error instanceof RouseError) || !error.retryable) throw error;
      lost = error;
      waitMs = Math.max(intervalMs, Math.min(LOST_WAIT_MAX_MS, Math.max(waitMs * 2, error.retryAfterMs ?? 0)));
      continue;
    }
    lost = undefined;
    const refused = OAuthError.safeParse(answer);
    if (!refused.success) {
      const { access_token: apiKey, account } = parseAnswer(Token, answer);
      return { apiKey, account };
    }
    const { error, error_description: description } = refused.data;
    if (error === "slow_down") intervalMs += SLOW_DOWN_MS;
    else if (error !== "authorization_pending") throw loginError(error, undefined, description);
    waitMs = intervalMs;
  }
}

async function begin(line: Line, { clientName, scope, signal }: DeviceLoginOptions): Promise<z.infer<typeof Started>> {
  const state: RetryState = { retries: 0, resends: 0, capacityWaits: 0, elapsedMs: 0 };
  const startedAt = performance.now();
  for (;;) {
    try {
      const answer = await line.post("/oauth/device_authorization", { client_name: clientName, scope });
      const refused = OAuthError.safeParse(answer);
      if (refused.success) throw loginError(refused.data.error, undefined, refused.data.error_description);
      return parseAnswer(Started, answer);
    } catch (error) {
      if (!(error instanceof RouseError)) throw error;
      state.elapsedMs = performance.now() - startedAt;
      const decision = decideRetry(error, state, { maxRetries: 4, waitForCapacityMs: 0, random: Math.random });
      if (decision.kind === "give-up") throw error;
      state[decision.counter] += 1;
      await sleep(decision.waitMs, signal);
    }
  }
}

/** Forms to the two OAuth routes, which take no key. */
class Line {
  readonly #baseUrl: string;
  readonly #signal: AbortSignal | undefined;
  readonly #fetch: typeof fetch;

  constructor(baseUrl: string, options: Pick<DeviceLoginOptions, "signal" | "fetch">) {
    this.#baseUrl = baseUrl;
    this.#signal = options.signal;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** The JSON of an answer that is good, or that refuses as OAuth does. */
  async post(path: string, fields: Record<string, string | undefined>): Promise<unknown> {
    const body = new URLSearchParams({ client_id: CLIENT_ID });
    for (const [name, value] of Object.entries(fields)) if (value !== undefined) body.set(name, value);
    const scope = new CallScope(ATTEMPT_MS, this.#signal);
    const attempt = scope.attempt(ATTEMPT_MS);
    try {
      scope.check();
      const headers = { accept: "application/json", "x-rouse-client": `sdk-js/${VERSION}` };
      const init: RequestInit = { method: "POST", body, headers, redirect: "manual", signal: attempt.signal };
      const response = await this.#fetch(`${this.#baseUrl}${path}`, init);
      if (!response.ok && response.status !== 400 && response.status !== 401) throw await errorOfResponse(response);
      return jsonOf(await response.text());
    } catch (cause) {
      const failure = scope.failure(cause);
      if (failure !== null) throw failure;
      if (cause instanceof RouseError) throw cause;
      throw connectionError(`No whole answer from ${this.#baseUrl}`, cause);
    } finally {
      attempt.answered();
      scope.close();
    }
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unexpectedAnswer("the answer is not JSON", cause);
  }
}

function loginError(error: string, cause?: RouseError, description?: string): AuthenticationError {
  switch (error) {
    case "access_denied":
      return new AuthenticationError({
        code: "access_denied",
        message: "The login was refused.",
        hint: "It was refused on the page, or too many wrong keys were entered there. Log in again.",
      });
    case "expired_token":
      return new AuthenticationError({
        code: "expired_token",
        message: "The login was not approved in time.",
        hint: "Log in again, and open the link while the code holds.",
        cause,
      });
    default:
      return new AuthenticationError({
        code: "login_failed",
        message: `The login failed: ${description ?? error}`,
        hint: "Log in again.",
        details: { error },
      });
  }
}
