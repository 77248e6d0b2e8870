import { parseApiKey } from "../../contract/account.ts";
import { findBaseUrl } from "../../src/credentials.ts";
import { forgetLogin } from "../../src/logins.ts";
import type { Command } from "../command.ts";

export const logout: Command = {
  name: "logout",
  summary: "Forget a saved login",
  usage: "",
  details: "The key itself goes on to work until it is revoked: rouse keys rm ID, with a full key.",
  words: [0, 0],
  options: {},
  async run({ out }) {
    const baseUrl = await findBaseUrl();
    const login = await forgetLogin(baseUrl);
    const keyId = login === null ? null : (parseApiKey(login.apiKey)?.keyId ?? null);
    const facts = { baseUrl, account: login?.account ?? null, keyId, forgotten: login !== null };
    out.result(login === null ? `No login was saved for ${baseUrl}` : `Logged out of ${baseUrl}`, facts);
    if (keyId !== null)
      out.note(`The key itself still works. To revoke it, with a full key of the account: rouse keys rm ${keyId}`);
    return 0;
  },
};
