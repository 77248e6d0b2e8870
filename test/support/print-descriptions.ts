/**
 * Prints what the contract's comments say of schemas and their fields, for the OpenAPI document:
 * `node test/support/print-descriptions.ts > worker/api/descriptions.ts`. The comments stay the one place where it is said.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Block {
  readonly comment: string | undefined;
  readonly fields: Map<string, string>;
  /** Blocks whose fields are its own too. */
  readonly spread: string[];
  id: string | undefined;
}

/** The constants of a file, with what stands above them and above their fields. */
function blocksOf(source: string): Map<string, Block> {
  const blocks = new Map<string, Block>();
  let block: Block | null = null;
  let comment: string[] = [];
  let open = false;
  /** Fields further in belong to objects inside of it. */
  let indent = -1;
  for (const line of source.split("\n")) {
    const begins = /^\s*\/\*\*(.*?)(\*\/)?$/.exec(line);
    if (begins || open) {
      if (begins) comment = [];
      comment.push((begins?.[1] ?? line.replace(/^\s*\*(?!\/) ?/, "")).replace(/\*\/\s*$/, "").trim());
      open = begins ? begins[2] === undefined : !line.includes("*/");
      continue;
    }
    const said = comment.filter((one) => one !== "").join(" ") || undefined;
    comment = [];
    const constant = /^(?:export )?const (\w+)\b/.exec(line);
    if (constant) {
      block = { comment: said, fields: new Map(), spread: [], id: undefined };
      blocks.set(constant[1] ?? "", block);
      indent = -1;
    } else if (/^\S/.test(line) && !/^[)}\]]/.test(line)) block = null;
    if (!block) continue;
    block.id ??= /\.meta\(\{ id: "(\w+)" \}\)/.exec(line)?.[1];
    const spread = /^\s+\.\.\.(\w+)(?:\.shape)?,/.exec(line)?.[1] ?? /= (\w+)\.extend\(/.exec(line)?.[1];
    if (spread !== undefined) block.spread.push(spread);
    const field = /^( +)(\w+):/.exec(line);
    if (!field) continue;
    if (indent === -1) indent = field[1]?.length ?? 0;
    if (field[1]?.length === indent && said !== undefined) block.fields.set(field[2] ?? "", said);
  }
  return blocks;
}

const folder = join(import.meta.dirname, "../../sdk/contract");
const all = new Map<string, Block>();
for (const name of readdirSync(folder).toSorted())
  if (name.endsWith(".ts"))
    for (const [key, block] of blocksOf(readFileSync(join(folder, name), "utf8"))) all.set(key, block);

function fieldsOf({ fields, spread }: Block): Map<string, string> {
  const others = spread.flatMap((name) => {
    const block = all.get(name);
    return block ? [...fieldsOf(block)] : [];
  });
  return new Map([...others, ...fields]);
}

const said: Record<string, string> = {};
for (const block of all.values()) {
  if (block.id === undefined) continue;
  if (block.comment !== undefined) said[block.id] = block.comment;
  for (const [field, text] of fieldsOf(block)) said[`${block.id}.${field}`] = text;
}
const lines = Object.entries(said).map(([key, text]) => `  ${JSON.stringify(key)}: ${JSON.stringify(text)},`);
console.log(
  [
    "// long file: what the contract's comments say, as test/support/print-descriptions.ts prints it",
    "export const descriptions: Readonly<Record<string, string>> = {",
    ...lines,
    "};",
  ].join("\n"),
);
