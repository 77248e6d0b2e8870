/** The device login of the SDK, against answers given in turn, in a time that the test moves. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { AuthenticationError, deviceLogin, RouseError, type DeviceCode } from "../../sdk/src/index.ts";
import { errorBody } from "../../sdk/contract/errors.ts";
import { TEST_KEY } from "./wire-server.ts";

const STARTED = {
  device_code: "BCDFGHJK.secret",
  user_code: "BCDF-GHJK",
  verification_uri: "https://rouse.example.com/connect",
  verification_uri_complete: "https://rouse.example.com/connect?code=BCDF-GHJK",
  expires_in: 900,
  interval: 5,
};
const APPROVED = { access_token: TEST_KEY, token_type: "bearer", account: "acme" };
const oauth = (error: string) => Response.json({ error }, { status: 400 });

type Answer = (() => Response) | "lost" | "silent";

/** Answers in turn; the last one goes on. */
class Oracle {
  readonly forms: { path: string; fields: Record<string, string>; headers: Headers; atMs: number }[] = [];
  readonly #answers: Record<string, Answer[]>;
  readonly #startedAt = Date.now();

  constructor(token: Answer[], begin: Answer[] = [() => Response.json(STARTED)]) {
    this.#answers = { "/oauth/device_authorization": begin, "/oauth/token": token };
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    const fields = Object.fromEntries(new URLSearchParams(init?.body as URLSearchParams));
    const headers = new Headers(init?.headers);
    this.forms.push({ path: pathname, fields, headers, atMs: Date.now() - this.#startedAt });
    const answers = this.#answers[pathname] ?? [];
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === undefined || answer === "lost") throw new TypeError("fetch failed");
    if (answer !== "silent") return answer();
    return await new Promise((_resolve, reject) => {
      init?.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    });
  };

  /** Seconds after the beginning at which the token was asked for. */
  polls(): number[] {
    return this.forms.filter(({ path }) => path === "/oauth/token").map(({ atMs }) => Math.round(atMs / 1000));
  }
}

function login(oracle: Oracle, more: { signal?: AbortSignal; onCode?: (code: DeviceCode) => void } = {}) {
  const options = { baseUrl: "https://rouse.example.com", clientName: "a test", scope: "trial", fetch: oracle.fetch };
  const done = deviceLogin({ onCode: () => undefined, ...options, ...more });
  return done.catch((error: unknown) => error);
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const pending: Answer = () => oauth("authorization_pending");
const approved: Answer = () => Response.json(APPROVED);

describe("a login", () => {
  test("shows link and code once, polls at the server's pace, and gives the key", async () => {
    const oracle = new Oracle([pending, pending, approved]);
    const codes: DeviceCode[] = [];
    const done = login(oracle, { onCode: (code) => codes.push(code) });
    await vi.advanceTimersByTimeAsync(15_000);
    expect(await done).toEqual({ apiKey: TEST_KEY, account: "acme" });
    expect(oracle.polls()).toEqual([5, 10, 15]);
    expect(codes).toMatchObject([
      {
        verificationUri: STARTED.verification_uri,
        verificationUriComplete: STARTED.verification_uri_complete,
        userCode: "BCDF-GHJK",
      },
    ]);
    expect(oracle.forms.some(({ headers }) => headers.has("authorization"))).toBe(false);
    expect(oracle.forms[0]?.fields).toEqual({ client_id: "rouse-sdk", client_name: "a test", scope: "trial" });
    expect(oracle.forms[1]?.fields).toEqual({
      client_id: "rouse-sdk",
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
      device_code: STARTED.device_code,
    });
  });

  test("polls five seconds slower for good when told to slow down", async () => {
    const oracle = new Oracle([pending, () => oauth("slow_down"), pending, () => oauth("slow_down"), approved]);
    const done = login(oracle);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await done).toMatchObject({ account: "acme" });
    expect(oracle.polls()).toEqual([5, 10, 20, 30, 45]);
  });

  test("without an interval polls every five seconds", async () => {
    const { interval: _interval, verification_uri_complete: _link, ...least } = STARTED;
    const oracle = new Oracle([approved], [() => Response.json(least)]);
    const codes: DeviceCode[] = [];
    const done = login(oracle, { onCode: (code) => codes.push(code) });
    await vi.advanceTimersByTimeAsync(5000);
    expect(await done).toMatchObject({ account: "acme" });
    expect(codes[0]?.verificationUriComplete).toBe(STARTED.verification_uri);
  });

  test("that is refused says so", async () => {
    const done = login(new Oracle([pending, () => oauth("access_denied")]));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await done).toBeInstanceOf(AuthenticationError);
    expect(await done).toMatchObject({ code: "access_denied" });
  });

  test("ends when the server says that the code is over", async () => {
    const done = login(new Oracle([() => oauth("expired_token")]));
    await vi.advanceTimersByTimeAsync(5000);
    expect(await done).toMatchObject({ code: "expired_token" });
  });

  test("ends by itself when the code is over", async () => {
    const oracle = new Oracle([pending]);
    const done = login(oracle);
    await vi.advanceTimersByTimeAsync(901_000);
    expect(await done).toMatchObject({ code: "expired_token" });
    expect(oracle.polls().at(-1)).toBe(900);
  });

  test("of which an answer was lost asks again, ever slower, and gets its key", async () => {
    const oracle = new Oracle([pending, "lost", "lost", "lost", "lost", approved]);
    const done = login(oracle);
    await vi.advanceTimersByTimeAsync(200_000);
    expect(await done).toEqual({ apiKey: TEST_KEY, account: "acme" });
    expect(oracle.polls()).toEqual([5, 10, 20, 40, 70, 100]);
  });

  test("gives up a silent server's answer, and goes on through its refusals for now", async () => {
    const busy = () =>
      Response.json(errorBody({ code: "rate_limited", message: "slow", retryAfterMs: 20_000 }), { status: 429 });
    const oracle = new Oracle(["silent", busy, () => new Response("<html>", { status: 502 }), pending, approved]);
    const done = login(oracle);
    await vi.advanceTimersByTimeAsync(300_000);
    expect(await done).toMatchObject({ account: "acme" });
  });

  test("never reached again ends at its time, with the reason", async () => {
    const done = login(new Oracle(["lost"]));
    await vi.advanceTimersByTimeAsync(901_000);
    expect(await done).toMatchObject({ code: "expired_token", cause: { code: "connection_error" } });
  });

  test("is cancelled by its caller, at once", async () => {
    const controller = new AbortController();
    const done = login(new Oracle([pending]), { signal: controller.signal });
    await vi.advanceTimersByTimeAsync(7000);
    controller.abort("enough");
    expect(await done).toMatchObject({ code: "cancelled", cause: "enough" });
  });
});

describe("what is wrong with a server", () => {
  test.each([
    ["a link that no key may be typed into", { verification_uri: "http://rouse.example.com/connect" }],
    ["a link that is none", { verification_uri_complete: "javascript:alert(1)" }],
    ["a code that moves the cursor", { user_code: "\u001b[2JABCD" }],
    ["a wait without end", { interval: 1e9 }],
  ])("%s is refused before anything is shown", async (_what, wrong) => {
    const oracle = new Oracle([approved], [() => Response.json({ ...STARTED, ...wrong })]);
    const onCode = vi.fn<(code: DeviceCode) => void>();
    expect(await login(oracle, { onCode })).toMatchObject({ code: "unexpected_answer" });
    expect(onCode).not.toHaveBeenCalled();
  });

  test("a token that is none is refused, and any other refusal ends the login", async () => {
    const none = login(new Oracle([() => Response.json({ access_token: "a b", account: "acme" })]));
    const other = login(new Oracle([() => oauth("invalid_grant")]));
    const fault = login(
      new Oracle([() => Response.json(errorBody({ code: "internal_error", message: "x" }), { status: 500 })]),
    );
    await vi.advanceTimersByTimeAsync(5000);
    expect(await none).toMatchObject({ code: "unexpected_answer" });
    expect(await other).toMatchObject({ code: "login_failed", details: { error: "invalid_grant" } });
    expect(await fault).toMatchObject({ code: "internal_error" });
  });

  test("one without logins is not asked twice; one that is away is", async () => {
    const missing = new Oracle(
      [approved],
      [() => Response.json(errorBody({ code: "route_not_found", message: "no" }), { status: 404 })],
    );
    expect(await login(missing)).toMatchObject({ code: "route_not_found" });
    expect(missing.forms).toHaveLength(1);
    const away = new Oracle([approved], ["lost", "lost", () => Response.json(STARTED)]);
    const done = login(away);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await done).toMatchObject({ account: "acme" });
  });

  test("an address in the clear is refused", async () => {
    const plain = deviceLogin({ baseUrl: "http://rouse.example.com", onCode: () => undefined });
    await expect(plain).rejects.toBeInstanceOf(RouseError);
    await expect(plain).rejects.toMatchObject({ code: "invalid_base_url" });
  });
});
