/**
 * The object of one device login: what a program asks for, and what a person said to it. It holds no key: that is made
 * when the program fetches it, and is the same however often it does. Gone a quarter of an hour after it began.
 */
import { DurableObject } from "cloudflare:workers";
import { equalHashes } from "../hash.ts";
import { LOGIN_SECONDS, POLL_SECONDS, type Approval, type LoginApi, type LoginFacts, type Poll } from "./api.ts";

interface Login {
  readonly clientName: string;
  readonly wantsTrial: boolean;
  readonly secretHash: string;
  /** Unix milliseconds. */
  readonly endsAt: number;
  readonly decision: Approval | "denied" | null;
  readonly failures: number;
}

/** Keys that may be tried before the login is over. */
const FAILURES_MAX = 5;

export class LoginObject extends DurableObject<Env> implements LoginApi {
  #polledAt = 0;

  override async alarm(): Promise<void> {
    await this.ctx.storage.deleteAll();
  }

  async begin(facts: { clientName: string; wantsTrial: boolean; secretHash: string }): Promise<boolean> {
    if (await this.#login()) return false;
    const endsAt = Date.now() + LOGIN_SECONDS * 1000;
    await this.ctx.storage.setAlarm(endsAt);
    await this.#save({ ...facts, endsAt, decision: null, failures: 0 });
    return true;
  }

  async facts(): Promise<LoginFacts | null> {
    const login = await this.#login();
    if (!login) return null;
    const { clientName, wantsTrial, decision } = login;
    return {
      clientName,
      wantsTrial,
      state: decision === null ? "pending" : decision === "denied" ? "denied" : "approved",
    };
  }

  async decide(decision: Approval | "denied"): Promise<boolean> {
    const login = await this.#login();
    if (login?.decision !== null) return false;
    await this.#save({ ...login, decision });
    return true;
  }

  async failed(): Promise<boolean> {
    const login = await this.#login();
    if (!login) return false;
    const failures = login.failures + 1;
    await this.#save({ ...login, failures, decision: failures >= FAILURES_MAX ? "denied" : login.decision });
    return failures < FAILURES_MAX;
  }

  async poll(secretHash: string): Promise<Poll> {
    const login = await this.#login();
    if (!login) return { ok: false, error: "expired_token" };
    if (!equalHashes(login.secretHash, secretHash)) return { ok: false, error: "invalid_grant" };
    const now = Date.now();
    const early = now - this.#polledAt < POLL_SECONDS * 900;
    this.#polledAt = now;
    const { decision, clientName } = login;
    if (decision === null) return { ok: false, error: early ? "slow_down" : "authorization_pending" };
    if (decision === "denied") return { ok: false, error: "access_denied" };
    return { ok: true, approval: decision, clientName, once: `login-${login.secretHash}` };
  }

  async #login(): Promise<Login | null> {
    const login = await this.ctx.storage.get<Login>("login");
    return login && login.endsAt > Date.now() ? login : null;
  }

  #save(login: Login): Promise<void> {
    return this.ctx.storage.put("login", login);
  }
}
