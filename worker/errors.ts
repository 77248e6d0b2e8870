/** Faults to answers: the one place where the edge shapes errors. */
import { errorBody, errorResponse, RouseFailure, type Failure } from "../sdk/contract/error-codes.ts";

/** The answer to anything thrown. What is not an expected failure is a fault of ours, and its text stays in the log. */
export function faultResponse(fault: unknown, requestId: string): Response {
  if (fault instanceof RouseFailure) return errorResponse(fault, requestId, headersOf(fault));
  console.error(
    JSON.stringify({
      level: "error",
      requestId,
      fault: fault instanceof Error ? (fault.stack ?? fault.message) : String(fault),
    }),
  );
  return errorResponse({ code: "internal_error", message: "The edge failed." }, requestId);
}

/** Clients that look for how to authenticate are told (RFC 9110, 11.6.1). */
function headersOf({ code }: RouseFailure): Record<string, string> {
  return code === "unauthorized" ? { "www-authenticate": 'Bearer realm="rouse"' } : {};
}

/** On a named URL a stopped sandbox is a page that is not there. */
export function namedFaultResponse(fault: unknown, requestId: string): Response {
  if (!(fault instanceof RouseFailure) || fault.code !== "sandbox_stopped") return faultResponse(fault, requestId);
  const body = errorBody(fault, requestId);
  return Response.json(
    { error: { ...body.error, status: 404 } },
    { status: 404, headers: { "x-request-id": requestId } },
  );
}

/** A failure that came as data, thrown on. */
export function thrown({ code, message, details, retryAfterMs }: Failure): RouseFailure {
  return new RouseFailure(code, message, {
    ...(details ? { details } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}
