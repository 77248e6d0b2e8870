import { expect, test } from "vitest";
import { toItsLastLine } from "../../worker/routes/watch-stream.ts";

/** What a reader gets of chunks, and whether it fails. @param broken the connection breaks behind them */
async function read(chunks: readonly string[], broken: boolean, from = 7): Promise<string | Error> {
  const left = chunks.map((chunk) => new TextEncoder().encode(chunk));
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = left.shift();
      if (next) controller.enqueue(next);
      else if (broken) controller.error(new Error("cut"));
      else controller.close();
    },
  });
  let text = "";
  const decoder = new TextDecoder();
  try {
    for await (const chunk of toItsLastLine(body, from, 0)) text += decoder.decode(chunk, { stream: true });
    return text;
  } catch (fault) {
    return fault as Error;
  }
}

const events = (cursor: number, path = "/a") =>
  `${JSON.stringify({ k: "events", events: [{ type: "create", path, isDir: false }], cursor })}\n`;
const goOn = (cursor: number) => `{"k":"continue","cursor":${cursor}}\n`;

test.each([true, false])("lines that break off say where to go on (broken: %s)", async (broken) => {
  expect(await read([], broken)).toBe(goOn(7));
  expect(await read([events(40)], broken)).toBe(events(40) + goOn(40));
  expect(await read([events(40) + events(90)], broken)).toBe(events(40) + events(90) + goOn(90));
  expect(await read([...events(40, "/ü\n")], broken)).toBe(events(40, "/ü\n") + goOn(40));
});

test("of a line that is not whole, all comes again", async () => {
  expect(await read([events(40), events(90).slice(0, -1)], true)).toBe(events(40) + goOn(40));
  expect(await read([events(40) + events(90).slice(0, 5), events(90).slice(5, 20)], true)).toBe(events(40) + goOn(40));
});

test("those that say themselves that they are over are as they were", async () => {
  for (const last of [
    '{"k":"continue","cursor":40}\n',
    '{"k":"paused","cursor":40}\n',
    '{"k":"end","reason":"stopped","cursor":40}\n',
    '{"k":"failure","code":"watch_failed","message":"x","cursor":40}\n',
  ])
    expect(await read([events(40), last], false)).toBe(events(40) + last);
});

test("a name can't look like the end, or like a cursor", async () => {
  const odd = events(40, '/"cursor":5}\n{"k":"end"}');
  expect(await read([odd], true)).toBe(odd + goOn(40));
});

test("long lines pass; one without an end does not fill the memory", async () => {
  const long = events(40, `/${"x".repeat(300_000)}`);
  const chunks = long.match(/.{1,65536}\n?/gs) ?? [];
  expect(await read(chunks, true)).toBe(long + goOn(40));
  const endless = Array.from({ length: 300 }, () => "x".repeat(65_536));
  expect(await read(endless, false)).toMatchObject({ message: "a line of a watch has no end" });
});
