/** A terminal through the host agent: a real guest agent behind a machine that sleeps and wakes. */
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import { hostServer } from "../../backend-pool/http/server.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import { hostHeaders, hostPaths } from "../../sdk/contract/host.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { startAgent, type Agent } from "../guest/agent.ts";
import { Look } from "../guest/terminals.ts";
import { OneMachine } from "./one-machine.ts";

const SECRET = "a secret of this test alone, long enough";
const id = newSandboxId("shells");
const run = { env: {}, idlePauseSeconds: 0 };

let agent: Agent;
let host: Server;
let machines: Machines;

beforeAll(async () => {
  agent = await startAgent();
  const driver = new OneMachine(
    id,
    () => agent.port,
    async () => undefined,
  );
  driver.cpuTicks = async () => ticksBelow(agent.pid);
  const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
  machines = new Machines(driver, new Journal(":memory:"), policy);
  host = await hostServer({ machines, controlSecret: SECRET, ticketSecret: SECRET, about: async () => ({}) });
  host.listen(0, "127.0.0.1");
  await once(host, "listening");
  await machines.create(id, { ...run, generation: 1, account: "default", shape: shapeOf({}), hostname: "shells" });
});
afterAll(async () => {
  host.close();
  host.closeAllConnections();
  await machines.close();
  await agent.stop();
});

async function look(generation: number, query: string): Promise<Look> {
  const ticket = await sign(await signingKey(SECRET, "ticket"), { m: id, g: generation, e: Date.now() + 60_000 });
  const { port } = host.address() as AddressInfo;
  const headers = { [hostHeaders.ticket]: ticket, [hostHeaders.byMessage]: "1" };
  const found = new Look(new WebSocket(`ws://127.0.0.1:${port}${hostPaths.agent(id)}/terminal?${query}`, { headers }));
  found.socket.on("error", () => undefined);
  return found;
}

/** CPU time of a process and of all that it started, in hundredths of a second. */
function ticksBelow(root: number): number {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const fields = stat
          .slice(stat.lastIndexOf(")") + 2)
          .split(" ")
          .map(Number);
        return [{ pid: Number(name), parent: fields[1], ticks: (fields[11] ?? 0) + (fields[12] ?? 0) }];
      } catch {
        return []; // it ended meanwhile
      }
    });
  const sum = (pid: number): number =>
    all.filter(({ parent }) => parent === pid).reduce((ticks, child) => ticks + sum(child.pid), 0) +
    (all.find((one) => one.pid === pid)?.ticks ?? 0);
  return sum(root);
}

const lastActiveAt = () => machines.describe(id).lastActiveAt;
const aMoment = () => new Promise((resolve) => setTimeout(resolve, 20));

it("counts what is typed and written as use, and neither the open socket nor pings", async () => {
  const one = await look(1, `command=${encodeURIComponent("stty -echo; echo up; cat")}`);
  await one.until("up");
  await aMoment();
  expect(machines.describe(id).open).toBe(0);
  const before = lastActiveAt();
  await aMoment();
  const pong = once(one.socket, "pong");
  one.socket.ping();
  await pong;
  expect(lastActiveAt()).toBe(before);
  one.type("hello\r");
  await one.until("hello");
  expect(lastActiveAt()).not.toBe(before);
  one.type("\u0004");
  await one.of("exit");
});

it("tells its client that the machine rests, and the same shell goes on for one that comes back", async () => {
  const one = await look(1, `command=${encodeURIComponent("PS1='$ ' exec bash --norc --noprofile -i")}`);
  const processId = String((await one.of("ready"))["processId"]);
  one.type("word=kept; sleep 0.4; echo late-$word\r");
  await one.until("sleep 0.4");
  const seen = one.output.length;
  await machines.pause(id, { generation: 1 });
  expect(await one.closed).toBe(4001);
  const asleep = await look(1, `processId=${processId}`);
  expect(await asleep.closed).toBe(1006);
  await machines.wake(id, { ...run, generation: 2 });
  const two = await look(2, `processId=${processId}&cursor=${seen}`);
  await two.until("late-kept\r\n");
  two.type("echo again-$word; exit\r");
  await two.until("again-kept\r\n");
  expect(await two.of("exit")).toMatchObject({ exitCode: 0 });
});

it("calls a machine idle whose shell waits at its prompt before a client, by the CPU that its programs really take", async () => {
  await machines.pause(id, { generation: 2 });
  await machines.wake(id, { ...run, idlePauseSeconds: 6, generation: 3 });
  const one = await look(3, `command=${encodeURIComponent("PS1='$ ' exec bash --norc --noprofile -i")}`);
  await one.until("$ ");
  const news = () => machines.pendingEvents().map(({ event }) => event.type);
  await expect.poll(news, { timeout: 90_000 }).toContain("idle");
  expect(one.socket.readyState).toBe(WebSocket.OPEN);
  await machines.pause(id, { generation: 3, onlyIfIdle: true });
  expect(await one.closed).toBe(4001);
}, 120_000);
