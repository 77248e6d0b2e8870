/** Looks for words that must not be there, in every file of some folders. */
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

/** A word as it is, and as it would look encoded. */
export function formsOf(word: string): readonly Buffer[] {
  const plain = Buffer.from(word);
  // Base64 of what has the word at any of its three places in a group.
  const inBase64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), plain]).toString("base64");
    const from = [0, 2, 3][before] ?? 0;
    return Buffer.from(text.slice(from, text.length - 4));
  });
  return [plain, Buffer.from(plain.toString("hex")), Buffer.from(plain.toReversed()), ...inBase64];
}

export interface Search {
  /** Files that were read. */
  readonly files: number;
  readonly bytes: number;
  /** File and the name of the word. */
  readonly found: readonly { readonly file: string; readonly word: string }[];
}

const CHUNK = 4_194_304;

/** @param words by name @param skips files that are not looked at for a word */
export async function search(
  folders: readonly string[],
  words: Readonly<Record<string, string>>,
  skips: (file: string, word: string) => boolean = () => false,
): Promise<Search> {
  const forms = Object.entries(words).map(([name, word]) => ({ name, forms: formsOf(word) }));
  const longest = Math.max(...forms.flatMap((one) => one.forms.map(({ length }) => length)));
  const found: { file: string; word: string }[] = [];
  let files = 0;
  let bytes = 0;
  for (const file of await filesBelow(folders)) {
    const wanted = forms.filter(({ name }) => !skips(file, name));
    const hits = new Set<string>();
    let rest = Buffer.alloc(0);
    try {
      for await (const chunk of createReadStream(file, { highWaterMark: CHUNK }) as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        const text = Buffer.concat([rest, chunk]);
        for (const one of wanted) if (one.forms.some((form) => text.includes(form))) hits.add(one.name);
        rest = text.subarray(Math.max(0, text.length - longest));
      }
      files++;
    } catch {
      // Removed meanwhile, or a socket.
    }
    for (const word of hits) found.push({ file, word });
  }
  return { files, bytes, found };
}

async function filesBelow(folders: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(
    folders.map(async (folder) => {
      const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
      return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    }),
  );
  return lists.flat();
}
