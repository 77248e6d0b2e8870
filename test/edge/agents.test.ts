/** Presets of agents, as the API lists them, and agents as sandboxes. */
import { beforeEach, expect, it } from "vitest";
import { ShownPresetList } from "../../sdk/contract/agent-preset.ts";
import { presetOf } from "../../sdk/contract/presets/index.ts";
import { planAgent } from "../../sdk/src/agent-plan.ts";
import { ask, edge, freshName, heartbeat } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

it("lists the presets to those with a key, and says which a host has an image of", async () => {
  expect((await edge("http://api.rouse.test/v1/agent-presets")).status).toBe(401);
  const before = ShownPresetList.parse((await ask("GET", "/v1/agent-presets")).body).data;
  expect(before.map(({ id }) => id)).toEqual(["openclaw", "hermes", "paperclip", "opensre"]);
  expect(before.find(({ id }) => id === "openclaw")).toMatchObject({
    available: false,
    takesMessages: true,
    proved: true,
  });
  expect(before.find(({ id }) => id === "hermes")).toMatchObject({ proved: false });
  // What only the operator's host does with one is not shown.
  expect(JSON.stringify(before)).not.toContain("recipe");
  await heartbeat({ images: ["default", "agent-openclaw"] });
  const after = ShownPresetList.parse((await ask("GET", "/v1/agent-presets")).body).data;
  expect(after.filter(({ available }) => available).map(({ id }) => id)).toEqual(["openclaw"]);
});

it("a query is refused, and nothing can be put there", async () => {
  expect((await ask("GET", "/v1/agent-presets?x=1")).status).toBe(400);
  expect((await ask("POST", "/v1/agent-presets", {})).status).toBe(405);
});

it("an agent's sandbox is taken as the client plans it; without a host that has the image nothing is made", async () => {
  const name = freshName();
  const { sandbox } = planAgent({ name, runtime: "openclaw", keys: { anthropic: "sk-ant-x" } });
  const refused = await ask("POST", "/v1/sandboxes", sandbox);
  expect(refused).toMatchObject({ status: 400, body: { error: { code: "invalid_image" } } });
  expect((await ask("GET", `/v1/sandboxes/${name}`)).status).toBe(410);
  await heartbeat({ images: ["default", "agent-openclaw"] });
  const made = await ask("POST", "/v1/sandboxes", sandbox);
  expect(made).toMatchObject({ status: 200, body: { image: "agent-openclaw", labels: { "rouse/agent": "openclaw" } } });
  // Variables of its services are shown by name alone.
  expect(JSON.stringify(made.body)).not.toContain("rouse-brokered");
  expect(presetOf("openclaw")?.port).toBe(18_789);
});
