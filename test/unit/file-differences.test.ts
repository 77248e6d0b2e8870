/** What the lists of two disks say of their files. */
import { expect, it } from "vitest";
import { entriesOf } from "../../backend-pool/machine/file-differences.ts";
import { DIFF_ENTRIES_MAX } from "../../sdk/contract/snapshot.ts";

const facts = (kind: string, size: number) => `${kind} 644 0 0 ${size} 1.5 1.5 `;
const file = (path: string, size = 1) => `${path}//${facts("f", size)}\0`;
const list = (...records: (string | Buffer)[]) => Buffer.concat(records.map((record) => Buffer.from(record)));

it("are added, removed or modified, with sizes of files alone, sorted by path", () => {
  const { data, truncated } = entriesOf(
    list(
      file("b/gone", 5),
      file("/b/new", 7),
      file("a-b", 1),
      file("/a-b", 2),
      "/a//d 755 0 0\0",
      `link//${facts("l", 4)}x//y\0`,
      `/link//${facts("l", 4)}x//z\0`,
      file("was file", 3),
      "/was file//d 755 0 0\0",
      `pipe//${facts("p", 0)}\0`,
    ),
  );
  expect(truncated).toBe(false);
  expect(data.map((one) => Object.values(one))).toEqual([
    ["/a", "added", "directory", null, null],
    ["/a-b", "modified", "file", 1, 2],
    ["/b/gone", "removed", "file", 5, null],
    ["/b/new", "added", "file", null, 7],
    ["/link", "modified", "symlink", null, null],
    ["/pipe", "removed", "other", null, null],
    ["/was file", "modified", "directory", 3, null],
  ]);
  expect(entriesOf(list())).toEqual({ data: [], truncated: false });
  expect(entriesOf(list(file("/b")), "/a folder").data.map(({ path }) => path)).toEqual(["/a folder/b"]);
});

it("with names of any bytes are told apart, and shown as text", () => {
  const name = (byte: number) => list("/", Buffer.from([byte]), `\n//${facts("f", 1)}\0`);
  expect(entriesOf(list(name(0xff), name(0xfe))).data.map(({ path }) => path)).toEqual(["/\ufffd\n", "/\ufffd\n"]);
});

it("that are too many, or cut off, are said to be", () => {
  const many = Array.from({ length: DIFF_ENTRIES_MAX + 1 }, (_, n) => `/${String(n).padStart(5, "0")}`);
  const added = entriesOf(list(...many.map((path) => file(path))));
  expect([added.data.length, added.data.at(-1)?.path, added.truncated]).toEqual([10_000, "/09999", true]);
  // Of pairs the last may lack its second half: it is none.
  const pairs = many.flatMap((path) => [file(path.slice(1)), file(path)]);
  const modified = entriesOf(list(...pairs));
  expect([modified.data.length, modified.truncated]).toEqual([10_000, true]);
  expect(new Set(modified.data.map(({ change }) => change))).toEqual(new Set(["modified"]));
  expect(entriesOf(list(file("a"), file("b"), "c//f 64"))).toMatchObject({ data: [{ path: "/a" }], truncated: true });
});

it("that a guest made up are at most what an answer may hold", () => {
  const { data } = entriesOf(list("\0//\0///\0x\0/\0a//f x x x 9e9 \0b//f 1 1 1 99999999999999999 \0"));
  expect(data.map(({ path, sizeBefore }) => [path, sizeBefore])).toEqual([
    ["/a", null],
    ["/b", null],
  ]);
});
