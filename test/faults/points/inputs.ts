/** Input that is no good, as bytes to the edge itself: it is bounded, answered by a type, and wakes nothing. Fakes. */
import type { NewHook } from "../../../sdk/contract/hook.ts";
import { signed } from "../inbox.ts";
import type { Point, Stage } from "../point.ts";
import { sendRaw, type RawAnswer, type RawOptions } from "../raw.ts";
import type { Witness } from "../witness.ts";

const LIMIT_MS = 10_000;
/** The edge gives a body thirty seconds; how much more a busy machine may take, milliseconds. */
const SLOW_MS = 60_000;
const KEY = "dGhlIHNhbXBsZSBub25jZQ==";

interface Target {
  readonly witness: Witness;
  readonly hook: NewHook;
  readonly port: number;
  /** Lines that name its program, without a credential. */
  readonly host: string;
  readonly key: string;
}

async function sleeper(stage: Stage): Promise<Target> {
  const witness = await stage.create();
  const hook = await witness.patient.hooks.create({ name: "in", provider: "standard", port: 8080, maxBytes: 100_000 });
  const { own } = stage.world;
  await witness.pause();
  return {
    ...{ witness, hook, port: Number(new URL(own.url).port) },
    ...{ host: `host: ${new URL(witness.patient.info.url).host}`, key: `authorization: Bearer ${own.apiKey}` },
  };
}

/** It sleeps as it did, in the same run. */
async function sleepsOn(stage: Stage, { witness }: Target, after: string): Promise<void> {
  const { generation } = witness.patient.info;
  const { info } = await witness.patient.refresh();
  const same = info.state === "paused" && info.generation === generation;
  stage.expect(
    same,
    `after ${after} it is ${info.state} in run ${info.generation}, before it was asleep in ${generation}`,
  );
}

function lines(...all: string[]): string {
  return `${[...all, "", ""].join("\r\n")}`;
}

/** The edge answers with one of its types, or ends the connection. */
function typed(stage: Stage, what: string, answer: RawAnswer, statuses: readonly (number | null)[]): void {
  const { status, text, ended } = answer;
  const fine = statuses.includes(status) && (status !== null || ended);
  stage.expect(fine, `${what} was answered ${status}, ended ${ended}: ${text.slice(0, 300)}`);
}

async function send(target: Target, text: string, options: RawOptions = { limitMs: LIMIT_MS }): Promise<RawAnswer> {
  return sendRaw(target.port, text, options);
}

export const inputs: readonly Point[] = [
  {
    name: "input/malformed-upgrades",
    place: "fake",
    async play(stage) {
      const target = await sleeper(stage);
      const { host, key } = target;
      const upgrade = ["upgrade: websocket", "connection: upgrade, close"];
      const bad: [string, string[]][] = [
        ["an upgrade of version 8", [...upgrade, "sec-websocket-version: 8", `sec-websocket-key: ${KEY}`]],
        ["an upgrade without a key", [...upgrade, "sec-websocket-version: 13"]],
        ["an upgrade with a short key", [...upgrade, "sec-websocket-version: 13", "sec-websocket-key: short"]],
        ["an upgrade without a version", [...upgrade, `sec-websocket-key: ${KEY}`]],
      ];
      const get = "GET /ws HTTP/1.1";
      for (const [what, headers] of bad) {
        typed(stage, `${what}, by a stranger,`, await send(target, lines(get, host, ...headers)), [400, 401]);
        await sleepsOn(stage, target, what);
        typed(stage, `${what}, with a key,`, await send(target, lines(get, host, key, ...headers)), [400]);
        await sleepsOn(stage, target, what);
      }
      const none: [string, string[]][] = [
        ["a connection that upgrades to nothing", ["connection: upgrade, close"]],
        ["an upgrade without its connection", ["upgrade: websocket", "connection: close"]],
        ["an upgrade to h2c", ["upgrade: h2c", "connection: upgrade, close"]],
      ];
      for (const [what, headers] of none) {
        typed(stage, what, await send(target, lines(get, host, ...headers)), [400, 401]);
        await sleepsOn(stage, target, what);
      }
      stage.note("upgrades that are none, by strangers and with a key");
    },
  },
  {
    name: "input/oversized-and-broken-requests",
    place: "fake",
    async play(stage) {
      const target = await sleeper(stage);
      const { host, key } = target;
      const big = (bytes: number) => `x-big: ${"a".repeat(bytes)}`;
      const refused = [400, 401, 413, 414, 431, 501, null];
      for (const bytes of [70_000, 1_000_000]) {
        const get = lines("GET / HTTP/1.1", host, key, big(bytes), "connection: close");
        typed(stage, `a header of ${bytes} bytes`, await send(target, get), refused);
        const path = lines(`GET /${"a".repeat(bytes)} HTTP/1.1`, host, "connection: close");
        typed(stage, `a path of ${bytes} bytes`, await send(target, path), refused);
        await sleepsOn(stage, target, `headers of ${bytes} bytes`);
      }
      for (const text of ["GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\u0001\u0002", lines("GET / HTTP/1.1")])
        typed(stage, JSON.stringify(text), await send(target, text, { limitMs: 2000 }), [...refused, 404]);
      const both = lines(
        "POST / HTTP/1.1",
        host,
        "content-length: 5",
        "transfer-encoding: chunked",
        "connection: close",
      );
      typed(stage, "two lengths at once", await send(target, `${both}0\r\n\r\n`), refused);
      await sleepsOn(stage, target, "requests that are none");
      stage.expect((await fetch(`${stage.world.own.url}/healthz`)).ok, "the edge is not well any more");
      stage.note("headers and paths up to a megabyte, and what is no HTTP");
    },
  },
  {
    name: "input/slow-uploads",
    place: "fake",
    async play(stage) {
      const target = await sleeper(stage);
      const { hook, host } = target;
      const { pathname, host: api } = new URL(hook.url ?? "");
      const post = (length: string) => [`POST ${pathname} HTTP/1.1`, `host: ${api}`, length, "connection: close"];
      const slow: RawOptions = { trickle: "a", limitMs: SLOW_MS };
      const slowly = Promise.all([
        ...Array.from({ length: 10 }, () => send(target, lines(...post("content-length: 90000")), slow)),
        ...Array.from({ length: 10 }, () =>
          send(target, lines(...post("transfer-encoding: chunked")), { ...slow, trickle: "1\r\na\r\n" }),
        ),
      ]);
      // Who is not let in is not listened to.
      const named = lines("POST / HTTP/1.1", host, "content-length: 90000", "connection: close");
      typed(
        stage,
        "a slow upload to a program, by a stranger,",
        await send(target, named, { ...slow, limitMs: 5000 }),
        [401],
      );
      const long = await send(target, lines(...post("content-length: 100001")));
      typed(stage, "a body that is announced as too long", long, [413]);
      const endless = { trickle: `4000\r\n${"a".repeat(16_384)}\r\n`, everyMs: 20, limitMs: LIMIT_MS };
      const over = await send(target, lines(...post("transfer-encoding: chunked")), endless);
      typed(stage, "a body without an end", over, [413]);
      await sleepsOn(stage, target, "slow and endless uploads");
      for (const answer of await slowly) typed(stage, "a body that trickles", answer, [408]);
      await sleepsOn(stage, target, "slow uploads that were given up");
      const known = await target.witness.patient.hooks.events.list({ limit: 100 });
      stage.expect(known.data.length === 0, `${known.data.length} events are known of uploads that never ended`);
      // Who sends properly is served all the same.
      const body = "{}";
      const answer = await fetch(hook.url ?? "", {
        method: "POST",
        body,
        headers: signed(hook.secret ?? "", "m", body),
      });
      stage.expect(answer.status === 202, `a proper webhook after them was answered ${answer.status}`);
      target.witness.waking();
      stage.note("20 bodies that trickle, one that is too long and one without an end");
    },
  },
];
