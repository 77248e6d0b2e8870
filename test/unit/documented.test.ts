import { expect, it } from "vitest";
import { assertDocumented } from "../support/documented.ts";

const told = (status: number, body: unknown, change: { method?: string; pathname?: string; type?: string } = {}) =>
  assertDocumented({
    ...{
      method: "GET",
      pathname: "/v1/sandboxes/a%3Ab/files/watches",
      status,
      type: "application/json; charset=utf-8",
    },
    json: () => body,
    ...change,
  });
const watch = { id: "w", path: "/a", cursor: 0, processId: "w", state: "running", startedAt: 1 };
const error = (code: string) => ({
  error: { code, status: 404, message: "m", hint: "h", requestId: "r" },
});

it("an answer is as the document says, or a test fails", async () => {
  await told(200, { data: [watch] });
  await told(404, error("watch_not_found"));
  await told(200, "no such route", { pathname: "/v1/nothing" });
  await expect(told(200, { data: [{ ...watch, more: 1 }] })).rejects.toThrow(/more/);
  await expect(told(200, { data: [{ ...watch, state: "new" }] })).rejects.toThrow(/state/);
  await expect(told(200, {})).rejects.toThrow(/data/);
  await expect(told(204, {})).rejects.toThrow(/answered 204.*only 200/);
  await expect(told(404, error("schedule_not_found"))).rejects.toThrow(/code schedule_not_found/);
  await expect(told(404, { error: {} })).rejects.toThrow(/code/);
});
