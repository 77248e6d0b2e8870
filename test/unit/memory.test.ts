/** Rules of memory without any I/O: words, queries, snippets, orders, ids and sizes. */
import { describe, expect, it } from "vitest";
import { Best, fuse } from "../../durable/memory/rank.ts";
import { nextId, sizeOf, whereOf } from "../../durable/memory/record.ts";
import { bytesOf, cosine, normalised, vectorOf } from "../../durable/memory/vector.ts";
import { indexed, queryOf, snippetOf } from "../../durable/memory/words.ts";

describe("words", () => {
  it("of scripts without spaces are their characters", () => {
    expect(indexed("a東京b").replace(/ +/g, " ")).toBe("a 東 京 b");
    expect(indexed("ﬁne ＡＢＣ")).toBe("fine ABC");
    expect(indexed("plain text")).toBe("plain text");
  });

  it.each([
    ["two words", '("two" OR "words")'],
    ["東京タワー today", '("東 京 タ ワ ー" OR "today")'],
    ['"next to" -not', '("next to") NOT ("not")'],
    ['say "hi', '("say" OR "hi")'],
    ['a"b OR NEAR(c)*', '("a" OR "b" OR "OR" OR "NEAR" OR "c")'],
    ["same same", '("same")'],
    ["-only", null],
    ["--- !?", null],
    ["", null],
  ])("of a query, %s, are %s", (text, match) => {
    expect(queryOf(text).match).toBe(match);
  });

  it("of a query are bounded, and each is quoted", () => {
    const { match } = queryOf(Array.from({ length: 500 }, (_, n) => `w${n} -n${n}`).join(" "));
    expect(match?.match(/"/g)?.length).toBeLessThanOrEqual(128);
    // Whatever is typed: nothing but words, quotes that pair, and our own operators.
    let seed = 1;
    for (let round = 0; round < 500; round++) {
      let text = "";
      for (let n = 0; n < 20; n++) {
        seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
        text += ['"', "'", "-", "*", "(", ")", " ", ":", "^", "東", "é", "a", "\u0301", "\ud800", "AND"][seed % 15];
      }
      // "" stands for none.
      expect(queryOf(text).match ?? "").toMatch(
        /^$|^\("[^"*()^:']*"( OR "[^"*()^:']*")*\)( NOT \("[^"*()^:']*"( OR "[^"*()^:']*")*\))?$/,
      );
    }
  });

  it("are shown where they are", () => {
    expect(snippetOf("short", ["x"])).toBe("short");
    const text = `${"x ".repeat(400)}deployments of Ana ${"y ".repeat(400)}`;
    const snippet = snippetOf(text, queryOf("ana deployed").terms);
    expect(snippet).toContain("deployments of Ana");
    expect(snippet).toMatch(/^….*…$/);
    expect(snippetOf(text, [])).toMatch(/^x x/);
    expect(snippetOf("😀".repeat(300), ["x"]).isWellFormed()).toBe(true);
  });
});

describe("embeddings", () => {
  it("have length 1, and what has is kept as it is", () => {
    const vector = normalised([3, 0, 4]);
    expect([...vector].map((one) => one.toFixed(4))).toEqual(["0.6000", "0.0000", "0.8000"]);
    expect([...normalised([...vector])]).toEqual([...vector]);
    expect([...vectorOf(bytesOf(vector))]).toEqual([...vector]);
    expect(cosine(vector, normalised([-3, 0, -4]))).toBeCloseTo(-1, 6);
  });
});

describe("orders", () => {
  it("keep the best, of equal ones the newer", () => {
    const best = new Best(3);
    for (const [seq, score] of [
      [1, 5],
      [2, 1],
      [3, 5],
      [4, 7],
      [5, 0],
      [6, 5],
    ] as const)
      best.add({ seq, score });
    expect(best.all.map(({ seq }) => seq)).toEqual([4, 6, 3]);
  });

  it("are made one: what is in both comes before what is in one", () => {
    const order = (...seqs: number[]) => seqs.map((seq) => ({ seq, score: 0 }));
    expect(fuse(order(1, 2, 3), order(9, 3, 8), 3).map(({ seq }) => seq)).toEqual([3, 9, 1]);
    expect(fuse([], order(4, 5), 5).map(({ seq }) => seq)).toEqual([4, 5]);
  });
});

describe("ids", () => {
  it("only grow, within a millisecond and when the clock is set back", () => {
    let id = "";
    const all: string[] = [];
    for (const now of [1000, 1000, 1000, 500, 2000, 1999]) all.push((id = nextId(id, now)));
    expect(all.toSorted()).toEqual(all);
    expect(new Set(all).size).toBe(6);
    expect(id).toMatch(/^mem-[0-9a-z]{20}$/);
    const full = `mem-${(5000).toString(36).padStart(9, "0")}zzz${"0".repeat(8)}`;
    expect(nextId(full, 5000) > full).toBe(true);
  });
});

describe("an entry", () => {
  it("counts its UTF-8, its embedding and a bit more", () => {
    expect(sizeOf({ text: "é", metadata: {}, tags: [] }, 0)).toBe(256 + 2 + 2 + 2);
    expect(sizeOf({ text: "e", metadata: { a: 1 }, tags: ["t"] }, 8)).toBe(256 + 1 + 7 + 5 + 32);
  });

  it("is looked for with values bound, never within the query", () => {
    const { sql, bindings } = whereOf({
      tags: ["a'", "a'"],
      author: '"',
      metadata: { "k'": "v'", n: 1, t: true, z: null },
    });
    expect(sql).not.toMatch(/a'|v'|k'/);
    expect(bindings).toEqual(["a'", '"', '"', "k'", "v'", "n", 1, "t", "true", "z", "null"]);
  });
});
