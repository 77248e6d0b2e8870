/** Logging in from the command line: link and code on stderr, a person's approval, and the key saved. */
import { hostname } from "node:os";
import { AuthenticationError, deviceLogin } from "../src/index.ts";
import { readLogins, saveLogin } from "../src/logins.ts";
import { openBrowser } from "./browser.ts";
import type { Output } from "./output.ts";

interface LoginTerms {
  readonly baseUrl: string;
  /** What the person is shown; this machine's name unless given. */
  readonly name?: string | undefined;
  /** A trial account will do. */
  readonly trial: boolean;
  readonly browser: boolean;
}

/** @throws AuthenticationError `login_disabled`, `credentials_file`, or what a login ends with */
export async function logIn(out: Output, { baseUrl, name, trial, browser }: LoginTerms): Promise<{ account: string }> {
  mustHavePerson();
  // Saved logins that can't be used are found before anybody is asked.
  await readLogins();
  const { apiKey, account } = await deviceLogin({
    baseUrl,
    clientName: name ?? `rouse on ${hostname()}`.slice(0, 128),
    scope: trial ? "trial" : undefined,
    onCode: ({ verificationUriComplete: url, userCode: code, expiresAt }) => {
      const text = `To log in, open this link and check that the page shows the code ${code}:\n\n  ${url}\n`;
      out.announce(text, { login: { url, code, expiresAt: expiresAt.toISOString() } });
      if (browser) openBrowser(url);
      out.progress("Waiting for the approval...");
    },
  });
  await saveLogin(baseUrl, { apiKey, account });
  return { account };
}

/** Where nobody looks, a login would only hang. */
function mustHavePerson(): void {
  for (const variable of ["ROUSE_NO_LOGIN", "CI"]) {
    if (["", "0", "false"].includes(process.env[variable] ?? "")) continue;
    throw new AuthenticationError({
      code: "login_disabled",
      message: `There is no login where ${variable} is set.`,
      hint: "Set ROUSE_API_KEY (and ROUSE_API_URL).",
    });
  }
}
