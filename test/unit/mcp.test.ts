/** Rules of MCP servers: what the catalog makes of options, what joins what, names of tools, pages as text. */
import { describe, expect, it } from "vitest";
import { innerName, outerName } from "../../backend-pool/guest-programs/mcp/names.ts";
import { plainText } from "../../backend-pool/guest-programs/mcp/servers/plain-text.ts";
import {
  bootTold,
  envNamesOf,
  mergedServers,
  type McpKept,
  type McpServerKept,
} from "../../durable/sandbox/mcp-settings.ts";
import { catalogServer, mcpCatalog } from "../../sdk/contract/mcp-catalog.ts";
import { McpName, mcpLimits } from "../../sdk/contract/mcp.ts";

const kept = (name: string, command = ["run"]): McpServerKept => ({
  ...{ name, id: null, secrets: {} },
  runs: { name, kind: "command", command, cwd: "/workspace", env: {}, fromEnv: {} },
});

describe("the catalog", () => {
  it("fills in options, and names those that it does not have", () => {
    expect(catalogServer("f", "filesystem")).toEqual({
      ...{ name: "f", kind: "bundled", program: "filesystem", args: ["/workspace"] },
    });
    expect(catalogServer("f", "filesystem", { paths: "/a:/b:" })).toMatchObject({ args: ["/a", "/b"] });
    expect(catalogServer("g", "git", { repository: "/x" })).toMatchObject({ options: { repository: "/x" } });
    expect(catalogServer("g", "git", { a: "1", b: "2" })).toHaveLength(2);
    expect(catalogServer("x", "toString")).toBeNull();
  });

  it("has each id once, each fit for a name", () => {
    const ids = mcpCatalog.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(McpName.safeParse(id).success).toBe(true);
  });
});

describe("servers", () => {
  it("join those that are there, take a place, or are the only ones", () => {
    const names = (given: ReturnType<typeof mergedServers>) =>
      "code" in given ? given.code : given.map((s) => s.name);
    const before = [kept("a"), kept("b")];
    expect(names(mergedServers(before, [kept("c")], false))).toEqual(["a", "b", "c"]);
    expect(names(mergedServers(before, [kept("a", ["other"])], false))).toEqual(["b", "a"]);
    expect(names(mergedServers(before, [kept("c")], true))).toEqual(["c"]);
    const many = Array.from({ length: mcpLimits.serversMax }, (_, n) => kept(`m${n}`));
    expect(names(mergedServers(before, many, false))).toBe("quota_exceeded");
    expect(names(mergedServers(before, many, true))).toHaveLength(mcpLimits.serversMax);
    expect(names(mergedServers([], [kept("a", ["x".repeat(mcpLimits.settingsBytesMax)])], false))).toBe(
      "invalid_request",
    );
  });

  it("are a service behind the caller's own, whose values are in its variable alone", () => {
    const mcp: McpKept = {
      ...{ port: 9000, servers: [kept("a")], linkId: "link-x", tokenSha256: "ab", linkExpiresAt: 1, version: 2 },
    };
    const web = { name: "web", command: "serve" };
    expect(bootTold({ boot: null, mcp: null })).toBeNull();
    expect(bootTold({ boot: { onBoot: null, onWake: null, services: [web] }, mcp })?.services).toMatchObject([
      web,
      { name: "rouse-mcp", port: 9000 },
    ]);
    const service = bootTold({ boot: null, mcp })?.services[0];
    expect(JSON.parse(service?.env?.["ROUSE_MCP"] ?? "")).toEqual({
      ...{ port: 9000, tokenSha256: "ab", version: 2, servers: [kept("a").runs] },
    });
    // What stands for a secret is no variable of the caller's.
    const { runs } = kept("a");
    const env = { A: "1", KEY: "word" };
    expect(envNamesOf({ ...kept("a"), secrets: { KEY: "s" }, runs: { ...runs, env } as never })).toEqual(["A"]);
  });
});

describe("names of tools", () => {
  it("lead back to their server, whatever is in them", () => {
    for (const tool of ["x", "a__b", "_x", "__x"])
      expect(innerName(outerName("my-server", tool, true))).toEqual({ server: "my-server", inner: tool });
    expect(outerName("my-server", "x", false)).toBe("x");
    expect([innerName("x"), innerName("__x"), innerName("a_b")]).toEqual([null, null, null]);
  });
});

describe("a page as text", () => {
  const base = "https://example.com/docs/";
  it("keeps headings, lists, links and code, and drops what is no text", () => {
    const html = `<html><head><title>T &lt;1&gt;</title><style>p{}</style></head><body><!-- <p>no</p> -->
      <h2>Two</h2><ul><li>a</li><li><a href='../b?x=1&amp;y=2'>b</a></li></ul>
      <pre>  one\n  two</pre><a href="javascript:x()">c</a> &#x41;&#66;&unknown;<script>1 < 2</script></body></html>`;
    const text = plainText(html, base);
    expect(text).toBe(
      "# T <1>\n\n## Two\n\n- a\n- [b](https://example.com/b?x=1&y=2)\n\n```\n  one\n  two\n```\nc AB&unknown;",
    );
  });

  it("takes anything", () => {
    for (const html of [
      "",
      "<",
      "<!--",
      "<a",
      "<a href=",
      "</script>",
      "<script>",
      "a<b",
      "&#xffffff;",
      "<title>",
      "\u0000",
    ])
      expect(typeof plainText(html, base)).toBe("string");
    // A hostile page costs no more than its size.
    for (const part of ["<", "<a ", "<pre> ", "<!--", "&#", "<a href='", " \n"])
      expect(plainText(part.repeat(200_000), base).length).toBeLessThan(2_000_000);
  });
});
