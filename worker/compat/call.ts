/** A call of a client of Runtime, made as a call of Rouse: its body and ids before, its answer after. */
import { z } from "zod";
import { secretsObject } from "../../durable/secrets/api.ts";
import { RouseFailure, type Failure } from "../../sdk/contract/error-codes.ts";
import { SECRETS_ATTACHED_MAX } from "../../sdk/contract/secret-name.ts";
import { readJson } from "../api/input.ts";
import type { Context } from "../routes/context.ts";
import { idOfUuid } from "../sandbox-uuid.ts";
import { respelled, shaped } from "./answers.ts";
import { bodyOf } from "./bodies.ts";
import { inTime } from "./late-answer.ts";
import type { Shape } from "./paths.ts";

const Body = z.record(z.string(), z.unknown());

/** @param shape how the answer is rewritten @param given the URL as the client has it @param run the call of Rouse */
export async function asRuntime(
  context: Context,
  shape: Shape | null,
  given: URL,
  run: (context: Context) => Promise<Response>,
): Promise<Response> {
  const { operation, note, caller } = context;
  const made = { ...context, url: await urlOf(context), request: await requestOf(context) };
  const answered = async (): Promise<Response> => {
    let response: Response;
    try {
      response = await run(made);
    } catch (fault) {
      throw spelled(fault);
    }
    // What a machine says has no ids of sandboxes in it, and may be a stream.
    if (operation.work === "guest" || !isJson(response)) return response;
    const answer: unknown = await response.json();
    const { access, namePrefix } = caller;
    const body = response.ok && shape ? shaped(shape, answer, { url: given, access, namePrefix }) : answer;
    const headers = new Headers(response.headers);
    headers.delete("content-length");
    return Response.json(respelled(body), { status: response.status, headers });
  };
  return operation.method === "GET" ? answered() : inTime(answered(), note.id, failureOf);
}

function isJson({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("application/json") === true;
}

/** A filter of a list may hold an id, too. */
async function urlOf({ env, caller, url }: Context): Promise<URL> {
  const sandboxId = url.searchParams.get("sandboxId");
  const id = sandboxId === null ? null : await idOfUuid(env, caller.account, sandboxId);
  if (id === null) return url;
  const changed = new URL(url);
  changed.searchParams.set("sandboxId", id);
  return changed;
}

async function requestOf(context: Context): Promise<Request> {
  const { env, caller, operation, request, params } = context;
  if (operation.body === undefined || operation.body === "bytes") return request;
  const { value: given } = await readJson(Body, request);
  const body = bodyOf(operation, given, params);
  const { sandboxId } = body;
  if (typeof sandboxId === "string") body["sandboxId"] = (await idOfUuid(env, caller.account, sandboxId)) ?? sandboxId;
  if (operation.path === "/v1/sandboxes") body["secrets"] = await secretsFor(context);
  const headers = new Headers(request.headers);
  headers.delete("content-length");
  return new Request(request.url, { method: request.method, headers, body: JSON.stringify(body) });
}

/** That client knows of no choice: each sandbox has all secrets for requests. A key of a part of the account has none. */
async function secretsFor({ env, caller }: Context): Promise<string[]> {
  if (caller.namePrefix !== null) return [];
  const all = await secretsObject(env.SECRETS, caller.account).list("");
  const names = all.filter(({ mode }) => mode !== "env").map(({ name }) => name);
  return names.slice(0, SECRETS_ATTACHED_MAX);
}

function spelled(fault: unknown): unknown {
  if (!(fault instanceof RouseFailure) || fault.details === undefined) return fault;
  const { code, message, retryAfterMs } = fault;
  const details = respelled(fault.details) as Record<string, unknown>;
  return new RouseFailure(code, message, { details, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}

function failureOf(fault: unknown): Failure {
  if (fault instanceof RouseFailure) return fault;
  console.error(JSON.stringify({ level: "error", fault: String(fault) }));
  return { code: "internal_error", message: "The edge failed." };
}
