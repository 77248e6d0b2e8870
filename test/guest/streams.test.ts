import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OutputEvent } from "../../sdk/contract/guest.ts";
import { allEvents, bytesOf, collect, events, followed, lines, startAgent, type Agent, type Event } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});

test("start comes first, exit last, and offsets count both streams together", async () => {
  const all = await agent.stream({ command: "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three; exit 4" });
  expect(all[0]?.type).toBe("start");
  expect(all.at(-1)).toMatchObject({ type: "exit", exitCode: 4, state: "exited", timedOut: false });
  expect(all.filter(({ type }) => type === "start" || type === "exit")).toHaveLength(2);
  const { stdout, stderr, end } = bytesOf(all);
  expect([stdout.toString(), stderr.toString(), end]).toEqual(["one\nthree\n", "two\n", 14]);
});

test("a character that is written byte by byte is never split", async () => {
  const all = await agent.stream({
    command: String.raw`for b in '\xf0' '\x9f' '\x98' '\x80' '\xe2' '\x82' '\xac'; do printf "$b"; sleep 0.05; done`,
  });
  const texts = all.flatMap((event) => (event.type === "stdout" ? [event] : []));
  expect(texts.map(({ data }) => data).join("")).toBe("😀€");
  expect(texts.every(({ base64 }) => base64 === undefined)).toBe(true);
  expect(bytesOf(all).end).toBe(7);
});

test("both streams may be inside a character at once", async () => {
  const all = await agent.stream({
    command: String.raw`printf '\xe2'; printf '\xc3' >&2; sleep 0.1; printf '\x82\xac'; sleep 0.1; printf '\xa4' >&2`,
  });
  const { stdout, stderr } = bytesOf(all);
  expect([stdout.toString(), stderr.toString()]).toEqual(["€", "ä"]);
});

test("bytes that are no text come as base64 as well, and count as they are", async () => {
  const all = await agent.stream({ command: String.raw`printf 'ok\xff\xfe\x80'; sleep 0.1; printf '\xe2\x82'` });
  const { stdout, end } = bytesOf(all);
  expect(stdout).toEqual(Buffer.from([0x6f, 0x6b, 0xff, 0xfe, 0x80, 0xe2, 0x82]));
  expect(end).toBe(7);
});

test("a time limit and a signal are told by exit", async () => {
  const late = await agent.stream({ command: "echo a; sleep 600", timeoutMs: 300 });
  expect(late.at(-1)).toMatchObject({ type: "exit", exitCode: -9, state: "timed_out", timedOut: true });
  const killed = await agent.stream({ command: "kill -TERM $$" });
  expect(killed.at(-1)).toMatchObject({ type: "exit", exitCode: -15, state: "killed", timedOut: false });
});

test("a program that does not exist ends the stream, too", async () => {
  const all = await agent.stream({ argv: ["no-such-program-here"] });
  expect(all.at(-1)).toMatchObject({ type: "exit", exitCode: null });
});

test("20 MB to a slow reader arrive whole and in order", async () => {
  const answer = await agent.answer("POST", "/exec", {
    body: { command: "seq -f %019.0f 1 1000000", stream: true },
  });
  const hash = createHash("sha256");
  let cursor = 0;
  let sleeps = 0;
  let last: Event | undefined;
  for await (const event of followed(agent, answer)) {
    if (event.type === "truncated") throw new Error(`lost ${event.droppedBytes} bytes`);
    if (event.type === "stdout") {
      if (event.offset !== cursor) throw new Error(`offset ${event.offset} where ${cursor} was due`);
      hash.update(event.data);
      cursor += Buffer.byteLength(event.data);
      if (cursor / 2_000_000 > sleeps) {
        sleeps++;
        await delay(150);
      }
    }
    last = event;
  }
  const expected = createHash("sha256");
  for (let i = 1; i <= 1_000_000; i++) expected.update(`${String(i).padStart(19, "0")}\n`);
  expect(cursor).toBe(20_000_000);
  expect(hash.digest("hex")).toBe(expected.digest("hex"));
  expect(last).toMatchObject({ type: "exit", exitCode: 0 });
}, 60_000);

test("a reader that follows from the beginning while the process writes loses nothing", async () => {
  const started = await agent.spawn({ command: "read line; seq -f %019.0f 1 200000", stdinMode: "pipe" });
  const answer = await agent.output(started.id, 0);
  await agent.call("POST", `/processes/${started.id}:write`, {
    body: { base64: Buffer.from("go\n").toString("base64"), offset: 0 },
  });
  const { end } = bytesOf(await collect(followed(agent, answer)));
  expect(end).toBe(4_000_000);
});

test("a reader that vanishes blocks neither the process for ever nor another reader", async () => {
  const gone = await agent.answer("POST", "/exec", {
    body: { command: "seq -f %019.0f 1 300000; sleep 600", stream: true, timeoutMs: 60_000 },
  });
  const first = OutputEvent.parse((await lines(gone).next()).value);
  gone.destroy();
  if (first.type !== "start") throw new Error(first.type);
  const other = await agent.output(first.processId, 0);
  let cursor = 0;
  let lost = 0;
  for await (const event of followed(agent, other)) {
    if (event.type === "truncated") {
      lost += event.droppedBytes;
      cursor = event.resumeAt;
    }
    if (event.type === "stdout") cursor = event.offset + Buffer.byteLength(event.data);
    if (cursor === 6_000_000) break;
  }
  await agent.signal(first.processId, "SIGKILL");
  expect([cursor, lost]).toEqual([6_000_000, 0]);
});

test("a reader that broke off resumes where it was, without a gap", async () => {
  const answer = await agent.answer("POST", "/exec", { body: { command: "seq -f %019.0f 1 50000", stream: true } });
  const before: Event[] = [];
  let id = "";
  for await (const event of events(answer)) {
    before.push(event);
    if (event.type === "start") id = event.processId;
    if (bytesOf(before).end > 200_000) break;
  }
  answer.destroy();
  const { end } = bytesOf(before);
  const rest = await collect(followed(agent, await agent.output(id, end)));
  expect(rest.some(({ type }) => type === "truncated" || type === "start")).toBe(false);
  expect(bytesOf(rest, end).end).toBe(1_000_000);
  expect(rest.at(-1)?.type).toBe("exit");
});

test("a reader that broke off loses nothing of what was on its way", async () => {
  const answer = await agent.answer("POST", "/exec", { body: { command: "seq -f %019.0f 1 300000", stream: true } });
  const first = OutputEvent.parse((await lines(answer).next()).value);
  if (first.type !== "start") throw new Error(first.type);
  // The agent has sent all that it may, and none of it is read.
  const written = async () => (await agent.process(first.processId)).outputBytes;
  await expect.poll(written).toBeGreaterThan(500_000);
  answer.destroy();
  const all = await collect(followed(agent, await agent.output(first.processId, 0)));
  expect(all.some(({ type }) => type === "truncated")).toBe(false);
  expect(bytesOf(all).end).toBe(6_000_000);
});

test("a repeated key is given the same stream again, and nothing runs twice", async () => {
  const body = { command: "echo $$ $RANDOM$RANDOM", stream: true };
  const all = await Promise.all(
    [1, 2].map(async () => allEvents(await agent.answer("POST", "/exec", { body, key: "stream" }))),
  );
  const texts = all.map((one) => bytesOf(one).stdout.toString());
  expect(texts[0]).toBe(texts[1]);
  expect(texts[0]).toMatch(/^\d+ \d+\n$/);
});

test("a cursor past everything waits for what comes, then ends with exit", async () => {
  const started = await agent.spawn({ command: "echo hello; read line; echo bye", stdinMode: "pipe" });
  await agent.textOf(started.id, "hello");
  const answer = await agent.output(started.id, 6);
  await agent.call("POST", `/processes/${started.id}:write`, { body: { base64: "Cg==", offset: 0 } });
  const all = await allEvents(answer);
  expect(bytesOf(all, 6).stdout.toString()).toBe("bye\n");
});

test("what is no longer kept is told as truncated, and the rest is given", async () => {
  const started = await agent.spawn({ command: "seq -f %019.0f 1 200000" });
  await expect.poll(async () => (await agent.process(started.id)).state, { timeout: 20_000 }).toBe("exited");
  const all = await collect(followed(agent, await agent.output(started.id, 0)));
  const [cut] = all;
  if (cut?.type !== "truncated") throw new Error(`first was ${cut?.type}`);
  expect(cut.droppedBytes).toBe(cut.resumeAt);
  expect(cut.resumeAt).toBeGreaterThan(2_900_000);
  const { stdout, end } = bytesOf(all, cut.resumeAt);
  expect(end).toBe(4_000_000);
  expect(stdout.toString().endsWith("0000000000000200000\n")).toBe(true);
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});
