/** The parts of a Markdown page that can be checked. Pure but for `allPages`. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dirname, "../..");

export interface Block {
  /** Where it begins, as `path:line`. */
  readonly at: string;
  readonly language: string;
  /** Words after the language. */
  readonly notes: readonly string[];
  readonly text: string;
  /** The line of text before it. */
  readonly before: string;
}

/** Some text of a page, and its line. */
interface Found {
  readonly at: string;
  readonly text: string;
}

export interface Page {
  /** Relative to the project. */
  readonly path: string;
  readonly blocks: readonly Block[];
  readonly anchors: ReadonlySet<string>;
  /** Targets of links. */
  readonly links: readonly Found[];
  /** Code within lines. */
  readonly spans: readonly Found[];
}

const FENCE = /^ {0,3}(`{3,})([^`]*)$/;

export function pageOf(path: string, markdown: string): Page {
  const blocks: Block[] = [];
  const anchors = new Set<string>();
  const links: Found[] = [];
  const spans: Found[] = [];
  const lines = markdown.split("\n");
  let before = "";
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? "";
    const at = `${path}:${index + 1}`;
    const fence = FENCE.exec(line);
    if (fence?.[1] !== undefined) {
      const end = lines.findIndex((one, from) => from > index && one.trim() === fence[1]);
      if (end === -1) throw new Error(`${at}: the block does not end`);
      const [language = "", ...notes] = (fence[2] ?? "").trim().split(/\s+/);
      blocks.push({ at, language, notes, text: `${lines.slice(index + 1, end).join("\n")}\n`, before });
      index = end;
      continue;
    }
    const bare = line.replaceAll(/`([^`]+)`/g, (_all, code: string) => {
      spans.push({ at, text: code });
      return "``";
    });
    for (const [, text] of bare.matchAll(/\]\(([^)\s]+)[^)]*\)/g)) if (text !== undefined) links.push({ at, text });
    const heading = /^#{1,6} +(.+?) *#*$/.exec(line)?.[1];
    if (heading !== undefined) anchors.add(freeAnchor(anchorOf(heading), anchors));
    if (line.trim() !== "") before = line;
  }
  return { path, blocks, anchors, links, spans };
}

/** As GitHub makes them. */
function anchorOf(heading: string): string {
  const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
  return text.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(/\s/g, "-");
}

function freeAnchor(anchor: string, taken: ReadonlySet<string>): string {
  for (let count = 0; ; count += 1) {
    const one = count === 0 ? anchor : `${anchor}-${count}`;
    if (!taken.has(one)) return one;
  }
}

/** Every page of the project. */
export function allPages(): Page[] {
  const tops = readdirSync(root).filter((name) => name.endsWith(".md"));
  const below = ["docs", "sdk", "worker", "durable", "backend-pool", "test"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".md") && !/(^|\/)(node_modules|dist|\.[^/]*)\//.test(path))
      .map((path) => `${folder}/${path}`),
  );
  return [...tops, ...below].toSorted().map((path) => pageOf(path, readFileSync(join(root, path), "utf8")));
}
