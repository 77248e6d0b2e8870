/** What the documentation is checked by finds what is wrong. */
import { expect, test } from "vitest";
import { faultOfCall } from "./api-calls.ts";
import { faultOfLine, faultOfMention } from "./command-lines.ts";
import { pageOf } from "../support/markdown.ts";
import { bareCommand, scriptOf } from "./shell.ts";

const commandsOf = (text: string) => scriptOf(text).commands.map(bareCommand);

test("a script falls apart into its commands, without quotes, comments and documents", () => {
  const script = `printf %s "$KEY" | rouse secret set a --provider anthropic # rouse secret ls\ncat > f <<'END'\nrouse nothing\nEND\nid=$(rouse create) && npx rouse exec "$id" -- 'a b' \\\n  c; A=1 rouse ls`;
  expect(commandsOf(script)).toEqual([
    ["printf", "%s", "$KEY"],
    ["rouse", "secret", "set", "a", "--provider", "anthropic"],
    ["cat"],
    ["rouse", "create"],
    [],
    ["rouse", "exec", "$id", "--", "a b", "c"],
    ["rouse", "ls"],
  ]);
  expect(scriptOf(script).comments).toEqual(["rouse secret ls"]);
  expect(scriptOf("rouse keys rm <id>\ncurl '<id>' < file").placeholders).toEqual(["<id>"]);
});

test("command lines that there are not are told from those that there are", () => {
  expect(faultOfLine(["rouse", "keys", "create", "--name", "ci", "--ttl", "60"])).toBeNull();
  expect(faultOfLine(["rouse", "crate"])).toContain("no verb");
  expect(faultOfLine(["rouse", "create", "--nmae", "x"])).toContain("unknown option --nmae");
  expect(faultOfLine(["rouse", "keys", "drop"])).toContain("no verb");
  expect(faultOfLine(["rouse", "keys", "ls", "--ttl", "60"])).toContain("no option --ttl");
  expect(faultOfLine(["rouse", "keys", "rm"])).toContain("needs");
  expect(faultOfMention("rouse create --lease")).toBeNull();
  expect(faultOfMention("rouse help")).toBeNull();
  expect(faultOfMention("rouse creat --lease")).toContain("no verb");
  expect(faultOfMention("rouse keys ls --ttl")).toContain("--ttl");
});

test("calls that there are not are told from those that there are", () => {
  expect(faultOfCall(["call", "$API/v1/sandboxes/bot"])).toBeNull();
  expect(faultOfCall(["call", "-X", "POST", "$API/v1/sandboxes", "-d", '{"name":"bot"}'])).toBeNull();
  expect(faultOfCall(["call", "-X", "PATCH", "$API/v1/sandboxes/bot"])).toContain("no such operation");
  expect(faultOfCall(["call", "$API/v1/sandbox"])).toContain("no such operation");
  expect(faultOfCall(["call", "-X", "POST", "$API/v1/sandboxes", "-d", "{name}"])).toContain("not JSON");
});

test("a page has its blocks, headings, links and code", () => {
  const page = pageOf(
    "a.md",
    "# A `b`, c\n\n<!-- why -->\n```ts no-check\n# no heading\n```\n# A b c\n[x](b.md#c) `[y](z)`\n",
  );
  expect(page.blocks).toEqual([
    { at: "a.md:4", language: "ts", notes: ["no-check"], text: "# no heading\n", before: "<!-- why -->" },
  ]);
  expect([...page.anchors]).toEqual(["a-b-c", "a-b-c-1"]);
  expect(page.links).toEqual([{ at: "a.md:8", text: "b.md#c" }]);
  expect(page.spans.map(({ text }) => text)).toEqual(["b", "[y](z)"]);
});
