/** A browser for the tests of a file, and what it complained of. */
import { randomUUID } from "node:crypto";
import { accessSync, constants, existsSync } from "node:fs";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { Rouse } from "../../sdk/src/client.ts";
import type { Sandbox } from "../../sdk/src/sandbox.ts";

const PROGRAM = process.env["ROUSE_CHROMIUM"] ?? "/usr/bin/chromium";

/** Why the dashboard can't be tried here; null: it can. */
export const noBrowser = !existsSync(PROGRAM)
  ? `there is no ${PROGRAM}: apt-get install chromium`
  : mayHaveWorkspace()
    ? null
    : "machines are processes of this user, who may not have /workspace";

function mayHaveWorkspace(): boolean {
  try {
    accessSync(existsSync("/workspace") ? "/workspace" : "/", constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

export interface Look {
  readonly page: Page;
  /** Its console, and what the page's policy refused. */
  readonly complaints: string[];
}

export class World {
  readonly origin: string;
  readonly apiKey: string;
  readonly rouse: Rouse;
  readonly #browser: Browser;

  private constructor(origin: string, apiKey: string, browser: Browser) {
    this.origin = origin;
    this.apiKey = apiKey;
    this.rouse = new Rouse({ baseUrl: origin, apiKey });
    this.#browser = browser;
  }

  static async begin(origin: string, apiKey: string): Promise<World> {
    const browser = await chromium.launch({
      executablePath: PROGRAM,
      args: [
        ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
        ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
      ],
    });
    return new World(origin, apiKey, browser);
  }

  end(): Promise<void> {
    return this.#browser.close();
  }

  url(path = ""): string {
    return `${this.origin}/dashboard${path}`;
  }

  /** A browser of its own, with nobody signed in. */
  async look(options: BrowserContextOptions = {}): Promise<Look> {
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    const complaints: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (fault) => complaints.push(String(fault)));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) =>
        console.error(`refused: ${event.violatedDirective} ${event.blockedURI}`),
      );
    });
    return { page, complaints };
  }

  /** A browser that is signed in, at a view. */
  async signedIn(path = "", options: BrowserContextOptions = {}, apiKey = this.apiKey): Promise<Look> {
    const look = await this.look(options);
    await look.page.goto(this.url(path));
    await signIn(look.page, apiKey);
    return look;
  }

  /** One that never falls asleep by itself. */
  made(input: Parameters<Rouse["sandboxes"]["create"]>[0] = {}): Promise<Sandbox> {
    return this.rouse.sandboxes.create({ name: freshName(), idlePauseSeconds: 0, ...input });
  }
}

export async function signIn(page: Page, apiKey: string): Promise<void> {
  await page.getByLabel("API key").fill(apiKey);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

export const freshName = (): string => `t-${randomUUID().slice(0, 8)}`;
