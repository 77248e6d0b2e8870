/** Accounts of tests, and callers with their keys. */
import { NewAccount } from "../../sdk/contract/account.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { ask } from "./client.ts";

let counter = 0;
export async function openAccount(input: Record<string, unknown> = {}): Promise<NewAccount & Client> {
  counter += 1;
  const name = `acc${counter}${crypto.randomUUID().slice(0, 4)}`;
  const { status, body } = await ask("POST", "/v1/accounts", { name, plan: "unmetered", ...input });
  if (status !== 200) throw new Error(`open: ${status} ${JSON.stringify(body)}`);
  return { ...NewAccount.parse(body), ...clientOf(NewAccount.parse(body).key) };
}

interface Client {
  as<T = Sandbox & { error: { code: string; details: Record<string, unknown> } }>(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; body: T }>;
}

export function clientOf(key: string): Client {
  return { as: (method, path, body) => ask(method, path, body, { authorization: `Bearer ${key}` }) };
}
