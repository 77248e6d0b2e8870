/** One sandbox: each side of it, as a person works with it. */
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { Sandbox } from "../../sdk/src/sandbox.ts";
import { noBrowser, World } from "./browser.ts";

describe.skipIf(noBrowser)("one sandbox", () => {
  let world: World;
  let sandbox: Sandbox;
  let name: string;
  beforeAll(async () => {
    world = await World.begin(inject("url"), inject("apiKey"));
    sandbox = await world.made();
    name = sandbox.name ?? "";
  });
  afterAll(() => world.end());

  const at = (tab: string, options = {}) => world.signedIn(`/sandboxes/${name}/${tab}`, options);

  it("says why it is awake, and when it slept and woke", async () => {
    const other = await world.made();
    await other.pause();
    await other.wake();
    await other.hold("deploy", 600);
    const { page, complaints } = await world.signedIn(`/sandboxes/${other.name}`);
    const why = page.getByRole("region", { name: "Why it is awake" });
    await why.getByText("It is held by deploy").waitFor();
    const sleeps = page.getByRole("region", { name: "Sleeps and wakes" });
    const entries = await sleeps.getByRole("listitem").allInnerTexts();
    expect(entries.map((entry) => /Woke|Fell asleep|Made/.exec(entry)?.[0])).toEqual(["Woke", "Fell asleep", "Made"]);
    expect(entries[0]).toContain(":wake");
    await other.pause();
    await page.getByRole("region", { name: "Asleep" }).getByText("somebody asked for it").waitFor();
    expect(complaints).toEqual([]);
  });

  it("shows, takes and gives files", async () => {
    // The machine is a process here, and its folders are this machine's: names that nothing else has.
    const [notes, data] = [`notes-${name}.txt`, `data-${name}`];
    await sandbox.files.write(`/workspace/${notes}`, "what the agent found");
    await sandbox.files.mkdir(`/workspace/${data}`);
    const { page, complaints } = await at("files");
    await page.getByRole("button", { name: notes }).first().click();
    const dialog = page.getByRole("dialog", { name: notes });
    expect(await dialog.getByLabel(`Content of ${notes}`).innerText()).toBe("what the agent found");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: `${data} (folder)` }).click();
    await page.getByText("An empty folder").waitFor();
    await page.getByLabel("Upload").setInputFiles({ name: "in.csv", mimeType: "text/csv", buffer: Buffer.from("a,b") });
    await page.getByRole("cell", { name: "in.csv", exact: true }).waitFor();
    expect(await sandbox.files.readText(`/workspace/${data}/in.csv`)).toBe("a,b");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download in.csv" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("in.csv");
    const chunks: Buffer[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toBe("a,b");
    await page.getByRole("button", { name: "Delete in.csv" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("An empty folder").waitFor();
    expect(await sandbox.files.exists(`/workspace/${data}/in.csv`)).toBe(false);
    await Promise.all([notes, data].map((left) => sandbox.files.remove(`/workspace/${left}`, { recursive: true })));
    expect(complaints).toEqual([]);
  });

  it("shares a link, once, and revokes it", async () => {
    const { page, complaints } = await at("links");
    await page.getByRole("button", { name: "New link" }).click();
    await page.getByLabel("What it is for").fill("for Ada");
    await page.getByRole("button", { name: "Make it" }).click();
    const link = await page.getByLabel("Link", { exact: true }).innerText();
    await page.getByRole("button", { name: "Done" }).click();
    // Nothing listens there, which is what one who may come in is told.
    const visit = async () => (await (await world.look()).page.goto(link))?.status();
    expect(await visit()).not.toBe(401);
    await page.getByRole("button", { name: "Revoke for Ada" }).click();
    await page.getByRole("alertdialog", { name: "Revoke for Ada?" }).getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("row").filter({ hasText: "for Ada" }).getByText("Revoked").waitFor();
    expect(await visit()).toBe(401);
    expect(complaints).toEqual([]);
  });

  it("shows which pages have a token, and ends one at once", async () => {
    const { token } = await sandbox.sessions.create({
      name: "shop",
      origins: ["https://shop.example"],
      scopes: ["files:read"],
    });
    const { page, complaints } = await at("links");
    const row = page.getByRole("row").filter({ hasText: "shop" });
    await row.getByText("https://shop.example").waitFor();
    expect(await row.innerText()).toMatch(/Active.*files:read/s);
    expect(await page.content()).not.toContain(token);
    await page.getByRole("button", { name: "Revoke shop" }).click();
    await page.getByRole("alertdialog", { name: "Revoke shop?" }).getByRole("button", { name: "Revoke" }).click();
    await row.getByText("Revoked").waitFor();
    expect((await sandbox.sessions.list()).map(({ name, state }) => [name, state])).toEqual([["shop", "revoked"]]);
    expect(complaints).toEqual([]);
  });

  it("shows what came in by a webhook, and delivers it again", async () => {
    const program = `server-${name}.js`;
    await sandbox.files.write(
      `/workspace/${program}`,
      `let n = 0; require("node:http").createServer((req, res) => { n += 1; res.end(String(n)); }).listen(18217, "127.0.0.1");`,
    );
    const server = await sandbox.spawn([process.execPath, program], { cwd: "/workspace" });
    const { page, complaints } = await at("inbox");
    await page.getByRole("button", { name: "New webhook" }).click();
    const making = page.getByRole("dialog", { name: "New webhook" });
    await making.getByLabel("Name").fill("orders");
    await making.getByLabel("Who sends").selectOption("none");
    await making.getByLabel("Port").fill("18217");
    await making.getByRole("button", { name: "Make it" }).click();
    const address = await page.getByLabel("Address", { exact: true }).innerText();
    await page.getByRole("button", { name: "Done" }).click();
    const sent = await fetch(address, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"order":7}',
    });
    expect(sent.status).toBe(202);
    await expect
      .poll(async () => (await sandbox.hooks.events.list()).data[0]?.state, { timeout: 20_000 })
      .toBe("delivered");
    await page.getByRole("button", { name: "Look again" }).click();
    const events = page.getByRole("table", { name: "Events" });
    await events.getByText("Delivered").waitFor();
    await events.getByRole("button", { name: "Event" }).first().click();
    await page.getByRole("dialog").getByText('"order": 7').waitFor();
    await page.keyboard.press("Escape");
    await events.getByRole("button", { name: /Replay/ }).click();
    await page.getByRole("status").getByText("It is delivered again").waitFor();
    const steps = async () => (await sandbox.hooks.events.list()).data[0]?.timeline.map(({ what }) => what);
    await expect
      .poll(steps, { timeout: 20_000 })
      .toEqual(["received", "attempt", "delivered", "replayed", "attempt", "delivered"]);
    await server.kill();
    await sandbox.files.remove(`/workspace/${program}`);
    expect(complaints).toEqual([]);
  });

  it("takes secrets, and never shows them", async () => {
    const { page, complaints } = await at("secrets");
    await page.getByRole("button", { name: "Set a secret" }).click();
    const dialog = page.getByRole("dialog", { name: "Set a secret" });
    await dialog.getByLabel("Name").fill("openai");
    await dialog.getByLabel("Value").fill("very-secret-value");
    await dialog.getByRole("button", { name: "Set" }).click();
    // The API says what is missing, and the dialog keeps what was typed.
    await dialog.getByRole("alert").getByText("hosts").first().waitFor();
    await dialog.getByLabel("Hosts that get it").fill("api.example.com");
    complaints.length = 0;
    await dialog.getByRole("button", { name: "Set" }).click();
    const row = page.getByRole("row").filter({ hasText: "openai" });
    await row.getByText("api.example.com").waitFor();
    expect(await page.content()).not.toContain("very-secret-value");
    expect((await sandbox.secrets.list()).map((secret) => secret.name)).toEqual(["openai"]);
    await row.getByRole("button", { name: "Remove openai" }).click();
    await page.getByRole("alertdialog").getByText("those to api.example.com").waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("No secrets of its own").waitFor();
    expect(complaints).toEqual([]);
  });

  it("has a shell, which is there again after the page was left", async () => {
    const typed = `typed-${name}.txt`;
    const { page, complaints } = await at("terminal");
    await page.getByText("The shell is open.").waitFor({ state: "attached" });
    await page.keyboard.type(`cd /workspace && echo $((6 * 7)) > ${typed}\n`);
    await expect.poll(() => sandbox.files.exists(`/workspace/${typed}`), { timeout: 20_000 }).toBe(true);
    expect(await sandbox.files.readText(`/workspace/${typed}`)).toBe("42\n");
    await page.reload();
    await page.getByText("The shell is open.").waitFor({ state: "attached" });
    await expect.poll(() => page.locator(".xterm-rows").innerText(), { timeout: 20_000 }).toContain(typed);
    await page.keyboard.type("exit\n");
    await page.getByText("The shell ended.").waitFor();
    await sandbox.files.remove(`/workspace/${typed}`);
    expect(complaints).toEqual([]);
  });

  it("has schedules and network rules", async () => {
    const { page, complaints } = await at("schedules");
    await page.getByRole("button", { name: "New schedule" }).click();
    const making = page.getByRole("dialog", { name: "New schedule" });
    await making.getByLabel("Name").fill("nightly");
    await making.getByLabel("When").fill("0 3 * * *");
    await making.getByLabel("Time zone").fill("UTC");
    await making.getByLabel("Command").fill("echo hello");
    await making.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "Run now nightly" }).click();
    const state = async () => (await sandbox.schedules.get("nightly")).lastRun?.state;
    await expect.poll(state, { timeout: 20_000 }).toBe("succeeded");
    await page.getByRole("button", { name: "nightly", exact: true }).click();
    await page.getByRole("button", { name: "Output" }).first().click();
    expect(await page.getByLabel("Output", { exact: true }).innerText()).toBe("hello\n");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Network" }).click();
    await page.getByRole("button", { name: "Change" }).click();
    const rules = page.getByRole("dialog", { name: "Network rules" });
    await rules.getByLabel("What no list names").selectOption("no");
    await rules.getByLabel("Allowed").fill("api.example.com\n*.example.org");
    await rules.getByRole("button", { name: "Set" }).click();
    await page.getByRole("region", { name: "Rules" }).getByText("*.example.org").waitFor();
    expect(await sandbox.network.get()).toMatchObject({ internet: false, allow: ["api.example.com", "*.example.org"] });
    expect(complaints).toEqual([]);
  });
});
