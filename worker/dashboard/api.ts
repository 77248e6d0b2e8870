/** Calls of this page: the SDK, which acts as whoever is signed in by the cookie, and signing in and out. */
import { DashboardSession, DevicePending } from "../../sdk/contract/dashboard.ts";
import { Rouse } from "../../sdk/src/client.ts";
import type { SandboxInfo } from "../../sdk/src/index.ts";
import { Sandbox } from "../../sdk/src/sandbox.ts";
import { errorOfResponse } from "../../sdk/src/transport.ts";

let csrf = "";
let onSignedOut: () => void = () => undefined;

/** The browser sends the cookie; the header shows that this page asks. */
async function ownFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.delete("authorization");
  headers.set("x-rouse-csrf", csrf);
  const response = await fetch(input, { ...init, headers, credentials: "same-origin" });
  if (response.status === 401 && csrf !== "") onSignedOut();
  return response;
}

export const rouse = new Rouse({
  baseUrl: location.origin,
  apiKey: "of-the-cookie",
  fetch: ownFetch,
  webSocket: (url) => new WebSocket(url),
  maxRetries: 2,
});

/** @param told when a call finds that the session is over */
export function whenSignedOut(told: () => void): void {
  onSignedOut = told;
}

async function session(method: "GET" | "POST" | "DELETE", path = "", body?: object): Promise<unknown> {
  const response = await fetch(`/dashboard/session${path}`, {
    method,
    credentials: "same-origin",
    headers: { "content-type": "application/json", "x-rouse-csrf": csrf },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw await errorOfResponse(response);
  return response.json();
}

function begun(answer: unknown): DashboardSession {
  const read = DashboardSession.parse(answer);
  csrf = read.csrf;
  return read;
}

/** Who is signed in in this browser; null: nobody. */
export async function currentSession(): Promise<DashboardSession | null> {
  const answer = await session("GET");
  return answer === null ? null : begun(answer);
}

/** @throws RouseError `unauthorized` for what is no key */
export async function signIn(apiKey: string): Promise<DashboardSession> {
  return begun(await session("POST", "", { apiKey }));
}

export async function signOut(): Promise<void> {
  await session("DELETE");
  csrf = "";
}

export interface DeviceCode {
  readonly deviceCode: string;
  /** What both see. */
  readonly userCode: string;
  readonly uri: string;
  readonly expiresInSeconds: number;
  readonly intervalSeconds: number;
}

/** Ask somebody who has a key to let this browser in. */
export async function askApproval(): Promise<DeviceCode> {
  const response = await fetch("/oauth/device_authorization", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "The dashboard in another browser", scope: "trial" }),
  });
  if (!response.ok) throw await errorOfResponse(response);
  const answer = (await response.json()) as Record<string, string | number>;
  return {
    deviceCode: String(answer["device_code"]),
    userCode: String(answer["user_code"]),
    uri: String(answer["verification_uri_complete"]),
    expiresInSeconds: Number(answer["expires_in"]),
    intervalSeconds: Number(answer["interval"]),
  };
}

/** The session once it is approved, or why not yet. */
export async function pollApproval(deviceCode: string): Promise<DashboardSession | string> {
  const answer = await session("POST", "/device", { deviceCode });
  const pending = DevicePending.safeParse(answer);
  return pending.success ? pending.data.state : begun(answer);
}

/** The address of a file in a sandbox, for a link that downloads it. */
export function fileUrl(sandbox: string, path: string): string {
  return `/v1/sandboxes/${encodeURIComponent(sandbox)}/files/content?path=${encodeURIComponent(path)}`;
}

/** What can be done with a sandbox that a list told of. */
export function handleOf(info: SandboxInfo): Sandbox {
  return new Sandbox(rouse.transport, info);
}
