/** How the command line shows things: widths, colours, bars; what a shell completes; and that its examples are true. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { Args, commonOptions } from "../../sdk/cli/args.ts";
import { commands } from "../../sdk/cli/commands/index.ts";
import { completionScript, wordsFor } from "../../sdk/cli/completion.ts";
import { examples } from "../../sdk/cli/examples.ts";
import { table } from "../../sdk/cli/output.ts";
import { barOf } from "../../sdk/cli/progress-bar.ts";
import { lookOf, unstyled } from "../../sdk/cli/style.ts";
import { added } from "../../sdk/cli/tail.ts";
import { fitted, plain, widthOf } from "../../sdk/cli/text-width.ts";
import { topLines, topRow, topSummary } from "../../sdk/cli/top-table.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";

let bench: CliBench;
beforeAll(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) =>
    reply.json(sandboxInfo({ services: [{ name: "web", command: "serve" }] as never })),
  );
});
afterAll(() => bench[Symbol.asyncDispose]());

describe("a table", () => {
  const rows = [
    ["demo", "running", "http://demo.example.com/a/rather/long/path"],
    ["名前のある箱", "paused", "short"],
  ];

  it("fits the terminal, by what is widest, with wide letters counted", () => {
    const lines = table(["NAME", "STATE", "URL"], rows, { width: 40, colours: false }).split("\n");
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(40);
    expect(lines[1]).toMatch(/^demo {10}running {2}http:.*\u2026$/);
    expect(lines[2]).toMatch(/^名前のある箱 {2}paused {3}short$/);
    expect(table(["NAME", "STATE", "URL"], rows, unstyled)).toContain("/a/rather/long/path");
  });

  it("has colours where somebody sees them, and none that others put there", () => {
    const look = lookOf({ isTTY: true, columns: 80 }, {});
    expect(table(["NAME", "STATE"], [["demo", "running"]], look)).toContain("\u001b[32mrunning\u001b[0m");
    for (const env of [{ NO_COLOR: "1" }, { TERM: "dumb" }])
      expect(lookOf({ isTTY: true, columns: 80 }, env).colours).toBe(false);
    expect(lookOf({}, {})).toEqual(unstyled);
    expect(lookOf({}, { FORCE_COLOR: "1" }).colours).toBe(true);
    expect(table(["NAME"], [["a\u001b[31m\nb\tc\u202e"]], unstyled)).toBe("NAME\na\ufffd[31m b c\ufffd");
  });

  it("cuts between letters", () => {
    expect([widthOf("e\u0301"), widthOf("👩‍🚀"), widthOf("한글"), widthOf("abc")]).toEqual([1, 2, 4, 3]);
    expect(fitted("한글한글", 5)).toBe("한글\u2026");
    expect(fitted("abc", 3)).toBe("abc");
    expect(plain("plain é")).toBe("plain é");
  });
});

test("a bar says how far, how fast and how long", () => {
  const MIB = 1_048_576;
  expect(barOf({ done: 0, total: 4 * MIB, ms: 0 })).toBe(`[${" ".repeat(24)}]   0%  0 B of 4.0 MiB`);
  expect(barOf({ done: MIB, total: 4 * MIB, ms: 2000 })).toBe(
    `[${"=".repeat(6)}${" ".repeat(18)}]  25%  1.0 MiB of 4.0 MiB  512.0 KiB/s  6 s left`,
  );
  expect(barOf({ done: 4 * MIB, total: 4 * MIB, ms: 2000 })).toMatch(/100%.*MiB\/s$/);
  expect(barOf({ done: MIB, total: 0, ms: 2000 })).toBe("1.0 MiB  512.0 KiB/s");
});

test("what a service wrote since is told once, also when the beginning is no longer kept", () => {
  const chunk = (text: string) => ({ stream: "stdout" as const, text });
  expect(added([], [chunk("one\n")])).toEqual([chunk("one\n")]);
  expect(added([chunk("one\n")], [chunk("one\n"), chunk("two\n")])).toEqual([chunk("two\n")]);
  expect(added([chunk("one\ntwo\n")], [chunk("two\nthree\n")])).toEqual([chunk("two\nthree\n")]);
  expect(added([chunk("two\n")], [chunk("one\ntwo\nthr"), chunk("ee\n")])).toEqual([chunk("thr"), chunk("ee\n")]);
});

describe("completion", () => {
  const names = () => Promise.resolve(["demo", "demo-2", "other"]);
  const complete = (...words: string[]) => wordsFor(commands, words, names);

  it("knows verbs, options, parts and names", async () => {
    expect(await complete("pa")).toEqual(["pause"]);
    expect(await complete("sandbox", "pau")).toEqual(["pause"]);
    expect(await complete("pause", "de")).toEqual(["demo", "demo-2"]);
    expect(await complete("ls", "--st")).toEqual(["--state"]);
    expect(await complete("keys", "cr")).toEqual(["create"]);
    expect(await complete("link", "ls", "oth")).toEqual(["other"]);
    expect(await complete("completion", "z")).toEqual(["zsh"]);
    expect(await complete("help", "wak")).toEqual(["wake"]);
  });

  it("asks for no names where none fits", async () => {
    const never = () => Promise.reject(new Error("asked"));
    for (const words of [
      ["ex"],
      ["create", "--name", "d"],
      ["pause", "demo", "x"],
      ["exec", "demo", "--", "l"],
      ["keys", "rm", "k"],
    ])
      await expect(wordsFor(commands, words, never)).resolves.toBeDefined();
  });

  it("works in bash, with names of the API, and quietly without it", async () => {
    bench.server.on("GET /v1/sandboxes", (_request, reply) => reply.json({ data: [sandboxInfo()], nextCursor: null }));
    const at = async (line: string, env: Record<string, string> = {}) => {
      const program = `rouse() { ${bench
        .argv([])
        .map((word) => `"${word}"`)
        .join(" ")} "$@"; }
${completionScript("bash")}
COMP_LINE="$1"; COMP_POINT=\${#1}; _rouse; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout, stderr } = await promisify(execFile)("bash", ["-c", program, "bash", line], {
        env: { ...bench.env, ...env },
      });
      return [stdout.trim(), stderr];
    };
    expect(await at("rouse wake d")).toEqual(["demo", ""]);
    expect(await at("rouse wake d", { ROUSE_API_URL: "http://127.0.0.1:9" })).toEqual(["", ""]);
  });

  it.each(["zsh", "fish"] as const)("has a script for %s that asks the same", (shell) => {
    expect(completionScript(shell)).toContain("rouse completion words --");
  });
});

test("each verb has examples, which the grammar takes", () => {
  expect(Object.keys(examples).toSorted()).toEqual(commands.map(({ name }) => name).toSorted());
  for (const example of Object.values(examples).flat()) {
    const words = [...example.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? "");
    const [program, verb = "", ...rest] = words;
    const command = commands.find(({ name }) => name === verb);
    const args = Args.parse(rest, command?.options ?? {});
    const part = command?.parts?.find(({ name }) => name === args.positionals[0]);
    const [least, most] = part?.words ?? command?.words ?? [0, 0];
    const count = args.positionals.length - (part ? 1 : 0);
    const own = { ...(part ?? command)?.options, ...commonOptions };
    expect([example, program, count >= least && count <= most]).toEqual([example, "rouse", true]);
    expect([example, args.given().filter((name) => !Object.hasOwn(own, name))]).toEqual([example, []]);
  }
});

test("top has CPU of what was booked between two looks, the busiest first", () => {
  const infos = [
    sandboxInfo({ id: "a", name: "idle" }),
    sandboxInfo({ id: "b", name: "busy" }),
    sandboxInfo({ id: "c", name: "asleep", state: "paused" }),
  ];
  const booked = (a: bigint, b: bigint) =>
    new Map([
      ["a", { cpuNs: a, micros: 10 }],
      ["b", { cpuNs: b, micros: 2_000_000 }],
    ]);
  const lines = topLines(infos, booked(5n, 2_500_000_005n), booked(5n, 5n), 5000);
  expect(lines.map(({ name, cpuPercent }) => [name, cpuPercent])).toEqual([
    ["busy", 50],
    ["idle", 0],
    ["asleep", null],
  ]);
  expect(lines.map((line) => topRow(line, Date.now())[2])).toEqual(["50%", "0%", "-"]);
  expect(topSummary(lines)).toBe("2 running, 1 paused; $2.00001 this month");
  expect(topSummary(topLines(infos, null, null, 0))).toBe("2 running, 1 paused");
});

test("top looks once without a terminal, also with a key that does not see money", async () => {
  bench.server.on("GET /v1/sandboxes", (_request, reply) => reply.json({ data: [sandboxInfo()], nextCursor: null }));
  bench.server.on("GET /v1/usage", (_request, reply) => reply.error("permission_denied"));
  const run = await bench.run(["top"]);
  expect(run.stdout).toMatch(/^NAME +STATE +CPU +VCPU +MEMORY +IDLE +MONTH\ndemo +running +- /);
  expect(run.stdout).not.toContain("\u001b");
});

test("open prints the URL where there is no browser; logs falls back on a service", async () => {
  const preview = {
    url: "http://3000-demo.test/",
    urlWithToken: "http://3000-demo.test/?rouse_token=t",
    tokenExpiresAt: null,
  };
  const services = [{ name: "web", command: "serve", restart: "always", envNames: [] }];
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo({ services } as object)));
  bench.server.on(`GET ${SANDBOX}/previews/3000`, (_request, reply) =>
    reply.json({
      ...{ id: "p", sandboxId: "demo~abcdefghijkl", port: 3000, visibility: "private", token: "t", ...preview },
      ...{ disabled: false, embedOrigins: null, createdAt: "2031-01-02T03:04:05.000Z" },
    }),
  );
  expect(await bench.run(["open", "demo", "3000"])).toMatchObject({ code: 0, stdout: `${preview.urlWithToken}\n` });
  bench.server.on(`GET ${SANDBOX}/processes/web`, (_request, reply) => reply.error("process_not_found"));
  bench.server.on(`GET ${SANDBOX}/services/web/logs`, (_request, reply) =>
    reply.json({ name: "web", chunks: [{ stream: "stdout", text: "listening\n" }], truncated: false }),
  );
  expect(await bench.run(["logs", "demo", "web"])).toMatchObject({ code: 0, stdout: "listening\n" });
});
