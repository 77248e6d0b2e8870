/** Session tokens in tests of the edge: how they are made, and how those who have one call. */
import { expect } from "vitest";
import type { NewSession } from "../../sdk/contract/session.ts";
import { API, ask, edge, fake, faultOf } from "./client.ts";

/** The page that tokens are for unless a test says otherwise. */
export const APP = "https://app.example";
export const sessionsOf = (id: string) => `/v1/sandboxes/${id}/sessions`;

export async function begin(id: string, input: object = {}, headers = {}): Promise<NewSession> {
  const { status, body } = await ask<NewSession>("POST", sessionsOf(id), { origins: [APP], ...input }, headers);
  if (status !== 200) throw new Error(`session: ${status} ${JSON.stringify(body)}`);
  return body;
}

/** As a page calls. @param origin null: as a server does */
export function from(origin: string | null, token: string, method: string, path: string, body?: unknown, headers = {}) {
  return edge(API + path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(origin === null ? {} : { origin }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

export const run = (origin: string | null, token: string, id: string) =>
  from(origin, token, "POST", `/v1/sandboxes/${encodeURIComponent(id)}:exec`, { command: "true" });

export const codeOf = async (response: Response) => [response.status, (await faultOf(response)).code];

/** That nothing came of a refusal. */
export async function untouched({ id, name }: { id: string; name: string }): Promise<void> {
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  expect((await fake.state(name)).requests).toBe(0);
}
