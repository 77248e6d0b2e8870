/** Objects of a sandbox, by key and by signed URL. */
import { stateObject } from "../../durable/state/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import {
  BeginObjectUpload,
  CompleteObjectUpload,
  ObjectKey,
  objectLimits,
  ObjectListQuery,
  ObjectToken,
  PutObjectQuery,
  SignObject,
  type SignedObject,
} from "../../sdk/contract/object.ts";
import { sign, signingKey, verify } from "../../sdk/contract/ticket.ts";
import { readJson, readQuery } from "../api/input.ts";
import type { RequestNote } from "../log.ts";
import { limitRate } from "../middleware/rate-limit.ts";
import { okOrThrow } from "./context.ts";
import { sendObject, takeObject, takePart, type ObjectAsk } from "./object-bytes.ts";
import { askerOf, conditionOf, contentTypeOf, entityTag, placeOf, type HomeContext } from "./place.ts";

const SIGNED = "/signed/objects/";

export async function objectRoute(context: HomeContext): Promise<Response> {
  const { env, operation, request, url, params } = context;
  const { account, sandboxId } = placeOf(context);
  const asker = askerOf(context);
  const state = stateObject(env.STATE, account, sandboxId);
  const { path } = operation;
  if (path.endsWith("/objects"))
    return Response.json(okOrThrow(await state.objects(asker, readQuery(ObjectListQuery, url.searchParams))).page);
  const { sha256 } = readQuery(operation.query ?? PutObjectQuery, url.searchParams) as { sha256?: string };
  if (path.includes("/object-uploads")) return uploads(context, sha256);
  if (path.endsWith(":sign")) return signed(context);
  const key = parseOrFail(ObjectKey, params[0], "key");
  const ask: ObjectAsk = { account, place: sandboxId, asker, key };
  switch (operation.method) {
    case "PUT": {
      const terms = { contentType: contentTypeOf(request.headers), condition: conditionOf(request.headers), sha256 };
      const object = await takeObject(env, request, ask, { ...terms, maxBytes: objectLimits.putBytesMax });
      return Response.json(object, { headers: { etag: entityTag(object.etag) } });
    }
    case "DELETE": {
      const { deleted } = okOrThrow(await state.deleteObject(asker, key, conditionOf(request.headers)));
      return Response.json({ key, deleted });
    }
    default:
      return sendObject(env, request, ask, context.note.id);
  }
}

async function uploads(context: HomeContext, sha256: string | undefined): Promise<Response> {
  const { env, operation, request, params } = context;
  const { account, sandboxId } = placeOf(context);
  const asker = askerOf(context);
  const state = stateObject(env.STATE, account, sandboxId);
  const [id, part] = params;
  if (id === undefined) {
    const { value } = await readJson(BeginObjectUpload, request);
    return Response.json(okOrThrow(await state.beginUpload(asker, value)).upload);
  }
  switch (operation.method) {
    case "GET":
      return Response.json(okOrThrow(await state.upload(asker, id)).upload);
    case "PUT": {
      const number = /^[1-9]\d{0,3}$/.test(part ?? "") ? Number(part) : 0;
      if (number < 1 || number > objectLimits.partsMax) {
        const details = { issues: [{ path: "part", message: `1 to ${objectLimits.partsMax}` }] };
        throw new RouseFailure("invalid_request", `A part has a number from 1 to ${objectLimits.partsMax}.`, {
          details,
        });
      }
      return Response.json(await takePart(env, request, { account, place: sandboxId, asker }, id, number, sha256));
    }
    case "DELETE":
      okOrThrow(await state.abortUpload(asker, id));
      return Response.json({ id, aborted: true });
    default: {
      const { value } = await readJson(CompleteObjectUpload, request);
      const condition = conditionOf(request.headers);
      const { object } = okOrThrow(await state.completeUpload(asker, id, value.parts, condition));
      return Response.json(object, { headers: { etag: entityTag(object.etag) } });
    }
  }
}

async function signed(context: HomeContext): Promise<Response> {
  const { env, request, url, caller } = context;
  const { account, sandboxId } = placeOf(context);
  const asker = askerOf(context);
  const { value } = await readJson(SignObject, request);
  const { key, method = "GET", expiresSeconds = objectLimits.signSecondsDefault, contentType, maxBytes } = value;
  const forPut = Object.entries({ contentType, maxBytes }).filter(([, one]) => one !== undefined);
  if (method === "GET" && forPut.length > 0) {
    const details = { issues: forPut.map(([path]) => ({ path, message: "only with method PUT" })) };
    throw new RouseFailure("invalid_request", "A URL to read with says nothing of what is stored.", { details });
  }
  // An older run of a machine, or one of a deleted sandbox, gives nothing away.
  okOrThrow(await stateObject(env.STATE, account, sandboxId).usage(asker));
  const e = Date.now() + expiresSeconds * 1000;
  const token: ObjectToken = {
    ...{ a: account, s: sandboxId, k: key, m: method, by: asker.by, e },
    ...(maxBytes === undefined ? {} : { b: maxBytes }),
    ...(contentType === undefined ? {} : { t: contentType }),
  };
  const text = await sign(await signingKey(env.ROUSE_SECRET, "object"), token);
  // What a host asked by is no name for others.
  const origin = caller ? url.origin : `${env.ROUSE_SCHEME}://${env.ROUSE_DOMAIN}`;
  const answer: SignedObject = { url: `${origin}${SIGNED}${text}`, method, key, expiresAt: new Date(e).toISOString() };
  return Response.json(answer);
}

/** `/signed/objects/<token>`: without a key. What it says is all that it opens. */
export async function signedObject(env: Env, request: Request, note: RequestNote): Promise<Response> {
  // The path is a secret.
  note.path = `${SIGNED}...`;
  const { pathname } = new URL(request.url);
  const text = pathname.slice(SIGNED.length);
  const token = await verify(await signingKey(env.ROUSE_SECRET, "object"), ObjectToken, text, Date.now());
  if (!token) throw new RouseFailure("unauthorized", "The URL is not one of ours, or its time is over.");
  note.account = token.a;
  limitRate(`signed ${token.a}/${token.s}`, env.ROUSE_RATE_LIMIT, Date.now(), "by signed URLs of this sandbox");
  const asker = { by: `signed:${token.by}`, sandboxId: token.s, generation: null };
  const ask: ObjectAsk = { account: token.a, place: token.s, asker, key: token.k };
  const { method } = request;
  if (token.m === "GET" && (method === "GET" || method === "HEAD")) return sendObject(env, request, ask, note.id);
  if (token.m !== "PUT" || method !== "PUT")
    throw new RouseFailure("method_not_allowed", `The URL is for ${token.m}.`, { details: { method: token.m } });
  const contentType = token.t ?? contentTypeOf(request.headers);
  const maxBytes = token.b ?? objectLimits.putBytesMax;
  const condition = conditionOf(request.headers);
  const object = await takeObject(env, request, ask, { contentType, maxBytes, condition, sha256: undefined });
  return Response.json(object, { headers: { etag: entityTag(object.etag) } });
}
