import { expect, test } from "vitest";
import { lastBoundary, OutputLog, type Piece, type Stream } from "../../backend-pool/guest/output.ts";

/** Random numbers that are the same in every run (mulberry32). */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

function bytesOf(piece: Piece): Buffer {
  return piece.base64 === undefined ? Buffer.from(piece.data) : Buffer.from(piece.base64, "base64");
}

/** All from a cursor on, read in pages; offsets must be contiguous. */
function readAll(log: OutputLog, from: number, pageBytes: () => number): Record<Stream, Buffer> {
  const parts: Record<Stream, Buffer[]> = { stdout: [], stderr: [] };
  let cursor = from;
  while (cursor < log.total) {
    const pieces = log.read(cursor, pageBytes());
    if (pieces.length === 0) throw new Error(`nothing at ${cursor} of ${log.total}`);
    for (const piece of pieces) {
      expect(piece.offset).toBe(cursor);
      const bytes = bytesOf(piece);
      expect(bytes.length).toBe(piece.bytes);
      parts[piece.stream].push(bytes);
      cursor += piece.bytes;
    }
  }
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr) };
}

test("lastBoundary cuts before a character whose rest is missing", () => {
  const whole = Buffer.from("a€😀ä");
  const boundaries = [0, 1, 4, 8, 10];
  for (let end = 0; end <= whole.length; end++) {
    expect(lastBoundary(whole.subarray(0, end))).toBe(Math.max(...boundaries.filter((at) => at <= end)));
  }
});

test("lastBoundary keeps bytes that can't become a character", () => {
  for (const bytes of [[0x80], [0x61, 0x80, 0x80, 0x80], [0x80, 0x80, 0x80, 0x80], [0xc3, 0x28]]) {
    expect(lastBoundary(Buffer.from(bytes))).toBe(bytes.length);
  }
  expect(lastBoundary(Buffer.alloc(0))).toBe(0);
});

test("what is written is read back from any cursor", () => {
  const log = new OutputLog();
  log.append("stdout", Buffer.from("one "));
  log.append("stderr", Buffer.from("two "));
  log.append("stdout", Buffer.from("three"));
  expect(log.read(0, 100)).toEqual([
    { stream: "stdout", data: "one ", offset: 0, bytes: 4 },
    { stream: "stderr", data: "two ", offset: 4, bytes: 4 },
    { stream: "stdout", data: "three", offset: 8, bytes: 5 },
  ]);
  expect(log.read(6, 4)).toEqual([
    { stream: "stderr", data: "o ", offset: 6, bytes: 2 },
    { stream: "stdout", data: "th", offset: 8, bytes: 2 },
  ]);
  expect(log.read(13, 100)).toEqual([]);
  expect(log.read(99, 100)).toEqual([]);
});

test("a read never splits a character unless it is longer than the read", () => {
  const log = new OutputLog();
  log.append("stdout", Buffer.from("€€"));
  expect(log.read(0, 4)).toEqual([{ stream: "stdout", data: "€", offset: 0, bytes: 3 }]);
  const [small] = log.read(0, 2);
  expect(small).toMatchObject({ bytes: 2, base64: Buffer.from("€").subarray(0, 2).toString("base64") });
  const [inside] = log.read(1, 100);
  expect(inside?.base64).toBe(Buffer.from("€€").subarray(1).toString("base64"));
});

test("a half character waits for its rest, and is given as bytes when none comes", () => {
  const log = new OutputLog();
  log.append("stdout", Buffer.from([0x61, 0xe2, 0x82]));
  expect(log.total).toBe(1);
  log.append("stderr", Buffer.from("e"));
  log.append("stdout", Buffer.from([0xac]));
  expect(log.read(0, 100).map(({ data }) => data)).toEqual(["a", "e", "€"]);
  log.append("stdout", Buffer.from([0xf0, 0x9f]));
  log.end();
  expect(log.read(5, 100)).toEqual([
    { stream: "stdout", data: expect.any(String) as string, offset: 5, bytes: 2, base64: "8J8=" },
  ]);
  log.append("stdout", Buffer.from("late"));
  expect(log.total).toBe(7);
});

test("a replacement character that the program itself wrote is text", () => {
  const log = new OutputLog();
  log.append("stdout", Buffer.from("\ufffd"));
  expect(log.read(0, 100)).toEqual([{ stream: "stdout", data: "\ufffd", offset: 0, bytes: 3 }]);
});

test("base64 is there when it is wanted, also for text", () => {
  const log = new OutputLog();
  log.append("stdout", Buffer.from("hi"));
  expect(log.read(0, 100, true)[0]?.base64).toBe("aGk=");
});

test("the newest bytes are kept, and first tells the oldest of them", () => {
  const log = new OutputLog(1000);
  for (let i = 0; i < 100; i++) log.append(i % 2 ? "stderr" : "stdout", Buffer.alloc(100, 97 + (i % 26)));
  expect(log.total).toBe(10_000);
  expect(log.first).toBe(9000);
  expect(log.bytes).toBe(1000);
  expect(log.read(0, 10)[0]).toMatchObject({ offset: 9000, bytes: 10 });
});

test("very many tiny writes in turns stay small in memory", () => {
  const log = new OutputLog(1_048_576);
  for (let i = 0; i < 100_000; i++) log.append(i % 2 ? "stderr" : "stdout", Buffer.from("x"));
  expect(log.total).toBe(100_000);
  expect(log.read(0, 1_048_576).length).toBeLessThanOrEqual(16_384);
  expect(log.total - log.first).toBe(log.bytes);
});

test("the beginning of each stream outlives the ring", () => {
  const log = new OutputLog(1000, 500);
  const out = Buffer.from(Array.from({ length: 2000 }, (_, i) => `o${i},`).join(""));
  const err = Buffer.from(Array.from({ length: 2000 }, (_, i) => `e${i};`).join(""));
  for (let at = 0; at < out.length; at += 77) {
    log.append("stdout", out.subarray(at, at + 77));
    log.append("stderr", err.subarray(at, at + 77));
  }
  log.end();
  expect(log.head("stdout", 500)).toEqual({ data: out.subarray(0, 500), truncated: true });
  expect(log.head("stderr", 500)).toEqual({ data: err.subarray(0, 500), truncated: true });
});

test("a head that is all there is not truncated; one byte more is", () => {
  const log = new OutputLog(1000, 100);
  log.append("stdout", Buffer.alloc(100, 97));
  expect(log.head("stdout", 100)).toEqual({ data: Buffer.alloc(100, 97), truncated: false });
  expect(log.head("stderr", 100)).toEqual({ data: Buffer.alloc(0), truncated: false });
  log.append("stdout", Buffer.from("b"));
  expect(log.head("stdout", 100)).toEqual({ data: Buffer.alloc(100, 97), truncated: true });
});

test("a forgotten log has no bytes, and says that they are gone", () => {
  const log = new OutputLog(1000, 100);
  log.append("stdout", Buffer.from("text"));
  log.end();
  log.forget();
  expect([log.bytes, log.first, log.total]).toEqual([0, 4, 4]);
  expect(log.read(0, 100)).toEqual([]);
  expect(log.head("stdout", 100)).toEqual({ data: Buffer.alloc(0), truncated: true });
});

test("change resolves for news, for the end and for an abort, and not before", async () => {
  const log = new OutputLog();
  const never = new AbortController().signal;
  const seen: string[] = [];
  const wait = async (name: string, cursor: number, signal: AbortSignal = never) => {
    await log.change(cursor, signal);
    seen.push(name);
  };
  const abort = new AbortController();
  const all = [wait("news", 0), wait("abort", 100, abort.signal)];
  await Promise.resolve();
  expect(seen).toEqual([]);
  abort.abort();
  await all[1];
  expect(seen).toEqual(["abort"]);
  log.append("stdout", Buffer.from("x"));
  await all[0];
  const end = wait("end", 1);
  log.end();
  await end;
  await wait("after", 1);
  expect(seen).toEqual(["abort", "news", "end", "after"]);
});

for (let seed = 1; seed <= 30; seed++) {
  test(`however bytes are cut, the same come back (seed ${seed})`, () => {
    const below = seeded(seed);
    const alphabet = ["a", "\n", "ä", "€", "😀", "\ufffd", "\0"].map((text) => Buffer.from(text));
    const source: Record<Stream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
    for (const stream of ["stdout", "stderr"] as const) {
      const parts = Array.from({ length: below(6000) }, () =>
        // Some bytes that are no text, and halves of characters, among the rest.
        below(20) === 0 ? Buffer.from([128 + below(128)]) : (alphabet[below(alphabet.length)] ?? Buffer.alloc(0)),
      );
      source[stream] = Buffer.concat(parts);
    }
    const headBytes = below(3000);
    // No log is smaller than two chunks of joined writes, so that a reader who looks after each write misses nothing.
    const log = new OutputLog(below(2) ? 1_048_576 : 4000 + below(4000), headBytes);
    const at: Record<Stream, number> = { stdout: 0, stderr: 0 };
    const live: Record<Stream, Buffer[]> = { stdout: [], stderr: [] };
    let cursor = 0;
    const follow = () => {
      for (const piece of log.read(cursor, 1_048_576)) {
        expect(piece.offset).toBe(cursor);
        live[piece.stream].push(bytesOf(piece));
        cursor += piece.bytes;
      }
    };
    while (at.stdout < source.stdout.length || at.stderr < source.stderr.length) {
      const stream: Stream = below(2) ? "stdout" : "stderr";
      const size = 1 + below(below(3) === 0 ? 900 : 5);
      log.append(stream, Buffer.from(source[stream].subarray(at[stream], at[stream] + size)));
      at[stream] += size;
      follow();
    }
    log.end();
    follow();
    expect(log.total).toBe(source.stdout.length + source.stderr.length);
    const late = readAll(log, log.first, () => 1 + below(500));
    for (const stream of ["stdout", "stderr"] as const) {
      const whole = source[stream];
      expect(Buffer.concat(live[stream]).equals(whole)).toBe(true);
      expect(whole.subarray(whole.length - late[stream].length).equals(late[stream])).toBe(true);
      const { data, truncated } = log.head(stream, headBytes);
      expect(whole.subarray(0, data.length).equals(data)).toBe(true);
      expect(data.length).toBeGreaterThan(Math.min(headBytes, whole.length) - 4);
      expect(truncated).toBe(data.length < whole.length);
    }
    expect(late.stdout.length + late.stderr.length).toBe(log.total - log.first);
  });
}
