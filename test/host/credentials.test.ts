/** What a credential let in ends with it: by its own time, and when the host is told that it is over. */
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { hostServer } from "../../backend-pool/http/server.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import { hostHeaders, hostPaths } from "../../sdk/contract/host.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { OneMachine } from "./one-machine.ts";

const SECRET = "a secret of this test alone, long enough";
const id = newSandboxId("credentials");
const seen: IncomingMessage["headers"][] = [];

let guest: Server;
let host: Server;
let machines: Machines;

beforeAll(async () => {
  // A program that answers without end.
  guest = createServer((request, response) => {
    seen.push(request.headers);
    response.write("begun");
  });
  const sockets = new WebSocketServer({ server: guest });
  sockets.on("connection", (_socket, request) => seen.push(request.headers));
  guest.listen(0, "127.0.0.1");
  await once(guest, "listening");
  const driver = new OneMachine(
    id,
    () => (guest.address() as AddressInfo).port,
    async () => undefined,
  );
  const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
  machines = new Machines(driver, new Journal(":memory:"), policy);
  host = await hostServer({ machines, controlSecret: SECRET, ticketSecret: SECRET, about: async () => ({}) });
  host.listen(0, "127.0.0.1");
  await once(host, "listening");
  const run = { env: {}, idlePauseSeconds: 0, generation: 1, account: "default", hostname: "credentials" };
  await machines.create(id, { ...run, shape: shapeOf({}) });
});
afterAll(async () => {
  for (const server of [host, guest]) {
    server.close();
    server.closeAllConnections();
  }
  await machines.close();
});

async function headersOf(keyId: string, endsAt: number | null): Promise<Record<string, string>> {
  const ticket = await sign(await signingKey(SECRET, "ticket"), { m: id, g: 1, e: Date.now() + 60_000 });
  return {
    [hostHeaders.ticket]: ticket,
    [hostHeaders.keyId]: keyId,
    ...(endsAt === null ? {} : { [hostHeaders.endsAt]: String(endsAt) }),
  };
}

const at = (scheme: string) => `${scheme}://127.0.0.1:${(host.address() as AddressInfo).port}${hostPaths.agent(id)}/`;

/** A stream that has begun, and whether it was cut. */
async function stream(
  keyId: string,
  endsAt: number | null,
): Promise<{ cut: Promise<unknown>; response: IncomingMessage }> {
  const headers = await headersOf(keyId, endsAt);
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    get(at("http"), { headers }, resolve).on("error", reject),
  );
  const cut = once(response, "error");
  await once(response, "data");
  return { cut, response };
}

async function socket(keyId: string, endsAt: number | null): Promise<{ cut: Promise<unknown>; socket: WebSocket }> {
  const opened = new WebSocket(at("ws"), { headers: await headersOf(keyId, endsAt) });
  await once(opened, "open");
  return { cut: once(opened, "close"), socket: opened };
}

it("streams and sockets of a session end with it, and others go on", async () => {
  const never = [await stream("key-1", null), await stream("key-2", Date.now() + 3_600_000)];
  const endsAt = Date.now() + 1000;
  const [one, two] = [await stream("ses-1", endsAt), await socket("ses-1", endsAt)];
  await Promise.all([one.cut, two.cut]);
  for (const { response } of never) {
    expect(response.destroyed).toBe(false);
    response.destroy();
    await once(response, "close").catch(() => undefined);
  }
  // The program learns of neither.
  const names = seen.flatMap((headers) => Object.keys(headers));
  expect(names.filter((name) => name === hostHeaders.endsAt || name === hostHeaders.keyId)).toEqual([]);
});

it("what comes late by a session that is over is cut, and so is what comes by one that was revoked", async () => {
  const late = await socket("ses-2", Date.now() - 1000).catch(() => null);
  await late?.cut;
  const open = await socket("ses-3", null);
  const told = await fetch(`${at("http").split("/m/")[0]}${hostPaths.revoke}`, {
    method: "POST",
    headers: { authorization: `Bearer ${SECRET}` },
    body: JSON.stringify({ keyIds: ["ses-3"] }),
  });
  expect(told.ok).toBe(true);
  await open.cut;
  const refused = await fetch(at("http"), { headers: await headersOf("ses-3", null) });
  expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
    ...[401, "unauthorized"],
  ]);
});
