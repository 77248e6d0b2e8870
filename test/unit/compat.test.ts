/** Rules by which clients of Runtime are served: ids as UUIDs, what a call means, answers that come late. */
import { describe, expect, it } from "vitest";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { newSandboxId, randomLabel } from "../../sdk/contract/names.ts";
import { suffixOf, suffixOfUuid, uuidOf } from "../../sdk/contract/uuid.ts";
import { respelled } from "../../worker/compat/answers.ts";
import { inTime } from "../../worker/compat/late-answer.ts";
import { meantBy, whyMissing } from "../../worker/compat/paths.ts";

describe("the UUID of an id", () => {
  it("is one, is always the same, and gives the random part back", () => {
    for (const label of ["a", "agent-u-42", randomLabel(), "0weird-abcdefghijklmnop"]) {
      const id = newSandboxId(label);
      expect(uuidOf(id)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(uuidOf(id)).toBe(uuidOf(id));
      expect(suffixOfUuid(uuidOf(id))).toBe(suffixOf(id));
    }
    // Stored by users: it may never become another.
    expect(uuidOf("agent-u-42~abcdefghijkl")).toBe("00443214-c742-854b-862f-89202cc30df5");
  });

  it("is another for another label, and for another sandbox of the same label", () => {
    const ids = ["a~abcdefghijkl", "b~abcdefghijkl", "a~bbcdefghijkl", "a~abcdefghijkm"];
    expect(new Set(ids.map(uuidOf)).size).toBe(ids.length);
  });

  it("is not taken for what other texts are", () => {
    const uuid = uuidOf("a~abcdefghijkl");
    for (const text of ["", "agent", uuid.toUpperCase(), `${uuid}0`, uuid.replace("-8", "-4"), "0".repeat(36)])
      expect(suffixOfUuid(text)).toBeNull();
  });
});

describe("what a call means", () => {
  const of = (method: string, path: string) => {
    const meant = meantBy(method, new URL(path, "http://edge.test"));
    return meant && [meant.url.pathname + meant.url.search, meant.shape];
  };
  it.each([
    ["GET", "/v1/sandboxes?label=a%3Ab&label=c%3Ad", ["/v1/sandboxes?label=a%3Ab&label=c%3Ad", null]],
    ["PUT", "/v1/egress-secrets/A", ["/v1/secrets/A", "secret"]],
    ["GET", "/v1/egress-secrets", ["/v1/secrets", "secrets"]],
    ["GET", "/v1/limits", ["/v1/account", "limits"]],
    ["GET", "/v1/events?resourceId=a&cursor=4&limit=2&type=x", ["/v1/sandboxes/a/events?after=4&limit=2", "events"]],
    ["GET", "/v1/secrets?limit=100", null],
    ["POST", "/v1/secrets/a:reveal", null],
  ])("%s %s", (method, path, meant) => {
    expect(of(method, path)).toEqual(meant);
  });

  it("what there is none of is told in words of its own", () => {
    expect(whyMissing("/v1/jobs")).toMatch(/schedule/);
    expect(whyMissing("/v1/something")).toBe("Rouse has nothing of the kind.");
  });
});

it("ids are spelled anew wherever they are, but not in what callers wrote", () => {
  const id = "a~abcdefghijkl";
  const uuid = uuidOf(id);
  const given = { id, data: [{ sandboxId: id, name: id, labels: { id } }], error: { details: { sandboxId: id } } };
  const told = {
    id: uuid,
    data: [{ sandboxId: uuid, name: id, labels: { id } }],
    error: { details: { sandboxId: uuid } },
  };
  expect(respelled(given)).toEqual(told);
  expect(respelled({ id: "snap-abc", sandboxId: null })).toEqual({ id: "snap-abc", sandboxId: null });
});

describe("an answer that comes late", () => {
  const failureOf = (fault: unknown) =>
    fault instanceof RouseFailure ? fault : ({ code: "internal_error", message: "?" } as const);
  const later = Promise.withResolvers<Response>();
  it("is as it is when it is not", async () => {
    const answer = Response.json({ a: 1 }, { status: 201 });
    expect(await inTime(Promise.resolve(answer), "r1", failureOf, 1000)).toBe(answer);
    const failed = inTime(Promise.reject(new RouseFailure("not_found", "?")), "r1", failureOf, 1000);
    await expect(failed).rejects.toMatchObject({ code: "not_found" });
  });

  it("begins before it is there", async () => {
    const response = await inTime(later.promise, "r1", failureOf, 1);
    expect([response.status, response.headers.get("runtime-late-answer")]).toEqual([200, "true"]);
    later.resolve(Response.json({ status: "ok" }));
    expect(await response.json()).toEqual({ status: "ok" });
  });

  it("says a failure as the only thing", async () => {
    const failing = Promise.withResolvers<Response>();
    const response = await inTime(failing.promise, "r1", failureOf, 1);
    failing.reject(new RouseFailure("guest_busy", "busy", { retryAfterMs: 7 }));
    const { error, ...rest } = (await response.json()) as { error: object };
    expect(rest).toEqual({});
    expect(error).toMatchObject({ code: "guest_busy", status: 503, retryAfterMs: 7, requestId: "r1" });
  });
});
