/** What the operator of the installation looks after: hosts and accounts. */
import { z } from "zod";
import { accountObject } from "../../durable/account/api.ts";
import { drainHost, readBoard, removeHost } from "../../durable/hosts/board-facade.ts";
import {
  AccountName,
  AddCredit,
  CreateAccount,
  CreateKey,
  DEFAULT_ACCOUNT,
  UpdateAccount,
} from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { AddHost, DrainHost, type Host, type NewHost } from "../../sdk/contract/host.ts";
import { hostSecrets } from "../../sdk/contract/host-secrets.ts";
import { readJson, readQuery } from "../api/input.ts";
import { forgetHost, type Caller } from "../middleware/auth.ts";
import { okOrThrow, onceOf, type Context } from "./context.ts";

export async function operatorRoute(context: Context): Promise<Response> {
  const { operation, caller, url } = context;
  readQuery(operation.query ?? z.strictObject({}), url.searchParams);
  mustOperate(caller);
  return operation.path.startsWith("/v1/hosts") ? hostRoute(context) : accountsRoute(context);
}

async function hostRoute({ env, operation, request, params }: Context): Promise<Response> {
  const [hostId = ""] = params;
  if (operation.path === "/v1/hosts" && operation.method === "GET")
    return Response.json({ data: (await readBoard(env)).hosts });
  if (operation.path === "/v1/hosts") {
    const { value } = await readJson(AddHost, request);
    const epoch = await accountObject(env.ACCOUNT, DEFAULT_ACCOUNT).nextHostEpoch(value.hostId);
    forgetHost(value.hostId);
    const roots = { host: env.ROUSE_HOST_SECRET, signing: env.ROUSE_SECRET };
    const made: NewHost = { hostId: value.hostId, ...(await hostSecrets(roots, value.hostId, epoch)) };
    return Response.json(made);
  }
  if (operation.method === "POST") {
    const { value } = await readJson(DrainHost, request);
    if (!(await drainHost(env.HOSTS, hostId, value.draining ?? true))) throw noSuchHost(hostId);
    return Response.json(await hostOf(env, hostId));
  }
  if (!(await hostOf(env, hostId)).lost) {
    const message = `Host ${hostId} reported not long ago, and may still run machines; stop its host agent and wait.`;
    throw new RouseFailure("conflict", message, { retryAfterMs: 10_000 });
  }
  await removeHost(env.HOSTS, hostId);
  return Response.json({ hostId, removed: true });
}

async function accountsRoute(context: Context): Promise<Response> {
  const { env, operation, request, params } = context;
  const registry = accountObject(env.ACCOUNT, DEFAULT_ACCOUNT);
  if (operation.path === "/v1/accounts") {
    if (operation.method === "GET") return Response.json({ data: await registry.listAccounts() });
    const { value } = await readJson(CreateAccount, request);
    // Noted first: an account that was opened and is not in the list would be lost to its operator.
    if (value.name !== DEFAULT_ACCOUNT) await registry.registerAccount(value.name);
    const opened = await accountObject(env.ACCOUNT, value.name).open(value, await onceOf(context, value));
    return Response.json(okOrThrow(opened).account);
  }
  const name = AccountName.safeParse(params[0]);
  if (!name.success) throw noSuchAccount(params[0] ?? "");
  const object = accountObject(env.ACCOUNT, name.data);
  if (operation.method === "GET") {
    const account = await object.account();
    if (!account) throw noSuchAccount(name.data);
    return Response.json(account);
  }
  if (operation.path.endsWith(":key")) {
    const { value } = await readJson(CreateKey, request);
    return Response.json(okOrThrow(await object.createKey(value, null, await onceOf(context, value))).key);
  }
  if (operation.path.endsWith(":credit")) {
    const { value } = await readJson(AddCredit, request);
    return Response.json(okOrThrow(await object.addCredit(value, await onceOf(context, value))).account);
  }
  const { value } = await readJson(UpdateAccount, request);
  return Response.json(okOrThrow(await object.update(value, await onceOf(context, value))).account);
}

/** Hosts and accounts belong to whoever runs the installation: the default account. */
function mustOperate(caller: Caller): void {
  if (caller.account !== DEFAULT_ACCOUNT)
    throw new RouseFailure("forbidden", "Only the account of the installation's operator may do that.");
}

async function hostOf(env: Env, hostId: string): Promise<Host> {
  const host = (await readBoard(env)).hosts.find((one) => one.hostId === hostId);
  if (!host) throw noSuchHost(hostId);
  return host;
}

function noSuchHost(hostId: string): RouseFailure {
  return new RouseFailure("not_found", `There is no host ${JSON.stringify(hostId)}.`);
}

function noSuchAccount(name: string): RouseFailure {
  return new RouseFailure("not_found", `There is no account ${JSON.stringify(name)}.`);
}
