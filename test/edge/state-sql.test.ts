/** The database of a sandbox: transactions, limits, and that nothing of ours can be harmed by its SQL. */
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { stateLimits } from "../../sdk/contract/state.ts";
import { heartbeat } from "./client.ts";
import { TestState } from "./homes.ts";

beforeEach(() => heartbeat());
afterEach(() => {
  vi.useRealTimers();
});

const many = (rows: number, bytes: number) =>
  `INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows}) SELECT zeroblob(${bytes}) FROM n`;

test("statements are one transaction, with rows and columns, from outside and inside", async () => {
  const home = await TestState.make();
  const { body } = await home.sql(
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, photo BLOB, ok INTEGER, n REAL)",
    {
      sql: "INSERT INTO people VALUES (?, ?, ?, ?, ?), (2, NULL, NULL, 0, 1.5)",
      params: [1, "Ada", { base64: "AP8=" }, true, null],
    },
    "SELECT *, id AS id FROM people ORDER BY id",
  );
  expect(body.results[1]).toMatchObject({ rows: [], truncated: false });
  expect(body.results[2]).toEqual({
    columns: ["id", "name", "photo", "ok", "n", "id"],
    rows: [
      [1, "Ada", { base64: "AP8=" }, 1, null, 1],
      [2, null, null, 0, 1.5, 2],
    ],
    rowsWritten: 0,
    truncated: false,
  });
  const asked = { statements: [{ sql: "SELECT name FROM people WHERE id = ?", params: [1] }] };
  expect((await home.inside("POST", "/state/sql", asked)).body.results[0].rows).toEqual([["Ada"]]);
  expect(await home.wakes()).toBe(0);
});

test("what fails undoes all before it, and says which and why", async () => {
  const home = await TestState.make();
  await home.sql("CREATE TABLE t (a UNIQUE)", "INSERT INTO t VALUES (1)");
  const failed = await home.sql("INSERT INTO t VALUES (2)", "CREATE TABLE u (b)", "INSERT INTO t VALUES (1)");
  expect(failed.status).toBe(400);
  expect(failed.body.error).toMatchObject({ code: "sql_failed", details: { statement: 2 } });
  expect(failed.body.error.details.sqlite).toContain("UNIQUE constraint failed: t.a");
  await evictDurableObject(home.database);
  const { body } = await home.sql("SELECT a FROM t", "SELECT count(*) FROM sqlite_master WHERE name = 'u'");
  expect([body.results[0].rows, body.results[1].rows]).toEqual([[[1]], [[0]]]);
});

test("what a transaction puts off has to hold at its end", async () => {
  const home = await TestState.make();
  await home.sql(
    "CREATE TABLE p (id INTEGER PRIMARY KEY)",
    "CREATE TABLE c (p INTEGER REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)",
  );
  const broken = await home.sql("INSERT INTO c VALUES (1)");
  expect(broken.body.error).toMatchObject({ code: "sql_failed", details: { table: "c" } });
  expect((await home.sql("INSERT INTO c VALUES (1)", "INSERT INTO p VALUES (1)")).status).toBe(200);
  expect((await home.sql("SELECT count(*) FROM c")).body.results[0].rows).toEqual([[1]]);
});

test("two who add at once both count", async () => {
  const home = await TestState.make();
  await home.sql("CREATE TABLE n (v)", "INSERT INTO n VALUES (0)");
  await Promise.all(Array.from({ length: 10 }, () => home.sql("UPDATE n SET v = v + 1")));
  expect((await home.sql("SELECT v FROM n")).body.results[0].rows).toEqual([[10]]);
});

test("SQL reaches neither other files nor what is ours", async () => {
  const home = await TestState.make();
  await home.inside("POST", "/state/sql", { statements: [{ sql: "CREATE TABLE t (a)" }] }, 5);
  for (const sql of [
    "ATTACH 'x' AS y",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "PRAGMA writable_schema = ON",
    "PRAGMA max_page_count = 1",
    "VACUUM INTO 'x'",
    "SELECT * FROM _cf_KV",
    "DROP TABLE _cf_KV",
    "DELETE FROM sqlite_master",
    "SELECT load_extension('x')",
    "SELECT 1; BEGIN",
    "-- nothing",
    "nonsense",
  ])
    expect([sql, (await home.sql(sql)).body.error?.code]).toEqual([sql, "sql_failed"]);
  const wrong = await home.sql({ sql: "SELECT ?", params: [] });
  expect(wrong.body.error.code).toBe("sql_failed");
  const stale = await home.inside("POST", "/state/sql", { statements: [{ sql: "SELECT 1" }] }, 4);
  expect(stale.body.error.code).toBe("stale_generation");
});

test("an answer that is too long is cut, and what was written is written all the same", async () => {
  const home = await TestState.make();
  await home.sql("CREATE TABLE t (a)");
  const { body } = await home.sql(many(30, 100_000), "SELECT a FROM t", "SELECT 1");
  expect(body.results[1].truncated).toBe(true);
  expect(body.results[1].rows.length).toBeLessThan(10);
  const returning = await home.sql(`${many(30, 100_000)} RETURNING a`, "SELECT count(*) FROM t");
  expect(returning.body.results[0].truncated).toBe(true);
  expect((await home.sql("SELECT count(*) FROM t")).body.results[0].rows).toEqual([[60]]);
  const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
  expect((await home.sql(endless)).body.results[0].truncated).toBe(true);
  expect((await home.sql("INSERT INTO t VALUES (1)", endless)).status).toBe(200);
  await evictDurableObject(home.database);
  expect((await home.sql("SELECT count(*) FROM t")).body.results[0].rows).toEqual([[61]]);
});

test("a full database undoes what was too much, and lets itself be emptied", async () => {
  const home = await TestState.make();
  await home.sql("CREATE TABLE t (a)", many(250, 1_000_000));
  const held = (await home.ask("GET", "/state")).body.sql.bytes;
  expect(held).toBeGreaterThan(250_000_000);
  const over = await home.sql("INSERT INTO t VALUES (1)", many(30, 1_000_000));
  expect(over.status).toBe(507);
  expect(over.body.error).toMatchObject({
    code: "storage_full",
    details: { heldBytes: held, maxBytes: stateLimits.sqlBytesMax },
  });
  expect((await home.sql("SELECT count(*) FROM t")).body.results[0].rows).toEqual([[250]]);
  expect((await home.ask("GET", "/state")).body.sql.bytes).toBe(held);
  expect((await home.sql("DELETE FROM t")).status).toBe(200);
  expect((await home.ask("GET", "/state")).body.sql.bytes).toBeLessThan(1_000_000);
});

test("what can't be is refused, all of it named", async () => {
  const home = await TestState.make();
  const { body } = await home.ask("POST", "/state/sql", {
    statements: [{ sql: "" }, { sql: "SELECT ?", params: [{ a: 1 }] }, { sql: `SELECT '${"x".repeat(100_000)}'` }],
  });
  expect(body.error.details.issues.map(({ path }: { path: string }) => path)).toEqual(
    expect.arrayContaining(["statements.0.sql", "statements.2.sql"]),
  );
  expect(body.error.details.issues.length).toBeGreaterThan(2);
  expect((await home.ask("POST", "/state/sql", { statements: [] })).status).toBe(400);
});
