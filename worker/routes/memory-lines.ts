/** A whole memory as lines of JSON: out, a page at a time, and in, a batch at a time. */
import type { Addition, MemoryApi, Writer } from "../../durable/memory/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { memoryLimits, MemoryLine, type ImportedMemory } from "../../sdk/contract/memory.ts";
import { thrown } from "../errors.ts";

/** Longest line of an import, characters. */
const LINE_MAX = 1_048_576;
/** What a batch of an import may hold, characters. */
const BATCH_MAX = 4 * 1_048_576;

/** The oldest first. What is added meanwhile is there as well; what is forgotten meanwhile may not be. */
export function exported(memory: MemoryApi): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let cursor: string | null = null;
  return new ReadableStream({
    async pull(controller) {
      const ask = { filter: {}, order: "oldest", limit: memoryLimits.listMax, cursor, embeddings: true } as const;
      const page = await memory.list(ask);
      const lines = page?.data.map((entry) => `${JSON.stringify(entry)}\n`).join("") ?? "";
      if (lines !== "") controller.enqueue(encoder.encode(lines));
      cursor = page?.nextCursor ?? null;
      if (cursor === null) controller.close();
    },
  });
}

/**
 * Each line once, however often it is sent: so one that broke off is sent again.
 * @throws RouseFailure what is wrong with a line, and its number; those of earlier batches are there then
 */
export async function imported(request: Request, memory: MemoryApi, writer: Writer): Promise<ImportedMemory> {
  const done = { lines: 0, added: 0, known: 0 };
  let batch: Addition[] = [];
  let size = 0;
  const flush = async () => {
    if (batch.length === 0) return;
    const result = await memory.add(writer, batch);
    if (!result.ok) throw thrown({ ...result.failure, details: { ...result.failure.details, imported: { ...done } } });
    const known = result.entries.filter(({ replayed }) => replayed).length;
    done.lines += batch.length;
    done.known += known;
    done.added += batch.length - known;
    batch = [];
    size = 0;
  };
  let number = 0;
  for await (const text of linesOf(request)) {
    number += 1;
    if (text.trim() === "") continue;
    batch.push(additionOf(text, number));
    size += text.length;
    if (batch.length >= memoryLimits.batchMax || size >= BATCH_MAX) await flush();
  }
  await flush();
  return done;
}

function additionOf(text: string, number: number): Addition {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = null;
  }
  const { id, author, createdAt, ...line } = parseOrFail(MemoryLine, json, `line ${number}`);
  const { text: content, metadata, tags, embedding } = line;
  const input = { text: content, metadata, tags, embedding };
  return { input, key: `from:${id}`, fingerprint: "import", origin: line.origin ?? { id, author, createdAt } };
}

async function* linesOf(request: Request): AsyncGenerator<string> {
  if (!request.body) return;
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LINE_MAX)
      throw new RouseFailure("payload_too_large", `A line has at most ${LINE_MAX} characters.`, {
        details: { maxCharacters: LINE_MAX },
      });
  }
  yield rest + decoder.decode();
}
