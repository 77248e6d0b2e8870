/** Every view as it looks: for assistive programs, in contrast, in light and dark, and on a phone. */
import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { freshName, noBrowser, World } from "./browser.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

describe.skipIf(noBrowser)("every view", () => {
  let world: World;
  let views: string[];
  let file: string;
  beforeAll(async () => {
    world = await World.begin(inject("url"), inject("apiKey"));
    const sandbox = await world.made({
      name: `${freshName()}-${"a-name-of-many-letters".repeat(2)}`.slice(0, 39).replace(/-+$/, ""),
      labels: { team: "looks", "a-long-label-key": "and-a-value-that-is-long-too" },
    });
    await sandbox.pause();
    await sandbox.wake();
    await sandbox.links.create({ name: "for Ada" });
    await sandbox.sessions.create({ name: "shop", origins: ["https://shop.example", "http://localhost:3000"] });
    await sandbox.hooks.create({ name: "orders", provider: "none" });
    await sandbox.secrets.set("openai", { value: "sk-nothing-0123", hosts: ["api.example.com"] });
    await sandbox.schedules.create({ name: "nightly", cron: "@daily", action: { kind: "command", command: "true" } });
    file = `/workspace/${freshName()}.txt`;
    await sandbox.files.write(file, "text");
    const tabs = ["", "/files", "/links", "/inbox", "/snapshots", "/schedules", "/secrets", "/network", "/services"];
    views = ["", "/usage", "/keys", "/members", "/hosts", ...tabs.map((tab) => `/sandboxes/${sandbox.name}${tab}`)];
  });
  afterAll(async () => {
    // The machine is a process here, and its files are this machine's.
    rmSync(file, { force: true });
    await world.end();
  });

  /** Goes to each view as people do, and waits until it is there. */
  async function* walk(page: Page): AsyncGenerator<string> {
    for (const view of views) {
      await page.goto(world.url(view));
      await page.getByRole("button", { name: "Sign out" }).waitFor();
      await page.waitForFunction(() => !document.querySelector(".loading"));
      yield view;
    }
  }

  it.each(["light", "dark"] as const)("is well for assistive programs, and in contrast, in %s", async (colorScheme) => {
    const { page, complaints } = await world.signedIn("", { colorScheme, reducedMotion: "reduce", bypassCSP: true });
    for await (const view of walk(page)) {
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { axe: run } = window as unknown as { axe: { run(options: object): Promise<AxeResults> } };
        return run.run({
          resultTypes: ["violations"],
          runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"],
        });
      });
      const faults = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
      expect([view, faults]).toEqual([view, []]);
    }
    expect(complaints).toEqual([]);
  });

  it("goes into a phone, without scrolling to the side", async () => {
    const { page, complaints } = await world.signedIn("", { viewport: { width: 360, height: 740 }, hasTouch: true });
    for await (const view of walk(page)) {
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect([view, over]).toEqual([view, 0]);
    }
    await page.goto(world.url());
    await page.getByRole("button", { name: "New sandbox" }).first().click();
    const box = await page.getByRole("dialog").boundingBox();
    expect([(box?.x ?? -1) >= 0, (box?.x ?? 0) + (box?.width ?? 999) <= 360]).toEqual([true, true]);
    expect(complaints).toEqual([]);
  });

  it("keeps the theme that was chosen", async () => {
    const { page } = await world.signedIn("", { colorScheme: "light" });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.getByLabel("Theme").selectOption("dark");
    const dark = await ground();
    expect(dark).not.toBe(light);
    await page.reload();
    await page.getByLabel("Theme").waitFor();
    expect(await ground()).toBe(dark);
    await page.getByLabel("Theme").selectOption("system");
    expect(await ground()).toBe(light);
  });

  it("is one page and few files, none of them from elsewhere", async () => {
    const { page } = await world.look();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(world.url());
    await page.getByLabel("API key").waitFor();
    expect(asked.length).toBeLessThanOrEqual(7);
    expect(asked.filter((url) => !url.startsWith(`${world.origin}/dashboard`))).toEqual([]);
  });
});
