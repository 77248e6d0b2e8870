/** Presets of agents: what is data in them, and what follows from it. */
import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { compared } from "../../backend-pool/guest/restarts.ts";
import { filled, isSigned, messageOf } from "../../backend-pool/images/agents/agent-trigger.ts";
import {
  AgentPreset,
  deliveryOf,
  DELIVERY_SECRET_FILE,
  imageOf,
  presetLimits,
  servicesOf,
  sizeOf,
  TRIGGER_PORT,
  TRIGGER_VARIABLE,
} from "../../sdk/contract/agent-preset.ts";
import { isTooLarge, Services } from "../../sdk/contract/boot.ts";
import { agentPresets, presetOf } from "../../sdk/contract/presets/index.ts";

const own = {
  id: "mine",
  title: "Mine",
  version: "1",
  source: { registry: "own" },
  start: ["node", "server.mjs"],
  port: 3000,
  health: { path: "/health" },
  ready: { path: "/ready" },
  state: { folders: ["/workspace/.mine"] },
  providers: { anthropic: { env: "ANTHROPIC_API_KEY" } },
  minMemoryMiB: 512,
  proved: true,
};
const none = { gone: [], changed: [], added: [] };
const issuesOf = (preset: object) =>
  AgentPreset.safeParse(preset).error?.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`) ?? [];

describe("the presets that come with it", () => {
  test.each(agentPresets.map((preset) => [preset.id, preset] as const))(
    "%s is one, and fits a sandbox",
    (_, preset) => {
      expect(AgentPreset.parse(preset)).toEqual(preset);
      // What its image runs is what a sandbox is told: nothing is started anew.
      expect(compared(servicesOf(preset), Services.parse(servicesOf(preset)))).toEqual(none);
      expect(isTooLarge({ onBoot: preset.identity, services: servicesOf(preset) })).toBe(false);
      expect(imageOf(preset)).toBe(`agent-${preset.id}`);
      expect(sizeOf(preset).memoryMiB).toBeGreaterThanOrEqual(preset.minMemoryMiB);
    },
  );

  test("each id once, every version pinned, nothing run as root", () => {
    expect(agentPresets.map(({ id }) => id)).toEqual(["openclaw", "hermes", "paperclip", "opensre"]);
    for (const { version, recipe, user } of agentPresets) {
      const installed = [...(recipe?.npm ?? []), ...(recipe?.commands ?? [])].join("\n");
      expect(installed).toContain(version);
      expect(user).not.toBe("root");
    }
  });

  test("what was not run says so", () => {
    expect(agentPresets.filter(({ proved }) => !proved).map(({ id, note }) => [id, note !== undefined])).toEqual([
      ["hermes", true],
      ["opensre", true],
    ]);
  });

  test("keys stand nowhere: each provider's variable holds the same word", () => {
    const [agent] = servicesOf(presetOf("openclaw") as AgentPreset);
    expect(agent?.env).toMatchObject({ ANTHROPIC_API_KEY: "rouse-brokered", OPENAI_API_KEY: "rouse-brokered" });
  });
});

describe("a preset of one's own", () => {
  test("the smallest one runs in the default image, and takes no messages", () => {
    const preset = AgentPreset.parse(own);
    expect(imageOf(preset)).toBe("default");
    expect(deliveryOf(preset)).toBeNull();
    expect(servicesOf(preset).map(({ name }) => name)).toEqual(["agent"]);
  });

  test("messages go to the program as they come, or by the carrier that makes what it takes", () => {
    const raw = AgentPreset.parse({ ...own, trigger: { path: "/hook" } });
    expect(deliveryOf(raw)).toEqual({ port: 3000, path: "/hook", timeoutSeconds: 60 });
    const made = AgentPreset.parse({
      ...own,
      recipe: { sizeMiB: 4096, golden: "running" },
      trigger: { path: "/hook", body: { text: "{{message}}" } },
    });
    expect(deliveryOf(made)).toMatchObject({ port: TRIGGER_PORT, path: "/" });
    const [, carrier] = servicesOf(made);
    expect(JSON.parse(carrier?.env?.[TRIGGER_VARIABLE] ?? "")).toEqual({
      path: "/hook",
      port: 3000,
      body: { text: "{{message}}" },
    });
  });

  test("everything that is wrong is named at once", () => {
    const wrong = {
      ...own,
      id: "Mine; rm -rf /",
      user: "root",
      port: TRIGGER_PORT,
      health: { path: "health" },
      providers: { acme: { env: "KEY" } },
      source: { registry: "npm", package: "--registry=http://evil" },
    };
    const issues = issuesOf(wrong).join("\n");
    for (const field of ["id:", "user:", "port:", "health.path:", "providers", "source.package:"])
      expect(issues).toContain(field);
  });

  test.each([
    ["a body without a recipe", { trigger: { path: "/", body: {} } }, "trigger:"],
    ["a token without a body", { trigger: { path: "/", tokenFile: "/t" } }, "trigger:"],
    ["both ways to install", { recipe: { sizeMiB: 3072, golden: "running" }, install: { command: "x" } }, "install:"],
    ["an image larger than the disk", { recipe: { sizeMiB: 9000, golden: "running" } }, "diskMiB:"],
    ["less memory than it needs", { minMemoryMiB: 2048, memoryMiB: 1024 }, "memoryMiB:"],
    ["not proved, and no reason", { proved: false }, "note:"],
    [
      "a file outside by ..",
      { recipe: { sizeMiB: 3072, golden: "running", files: [{ path: "/a/../b", content: "" }] } },
      "recipe.files.0.path:",
    ],
    ["a package that is an option", { recipe: { sizeMiB: 3072, golden: "running", npm: ["-g"] } }, "recipe.npm.0:"],
    ["a field that there is not", { onBoot: "x" }, "onBoot"],
  ])("%s is refused", (_, change, field) => {
    expect(issuesOf({ ...own, ...change }).join("\n")).toContain(field);
  });
});

describe("the carrier of messages", () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  const now = 1_796_000_000;
  const signed = (body: string, { id = "msg_1", at = now, by = secret } = {}) => {
    const key = Buffer.from(by.replace("whsec_", ""), "base64");
    const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": `v1,${signature}` };
  };

  test("lets through what is signed for its sandbox", () => {
    expect(isSigned(signed("hello"), Buffer.from("hello"), secret, now)).toBe(true);
    const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
    const both = `v1,AAAA ${signed("hello")["webhook-signature"]}`;
    expect(isSigned({ ...signed("hello"), "webhook-signature": both }, Buffer.from("hello"), secret, now)).toBe(true);
    expect(isSigned(signed("hello", { by: other }), Buffer.from("hello"), secret, now)).toBe(false);
    expect(isSigned(signed("hello"), Buffer.from("hullo"), secret, now)).toBe(false);
    expect(isSigned(signed("hello", { at: now - 301 }), Buffer.from("hello"), secret, now)).toBe(false);
    expect(isSigned({}, Buffer.from("hello"), secret, now)).toBe(false);
    expect(isSigned(signed("hello", { by: "whsec_" }), Buffer.from("hello"), "whsec_", now)).toBe(false);
  });

  test("a message is that of a JSON body, or the whole body", () => {
    expect(messageOf('{"message":"hi","x":1}')).toBe("hi");
    expect(messageOf('{"action":"opened"}')).toBe('{"action":"opened"}');
    expect(messageOf("plain")).toBe("plain");
    expect(messageOf('{"message":7}')).toBe('{"message":7}');
  });

  test("what is filled in stays one text, whatever it holds", () => {
    const delivery = { id: "msg_1", message: '","admin":true,"x":"{{id}}' };
    const body = filled({ a: "{{message}}", b: [1, "{{id}}"], c: { d: null } }, delivery);
    expect(body).toEqual({ a: delivery.message, b: [1, "msg_1"], c: { d: null } });
  });

  test("it and the contract agree on its place", async () => {
    const text = await import("node:fs/promises").then((fs) =>
      fs.readFile(new URL("../../backend-pool/images/agents/agent-trigger.ts", import.meta.url), "utf8"),
    );
    for (const fact of [DELIVERY_SECRET_FILE, TRIGGER_VARIABLE, TRIGGER_PORT, presetLimits.messageBytes])
      expect(text.replaceAll("_", "")).toContain(String(fact).replaceAll("_", ""));
  });
});
