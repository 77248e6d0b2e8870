/** Looking for entries: by words, by meaning, by both. */
import type { MemoryHit, MemoryHits, SearchMemory } from "../../sdk/contract/memory.ts";
import type { Result } from "../result.ts";
import { Best, fuse, type Ranked } from "./rank.ts";
import { otherDimension, shown, whereOf } from "./record.ts";
import type { MemoryStore } from "./store.ts";
import { cosine, normalised } from "./vector.ts";
import { queryOf, snippetOf } from "./words.ts";

const LIMIT = 10;
/** How far down both orders are read before they are made one: so many times the limit, at least so many. */
const DEEPER = 4;
const DEEP = 50;

/** @param candidates the numbers of entries among which the nearest are; null: all are compared */
export function search(
  store: MemoryStore,
  { query, embedding, filter = {}, limit = LIMIT }: SearchMemory,
  candidates: readonly number[] | null,
): Result<{ hits: MemoryHits }> {
  const { dimension } = store.held;
  if (embedding && dimension !== null && embedding.length !== dimension)
    return otherDimension(embedding.length, dimension);
  const where = whereOf(filter);
  const deep = query !== undefined && embedding ? Math.max(DEEP, DEEPER * limit) : limit;
  const { match, terms } = queryOf(query ?? "");
  const words = match === null ? [] : store.matching(match, where, deep);
  const wanted = embedding && normalised(embedding);
  const near = new Best(deep);
  const compared = candidates === null ? store.vectors(where) : store.vectorsAt(candidates);
  if (wanted) for (const { seq, vector } of compared) near.add({ seq, score: cosine(wanted, vector) });
  const mode = query === undefined ? "vector" : wanted ? "hybrid" : "text";
  const best: readonly Ranked[] = mode === "hybrid" ? fuse(words, near.all, limit) : mode === "text" ? words : near.all;
  const data: MemoryHit[] = [];
  for (const { seq, score } of best) {
    const record = store.entryAt(seq);
    if (!record) continue;
    const own = wanted && record.dimension !== null ? store.vector(seq) : null;
    const similarity = wanted && own ? { similarity: cosine(wanted, own) } : {};
    data.push({ ...shown(record), score, ...similarity, snippet: snippetOf(record.text, terms) });
  }
  return { ok: true, hits: { data, mode } };
}
