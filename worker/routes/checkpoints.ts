/** The mirror of a sandbox's checkpoints, for its programs and for whoever has a key. */
import { checkpointsObject } from "../../durable/checkpoints/api.ts";
import {
  CheckpointName,
  CheckpointQuery,
  checkpointLimits,
  CHECKPOINT_TYPE,
  decodeCheckpoint,
} from "../../sdk/contract/checkpoint.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { readQuery } from "../api/input.ts";
import { readBytes } from "../read-bytes.ts";
import { okOrThrow } from "./context.ts";
import { placeOf, type HomeContext } from "./place.ts";

/** Time for a body to arrive, milliseconds. */
const BODY_MS = 60_000;

export async function checkpointHome(context: HomeContext): Promise<Response> {
  const { env, operation, params, url } = context;
  const { account, label, sandboxId } = placeOf(context);
  const object = checkpointsObject(env.CHECKPOINTS, account, label);
  const query = readQuery(operation.query ?? CheckpointQuery, url.searchParams);
  if (params[0] === undefined) return Response.json({ data: await object.list(sandboxId) });
  const name = parseOrFail(CheckpointName, params[0], "name");
  switch (operation.method) {
    case "PUT":
      return put(context, name);
    case "DELETE":
      return Response.json(okOrThrow(await object.remove(sandboxId, name)).checkpoint);
    default: {
      const { version } = query as CheckpointQuery;
      const { whole } = okOrThrow(await object.get(sandboxId, name, version ?? null));
      return new Response(whole, { headers: { "content-type": CHECKPOINT_TYPE } });
    }
  }
}

async function put(context: HomeContext, name: string): Promise<Response> {
  const { env, request } = context;
  const { account, label, sandboxId, generation } = placeOf(context);
  const { mirroredBytes, headerBytes } = checkpointLimits;
  const whole = await readBytes(request, mirroredBytes + headerBytes, BODY_MS);
  const read = await decodeCheckpoint(whole);
  if (!read.ok) throw invalid(read.fault);
  const { header } = read;
  if (header.name !== name) throw invalid(`it is a version of ${header.name}`);
  okOrThrow(await checkpointsObject(env.CHECKPOINTS, account, label).put(sandboxId, header, whole, generation));
  const { format: _, name: __, ...version } = header;
  return Response.json(version);
}

function invalid(message: string): RouseFailure {
  const details = { issues: [{ path: "body", message }] };
  return new RouseFailure("invalid_request", `The body is no checkpoint: ${message}.`, { details });
}
