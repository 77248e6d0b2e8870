/**
 * What an edge promises, whatever runs it. Each story begins on an edge that is then killed with SIGKILL, all of them
 * under way, and goes on after the next start; what must not happen a second time is looked at after one more.
 */
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EdgeKind } from "../../backend-pool/local/launcher.ts";
import { blobPath, VAULT_TICKET_HEADER, type ArchivePermit } from "../../sdk/contract/archive.ts";
import type { Taken } from "../support/fake-program.ts";
import { COMPATIBILITY, eventually, freshBlob, TestEdge, type TestBlob } from "./test-edge.ts";

interface Story {
  /** Before the kill. */
  readonly begin: (edge: TestEdge) => Promise<Told>;
}

interface Told {
  /** While the edge is down. */
  readonly down?: () => Promise<unknown>;
  readonly after: () => Promise<unknown>;
  /** After one more kill. */
  readonly last?: () => Promise<unknown>;
}

interface Counted {
  readonly counter: number;
  readonly generation: number;
}

const sleeper: Story = {
  async begin(edge) {
    const { name, id } = await edge.create({ labels: { team: "serve" } });
    await edge.named(name, "/counter");
    await edge.pause(name);
    return {
      async after() {
        expect(await edge.state(name)).toBe("paused");
        const woken = await edge.named<Counted>(name, "/counter");
        expect([woken.body, woken.headers["x-rouse-state"]]).toEqual([{ counter: 2, generation: 2 }, "woken"]);
        const listed = await edge.ask<{ data: { id: string }[] }>("GET", "/v1/sandboxes?label=team:serve");
        expect(listed.body.data.map((one) => one.id)).toEqual([id]);
        expect((await edge.ask("DELETE", `/v1/sandboxes/${name}`)).status).toBe(200);
      },
      async last() {
        expect((await edge.ask<{ error: { code: string } }>("GET", `/v1/sandboxes/${id}`)).body.error.code).toBe(
          "sandbox_gone",
        );
      },
    };
  },
};

const runner: Story = {
  async begin(edge) {
    const { name } = await edge.create();
    await edge.named(name, "/counter");
    const after = async () => {
      expect((await edge.named<Counted>(name, "/counter")).body).toEqual({ counter: 2, generation: 1 });
    };
    return { after };
  },
};

/** A client of MCP that has the command line started for it notices nothing: there are no sessions. */
const tools: Story = {
  async begin(edge) {
    const client = new Client({ name: "a test", version: "1" });
    const main = fileURLToPath(new URL("../../sdk/cli/main.ts", import.meta.url));
    const env = { ROUSE_API_KEY: edge.apiKey, ROUSE_API_URL: `http://127.0.0.1:${edge.port}`, HOME: edge.dir };
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [main, "mcp-server"], env, stderr: "ignore" }),
    );
    const name = "by-tools";
    const use = async (tool: string, input: object) =>
      (await client.callTool({ name: tool, arguments: { ...input } })).structuredContent;
    expect((await client.listTools()).tools.map((tool) => tool.name)).toContain("exec");
    expect(await use("sandbox_create", { name })).toMatchObject({ name, state: "running" });
    return {
      down: () => expect(use("sandbox_get", { sandbox: name })).rejects.toThrow("not reached"),
      async after() {
        expect(await use("sandbox_create", { name })).toMatchObject({ name, reused: true });
        expect(await use("sandbox_delete", { sandbox: name })).toMatchObject({ state: "deleted" });
        await client.close();
      },
    };
  },
};

const link: Story = {
  async begin(edge) {
    const { name } = await edge.create();
    const links = `/v1/sandboxes/${name}/links`;
    const { body: made } = await edge.ask<{ id: string; token: string }>("POST", links, { name: "for Ada" });
    const visit = async () => (await edge.named(name, "/", { "x-rouse-token": made.token })).status;
    expect(await visit()).toBe(200);
    return {
      async after() {
        expect(await visit()).toBe(200);
        expect((await edge.ask("DELETE", `${links}/${made.id}`)).status).toBe(200);
      },
      async last() {
        expect(await visit()).toBe(401);
      },
    };
  },
};

/** Accepted, and killed on its way, while the host wakes the sandbox; a large body is a blob. */
const webhook = (bytes: number): Story => ({
  async begin(edge) {
    const { name } = await edge.create();
    const input = { name: "h", provider: "none", port: 8080, path: "/in" };
    const { body: hook } = await edge.ask<{ url: string }>("POST", `/v1/sandboxes/${name}/hooks`, input);
    await edge.pause(name);
    await edge.plan({ label: name, action: "wake", hold: true });
    const body = Buffer.from(JSON.stringify({ text: "x".repeat(bytes) }));
    const headers = { "content-type": "application/json" };
    expect((await edge.send("POST", new URL(hook.url).pathname, { body, headers })).status).toBe(202);
    await eventually(
      () => edge.fake<{ log: string[] }>("state", name),
      ({ log }) => log.includes("wake 2"),
    );
    const taken = () => edge.fake<Taken[]>("taken", name);
    return {
      down: () => edge.fake("release", name),
      async after() {
        const [first] = await eventually(taken, (all) => all.length > 0);
        expect(first?.base64 === body.toString("base64")).toBe(true);
      },
      async last() {
        await edge.ask("GET", `/v1/sandboxes/${name}`);
        expect(await taken()).toHaveLength(1);
      },
    };
  },
});

/** Nobody asks for it: its alarm alone begins the command. */
const schedule = (when: "down" | "up"): Story => ({
  async begin(edge) {
    const { name } = await edge.create();
    await edge.pause(name);
    const dueAt = Date.now() + (when === "down" ? 3000 : 15_000);
    const { status } = await edge.ask("POST", `/v1/sandboxes/${name}/schedules`, {
      at: new Date(dueAt).toISOString(),
      action: { kind: "command", argv: ["report"] },
    });
    expect(status).toBe(200);
    const begun = () => edge.fake<object[]>("commands", name);
    const isDue = () =>
      eventually(
        () => Date.now(),
        (now) => now > dueAt,
      );
    return {
      ...(when === "down" ? { down: isDue } : {}),
      async after() {
        expect(await eventually(begun, (all) => all.length > 0)).toHaveLength(1);
      },
      async last() {
        expect(await begun()).toHaveLength(1);
      },
    };
  },
});

async function archiving(edge: TestEdge, blobs: readonly TestBlob[]) {
  const { name, id } = await edge.create();
  await edge.pause(name);
  const step = <T>(body: object) =>
    edge.asHost<T>("POST", `/internal/accounts/default/machines/${encodeURIComponent(id)}/archive`, {
      body: Buffer.from(JSON.stringify({ generation: 1, ...body })),
    });
  const { body: permit } = await step<ArchivePermit>({ step: "begin" });
  const manifest = blobs[0]?.id;
  const notes = blobs.map((blob) => ({ id: blob.id, bytes: blob.bytes.length, isNew: true }));
  const facts = { logicalBytes: 1000, diskOnly: false, compatibility: COMPATIBILITY };
  expect((await step({ step: "upload", manifest, blobs: notes, ...facts })).status).toBe(200);
  const headers = { [VAULT_TICKET_HEADER]: permit.ticket };
  return {
    commit: async () => (await step({ step: "commit", manifest })).status,
    put: async (blob: TestBlob, body = blob.bytes) =>
      (await edge.asHost("PUT", blobPath(permit.vault, blob.id), { body, headers })).status,
    get: (blob: TestBlob) => edge.asHost<Buffer>("GET", blobPath(permit.vault, blob.id), { headers }),
  };
}

const savedState: Story = {
  async begin(edge) {
    const blobs = [freshBlob(1000), freshBlob(20_000_000)];
    const host = await archiving(edge, blobs);
    for (const blob of blobs) expect(await host.put(blob)).toBe(204);
    expect(await host.commit()).toBe(200);
    const read = async () => {
      for (const blob of blobs) expect((await host.get(blob)).body.equals(blob.bytes)).toBe(true);
    };
    return { after: read, last: read };
  },
};

const brokenUpload: Story = {
  async begin(edge) {
    const [manifest, pack] = [freshBlob(1000), freshBlob(30_000_000)];
    const host = await archiving(edge, [manifest, pack]);
    expect(await host.put(manifest)).toBe(204);
    expect(await host.put(pack, freshBlob(pack.bytes.length).bytes)).toBe(422);
    expect((await host.get(pack)).status).toBe(404);
    // The kill comes into it.
    const under = host.put(pack).catch(() => null);
    return {
      async after() {
        const outcome = { put: await under, commit: await host.commit(), read: (await host.get(pack)).status };
        // All of it is there, or nothing.
        const whole = { commit: 200, read: 200 };
        expect([
          { put: null, commit: 409, read: 404 },
          { put: null, ...whole },
          { put: 204, ...whole },
        ]).toContainEqual(outcome);
        expect(await host.put(pack)).toBe(204);
        expect(await host.commit()).toBe(200);
        expect((await host.get(pack)).body.equals(pack.bytes)).toBe(true);
      },
    };
  },
};

const stories: Readonly<Record<string, Story>> = {
  "serves MCP to a client of the command line, over a restart": tools,
  "keeps a sandbox that sleeps, wakes it by its name, and does not bring back a deleted one": sleeper,
  "keeps a sandbox that runs, and its run": runner,
  "keeps a share link, and its end": link,
  "delivers a webhook that it accepted, once": webhook(200),
  "delivers one with a large body, once": webhook(300_000),
  "does once what was due while it was down": schedule("down"),
  "does once what falls due later, when nobody asks": schedule("up"),
  "has a saved state as it was stored": savedState,
  "has all of an upload that was under way, or nothing, and takes it again": brokenUpload,
};

export function describePromises(kind: EdgeKind): void {
  describe(`the edge by ${kind}`, () => {
    let edge: TestEdge;
    beforeAll(async () => {
      edge = await TestEdge.begin(kind);
    });
    afterAll(() => edge.end());

    it("refuses strangers, and wakes nothing for them", async () => {
      const { name } = await edge.create();
      await edge.pause(name);
      expect((await edge.named(name, "/", {})).status).toBe(401);
      expect((await edge.send("GET", "/v1/sandboxes")).status).toBe(401);
      expect((await edge.asHost("GET", "/v1/sandboxes")).status).toBe(401);
      expect(await edge.state(name)).toBe("paused");
    });

    it("streams a large body", async () => {
      const { name } = await edge.create();
      const { bytes, id } = freshBlob(20_000_000);
      const headers = { host: edge.hostOf(name), authorization: `Bearer ${edge.apiKey}` };
      const { body } = await edge.send<object>("POST", "/upload", { headers, body: bytes });
      expect(body).toMatchObject({ bytes: bytes.length, sha256: id });
    });

    it.each([{}, { sockets: [{ path: "/ws*" }] }])("carries a WebSocket: %j", async (input) => {
      const { name } = await edge.create(input);
      const talk = await edge.connect(name, "/ws?room=1");
      const answers = (count: number) =>
        eventually(
          () => talk.got,
          (got) => got.length === count,
        );
      talk.say("one");
      await answers(1);
      await edge.pause(name);
      const isHeld = "sockets" in input;
      if (isHeld) talk.say("two");
      await (isHeld
        ? answers(2)
        : eventually(
            () => talk.isOpen,
            (isOpen) => !isOpen,
          ));
      expect([talk.isOpen, await edge.state(name)]).toEqual(isHeld ? [true, "running"] : [false, "paused"]);
      talk.end();
    });

    describe("killed with all under way", () => {
      const told = new Map<string, Told>();

      async function kill(meanwhile: (one: Told) => Promise<unknown> | undefined): Promise<void> {
        await edge.kill();
        await Promise.all([...told.values()].map(meanwhile));
        await edge.start();
      }

      beforeAll(async () => {
        const begun = Object.entries(stories).map(async ([title, story]) => told.set(title, await story.begin(edge)));
        await Promise.all(begun);
        await kill(({ down }) => down?.());
      });

      it.each(Object.keys(stories))("%s", async (title) => {
        await expect(told.get(title)?.after()).resolves.toBeUndefined();
      });

      it("and once more: what is over stays so", async () => {
        await kill(() => undefined);
        for (const { last } of told.values()) await expect(Promise.resolve(last?.())).resolves.toBeUndefined();
      });
    });
  });
}
