/** The list of sandboxes: live, searched, and what is done with them from it. */
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { freshName, noBrowser, World } from "./browser.ts";

describe.skipIf(noBrowser)("the list of sandboxes", () => {
  let world: World;
  beforeAll(async () => {
    world = await World.begin(inject("url"), inject("apiKey"));
  });
  afterAll(() => world.end());

  it("shows what happens elsewhere as it happens, and asks for it no more than once a while", async () => {
    const { page, complaints } = await world.signedIn();
    await page.getByRole("heading", { name: "Sandboxes", level: 1 }).waitFor();
    let calls = 0;
    page.on("request", (request) => (calls += request.url().includes("/v1/") ? 1 : 0));
    const sandbox = await world.made({ labels: { team: "live" } });
    const row = page.getByRole("row").filter({ hasText: sandbox.name ?? "" });
    await row.getByText("Running").waitFor();
    await sandbox.pause();
    await row.getByText("Paused").waitFor();
    await sandbox.delete();
    await row.waitFor({ state: "detached" });
    expect(calls).toBeLessThan(25);
    expect(complaints).toEqual([]);
  });

  it("wakes nothing by being looked at", async () => {
    const sandbox = await world.made();
    await sandbox.pause();
    const { page } = await world.signedIn();
    await page.getByRole("link", { name: sandbox.name ?? "" }).click();
    for (const tab of [
      "Files",
      "Links",
      "Inbox",
      "Snapshots",
      "Schedules",
      "Secrets",
      "Network",
      "Services",
      "Overview",
    ]) {
      await page
        .getByRole("navigation", { name: `Views of ${sandbox.name}` })
        .getByRole("link", { name: tab })
        .click();
      await page.getByRole("heading", { level: 2 }).first().waitFor();
      await page.locator(".loading").first().waitFor({ state: "detached" });
    }
    expect([(await sandbox.refresh()).state, sandbox.info.generation]).toEqual(["paused", 1]);
  });

  it("is searched by name and label", async () => {
    const team = freshName();
    const [one, two] = await Promise.all([
      world.made({ labels: { team, stage: "prod" } }),
      world.made({ labels: { team, stage: "dev" } }),
    ]);
    const { page } = await world.signedIn();
    const links = page.getByRole("row").getByRole("link");
    const search = page.getByRole("searchbox");
    await search.fill(`team=${team}`);
    await expect.poll(() => links.allInnerTexts()).toHaveLength(2);
    await page.getByRole("button", { name: "stage=dev" }).click();
    await expect.poll(() => links.allInnerTexts()).toEqual([two.name]);
    await search.fill((one.name ?? "").slice(0, 9));
    await expect.poll(() => links.allInnerTexts()).toEqual([one.name]);
    await search.fill("nothing-has-this-name");
    await page.getByRole("button", { name: /Show all/ }).click();
    expect(await search.inputValue()).toBe("");
  });

  it("makes, pauses and wakes, by the keyboard alone", async () => {
    const name = freshName();
    const { page, complaints } = await world.signedIn();
    const button = page.getByRole("button", { name: "New sandbox" }).first();
    await button.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "New sandbox" }).waitFor();
    // Focus is in the first field, and the other fields follow.
    await page.keyboard.type(name);
    await page.keyboard.press("Tab");
    await page.keyboard.type("made=here");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name, level: 1 }).getByText("Running").waitFor();
    await page.getByRole("button", { name: "Pause" }).focus();
    await page.keyboard.press("Space");
    await page.getByRole("heading", { name, level: 1 }).getByText("Paused").waitFor();
    await page.getByRole("status").getByText(`${name} sleeps, with its memory`).waitFor();
    await page.getByRole("button", { name: "Wake" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name, level: 1 }).getByText("Running").waitFor();
    expect((await world.rouse.sandboxes.get(name)).info.labels).toEqual({ made: "here" });
    expect(complaints).toEqual([]);
  });

  it("tells what the API refuses, in the dialog", async () => {
    const { name } = await world.made();
    const { page } = await world.signedIn();
    await page.getByRole("button", { name: "New sandbox" }).first().click();
    const dialog = page.getByRole("dialog", { name: "New sandbox" });
    await dialog.getByLabel("Name").fill(name ?? "");
    await dialog.getByRole("button", { name: "Make it" }).click();
    const alert = dialog.getByRole("alert");
    await alert.waitFor();
    expect(await alert.innerText()).toContain("name_taken");
  });

  it("deletes only after it said what is lost, and takes it back", async () => {
    const sandbox = await world.made();
    const name = sandbox.name ?? "";
    const { page, complaints } = await world.signedIn();
    const remove = page.getByRole("button", { name: `Delete ${name}` });
    await remove.click();
    const dialog = page.getByRole("alertdialog", { name: `Delete ${name}?` });
    await dialog.getByText("its disk, 8 GiB at most, with all files").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    expect((await sandbox.refresh()).state).toBe("running");
    expect(await remove.evaluate((element) => element === document.activeElement)).toBe(true);
    await remove.click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    const row = page.getByRole("row").filter({ hasText: name });
    await row.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Take it back" }).click();
    await page.getByRole("status").getByText(`${name} is back`).waitFor();
    await row.waitFor();
    expect(complaints).toEqual([]);
  });

  it("helps where there is none yet, and shows one's own account alone", async () => {
    const { key } = await world.rouse.accounts.open({ name: `a${freshName().slice(2, 8)}` });
    const { page } = await world.signedIn("", {}, key);
    await page.getByText("No sandbox yet").waitFor();
    expect(await page.getByRole("link", { name: "Hosts" }).count()).toBe(0);
  });
});
