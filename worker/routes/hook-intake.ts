/**
 * What providers of webhooks call: `POST /hooks/<token>`. Each is verified here, and stored before it is acknowledged;
 * nothing of it wakes the sandbox before that.
 */
import { inboxObject, type Accepted, type Arrival, type Door, type InboxApi } from "../../durable/inbox/api.ts";
import { Bodies, ROW_MAX } from "../../durable/inbox/bodies.ts";
import {
  acknowledgement,
  keptHeaders,
  passes,
  patienceMs,
  read,
  verify,
  type Delivery,
  type EdgeAnswer,
} from "../../durable/inbox/providers.ts";
import { parseHookToken } from "../../durable/inbox/token.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { hookLimits } from "../../sdk/contract/hook.ts";
import type { RequestNote } from "../log.ts";
import { limitRate } from "../middleware/rate-limit.ts";
import { readBytes } from "../read-bytes.ts";
import { okOrThrow } from "./context.ts";

/** Tells the sender what its event is called here. */
const EVENT_HEADER = "x-rouse-event";
/** Longest time for a body to arrive, milliseconds. */
const BODY_MS = 30_000;

export async function takeHook(env: Env, request: Request, token: string, note: RequestNote): Promise<Response> {
  // The path is a secret.
  note.path = "/hooks/...";
  if (request.method !== "POST") throw new RouseFailure("method_not_allowed", "A hook takes POST.");
  const whose = await parseHookToken(token);
  if (!whose) throw unknown();
  // By the whole token: who guesses uses up nobody's.
  limitRate(`hook ${whose.hash}`, env.ROUSE_RATE_LIMIT, Date.now(), "to this hook");
  const { account, label } = whose;
  const inbox = inboxObject(env.INBOX, account, label);
  const door = await inbox.door(whose.hash);
  if (!door) throw unknown();
  note.account = account;
  note.sandbox = label;
  if (!door.enabled) throw new RouseFailure("hook_disabled", "The hook takes no events.");
  const body = await readBytes(request, door.maxBytes, BODY_MS);
  const verdict = await verify(door.provider, door.secrets, request.headers, body, Date.now());
  if (verdict === "invalid") throw new RouseFailure("signature_invalid", "The signature is missing or wrong.");
  if (verdict === "expired") throw new RouseFailure("signature_expired", "The signature is too old.");
  const delivery = await read(door.provider, request.headers, body);
  if (delivery.handshake) return shown(delivery.handshake, null);
  const event = await accept(env, inbox, door, delivery, request, body);
  if (door.mode === "sync" && event.state !== "ignored") {
    const answer = await inbox.answerOf(event.id, patienceMs(door.provider, hookLimits.syncMs));
    if (answer) {
      const headers = new Headers(answer.headers.map(([name, value]): [string, string] => [name, value]));
      headers.set(EVENT_HEADER, event.id);
      const isEmpty = answer.status === 204 || answer.status === 205 || answer.status === 304;
      return new Response(isEmpty ? null : answer.bytes, { status: answer.status, headers });
    }
  }
  return shown(acknowledgement(door.provider, event, event), event.id);
}

/** The same whatever is wrong with it. */
function unknown(): RouseFailure {
  return new RouseFailure("hook_not_found", "There is no such hook.");
}

async function accept(
  env: Env,
  inbox: InboxApi,
  { hookId, filters }: Door,
  { type, providerId, interaction }: Delivery,
  request: Request,
  body: Uint8Array<ArrayBuffer>,
): Promise<Accepted> {
  const ignored = !passes(filters, type);
  const arrival: Arrival = {
    ...{ hookId, type, providerId, interaction, ignored, bytes: body.length, body: null, blob: null },
    headers: keptHeaders(request.headers),
    query: new URL(request.url).search,
  };
  if (ignored) return okOrThrow(await inbox.receive(arrival)).event;
  if (body.length <= ROW_MAX) return okOrThrow(await inbox.receive({ ...arrival, body })).event;
  const reserved = okOrThrow(await inbox.reserve(hookId, providerId, body.length));
  if (reserved.key === null) return reserved.known;
  await new Bodies(env).put(reserved.key, body);
  return okOrThrow(await inbox.receive({ ...arrival, blob: reserved.key })).event;
}

function shown({ status, contentType, body }: EdgeAnswer, eventId: string | null): Response {
  const headers = new Headers(body === "" ? {} : { "content-type": `${contentType}; charset=utf-8` });
  if (eventId !== null) headers.set(EVENT_HEADER, eventId);
  return new Response(body, { status, headers });
}
