/** Signing in and out, as a person meets it. */
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { noBrowser, signIn, World } from "./browser.ts";

describe.skipIf(noBrowser)(`signing in${noBrowser === null ? "" : `: ${noBrowser}`}`, () => {
  let world: World;
  beforeAll(async () => {
    world = await World.begin(inject("url"), inject("apiKey"));
  });
  afterAll(() => world.end());

  it("says what is wrong with a key, and lets a right one in to where one wanted to be", async () => {
    const { page, complaints } = await world.look();
    await page.goto(world.url("/keys"));
    await page.getByLabel("API key").fill("rouse_default_aaaaaaaaaaaa_bbbb");
    await page.getByRole("button", { name: "Sign in" }).click();
    const alert = page.getByRole("alert");
    await alert.getByText("The API key is not valid.").waitFor();
    await alert.getByText("unauthorized").waitFor();
    complaints.length = 0;
    await signIn(page, world.apiKey);
    await page.getByRole("heading", { name: "Keys", level: 1 }).waitFor();
    expect(complaints).toEqual([]);
  });

  it("leaves nothing in the browser that a script can read", async () => {
    const { page } = await world.signedIn();
    const seen = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie]));
    expect(seen).toBe('[{},{},""]');
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ name: "rouse_session", httpOnly: true, sameSite: "Strict", path: "/" });
    expect(cookie?.value).not.toContain(world.apiKey.split("_").at(-1));
  });

  it("lasts over pages, until one signs out, for good", async () => {
    const { page } = await world.signedIn();
    const cookies = await page.context().cookies();
    await page.reload();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    expect(await page.context().cookies()).toEqual([]);
    await page.context().addCookies(cookies);
    await page.reload();
    await page.getByLabel("API key").waitFor();
  });

  it("is had by an approval elsewhere", async () => {
    const { page } = await world.look();
    await page.goto(world.url());
    await page.getByRole("button", { name: "Have it approved elsewhere" }).click();
    const address = await page.getByLabel("Address of the approval", { exact: true }).innerText();
    const other = (await world.look()).page;
    await other.goto(address);
    await other.getByLabel("API key of the account").fill(world.apiKey);
    await other.getByRole("button", { name: "Approve" }).click();
    await other.getByRole("heading", { name: "Connected" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Sandboxes");
  });

  it("ends where the key is revoked, and says so", async () => {
    const key = await world.rouse.keys.create({ name: "short" });
    const { page } = await world.signedIn("/usage", {}, key.key);
    await world.rouse.keys.revoke(key.id);
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByText("You were signed out: the session is over.").waitFor();
    expect(await page.getByLabel("API key").isVisible()).toBe(true);
  });
});
