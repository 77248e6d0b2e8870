/** What the edge may ask of the object of one device login (RFC 8628). */
import type { KeyAccess } from "../../sdk/contract/account.ts";

/** What the person who approves is shown. */
export interface LoginFacts {
  readonly clientName: string;
  /** The program says that a trial account will do. */
  readonly wantsTrial: boolean;
  readonly state: "pending" | "approved" | "denied";
}

/** Whose key the program gets: one that the approver's key makes, or the first of a new trial account. */
export type Approval =
  | { readonly account: string; readonly maker: string; readonly access: KeyAccess }
  | { readonly account: string; readonly trial: true };

/** The answer to a poll: RFC 8628, 3.5. */
export type Poll =
  | { readonly ok: true; readonly approval: Approval; readonly clientName: string; readonly once: string }
  | {
      readonly ok: false;
      readonly error: "authorization_pending" | "slow_down" | "access_denied" | "expired_token" | "invalid_grant";
    };

export interface LoginApi {
  /** @param secretHash of the device code's secret part. false: the code is in use. */
  begin(facts: { clientName: string; wantsTrial: boolean; secretHash: string }): Promise<boolean>;
  /** null: there is no such login, or it is over. */
  facts(): Promise<LoginFacts | null>;
  /** false: it is over, or was decided already. */
  decide(approval: Approval | "denied"): Promise<boolean>;
  /** A wrong key was shown. false: too many were, and the login is over. */
  failed(): Promise<boolean>;
  poll(secretHash: string): Promise<Poll>;
}

/** How long a person has to approve, seconds. */
export const LOGIN_SECONDS = 900;
/** Seconds between polls. */
export const POLL_SECONDS = 5;

export function loginObject(namespace: DurableObjectNamespace<never>, userCode: string): LoginApi {
  return namespace.getByName(userCode) as unknown as LoginApi;
}
