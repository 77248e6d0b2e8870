/** Keys, usage, hosts and members of the account. */
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { freshName, noBrowser, World } from "./browser.ts";

describe.skipIf(noBrowser)("the account", () => {
  let world: World;
  beforeAll(async () => {
    world = await World.begin(inject("url"), inject("apiKey"));
  });
  afterAll(() => world.end());

  it("makes a key, shows it once, and revokes it", async () => {
    const name = freshName();
    const { page, complaints } = await world.signedIn("/keys");
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = page.getByRole("dialog", { name: "New key" });
    await dialog.getByLabel("Name", { exact: true }).fill(name);
    await dialog.getByLabel("It may").selectOption("read");
    await dialog.getByRole("button", { name: "Make it" }).click();
    const key = await page.getByLabel("API key", { exact: true }).innerText();
    await page.getByRole("button", { name: "Done" }).click();
    const me = () => fetch(`${world.origin}/v1/me`, { headers: { authorization: `Bearer ${key}` } });
    expect(await (await me()).json()).toMatchObject({ access: "read" });
    await page.reload();
    await page.getByRole("row").filter({ hasText: name }).waitFor();
    expect(await page.content()).not.toContain(key);
    await page.getByRole("button", { name: `Revoke ${name}` }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("row").filter({ hasText: name }).waitFor({ state: "detached" });
    expect((await me()).status).toBe(401);
    expect(complaints).toEqual([]);
  });

  it("shows usage as a chart, and the same as a table", async () => {
    const { page, complaints } = await world.signedIn("/usage");
    await page.getByText("As a table").click();
    const months = page.getByRole("table", { name: "Cost by month" }).getByRole("row");
    expect(await months.count()).toBe(13);
    const [month = ""] = (await months.last().innerText()).split("\t");
    expect(await page.getByLabel("Month").locator("option:checked").innerText()).toBe(month);
    expect(complaints).toEqual([]);
  });

  it("drains a host after it asked, and fills it again", async () => {
    const { page, complaints } = await world.signedIn("/hosts");
    await page.getByRole("button", { name: "Drain local" }).click();
    await page.getByRole("alertdialog", { name: "Drain local?" }).getByRole("button", { name: "Drain" }).click();
    await page.getByRole("row").getByText("Draining").waitFor();
    expect((await world.rouse.hosts())[0]?.draining).toBe(true);
    await page.getByRole("button", { name: "Take machines again on local" }).click();
    await page.getByRole("row").getByText("Live").waitFor();
    expect((await world.rouse.hosts())[0]?.draining).toBe(false);
    expect(complaints).toEqual([]);
  });

  it("offers nothing to change to a key that reads", async () => {
    const { key } = await world.rouse.keys.create({ name: "reader", access: "read" });
    const { name } = await world.made();
    const { page, complaints } = await world.signedIn("", {}, key);
    await page.getByRole("link", { name: name ?? "" }).click();
    await page.getByRole("heading", { name: name ?? "", level: 1 }).waitFor();
    await page.getByRole("region", { name: "Why it is awake" }).waitFor();
    for (const button of ["Pause", "Delete", "Open", "New sandbox"])
      expect(await page.getByRole("button", { name: button }).count()).toBe(0);
    expect(await page.getByRole("link", { name: "Files" }).count()).toBe(0);
    expect(complaints).toEqual([]);
  });
});
