/** The page on which a person approves a login. Small, without scripts, and not to be framed. */
import { escapeHtml as escape } from "../api/html.ts";

export type LoginStep =
  | { readonly step: "code" }
  | {
      readonly step: "decide";
      readonly code: string;
      readonly clientName: string;
      /** A trial account may be begun here. */
      readonly trials: boolean;
      readonly wrong?: boolean;
    }
  | { readonly step: "approved"; readonly account: string; readonly clientName: string }
  | { readonly step: "denied" }
  | { readonly step: "over" };

export function loginPage(page: LoginStep): Response {
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy":
      "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-frame-options": "DENY",
    // With none at all, browsers name no origin in what the form sends, and its answer is refused.
    "referrer-policy": "same-origin",
  };
  const text = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Connect a program - Rouse</title>
<style>${STYLE}</style>
<main>${bodyOf(page)}</main>
</html>
`;
  return new Response(text, { status: page.step === "over" ? 404 : 200, headers });
}

function bodyOf(page: LoginStep): string {
  switch (page.step) {
    case "code":
      return `<h1>Connect a program</h1>
<form method="get" action="/connect">
<label>Code that the program shows <input name="code" autocomplete="off" autofocus required placeholder="ABCD-EFGH"></label>
<button>Go on</button>
</form>`;
    case "decide": {
      const { code, clientName, trials, wrong } = page;
      const shown = `${code.slice(0, 4)}-${code.slice(4)}`;
      const hidden = `<input type="hidden" name="code" value="${escape(code)}">`;
      return `<h1>Connect ${escape(clientName)}?</h1>
<p>It shows the code <strong>${escape(shown)}</strong>. Approve only if you see that code there: the program will act for the account.</p>
${wrong ? '<p class="wrong" role="alert">That key is not valid, or may not make other keys.</p>' : ""}
${
  trials
    ? `<form method="post" action="/connect">${hidden}<button name="decision" value="trial">Begin a trial account for it</button></form>
<p class="or">or use an account that you have</p>`
    : ""
}
<form method="post" action="/connect">${hidden}
<label>API key of the account <input name="api_key" type="password" autocomplete="off" required></label>
<label>It may <select name="access">
<option value="full">do everything in the account</option>
<option value="sandboxes">use sandboxes</option>
<option value="read">only read</option>
</select></label>
<button name="decision" value="approve">Approve</button>
</form>
<form method="post" action="/connect">${hidden}<button class="quiet" name="decision" value="deny">Refuse</button></form>`;
    }
    case "approved":
      return `<h1>Connected</h1>
<p>${escape(page.clientName)} gets a key of the account <strong>${escape(page.account)}</strong>. You can close this page.</p>`;
    case "denied":
      return `<h1>Refused</h1><p>The program gets nothing. You can close this page.</p>`;
    case "over":
      return `<h1>Not valid any more</h1><p>This code was used, is over, or never was. Start the login again in the program.</p>`;
  }
}

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: Canvas; color: CanvasText; }
main { max-width: 26rem; padding: 2rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
form { display: grid; gap: 1rem; margin: 1rem 0; }
label { display: grid; gap: .25rem; }
input, select, button { font: inherit; padding: .6rem .8rem; border: 1px solid GrayText; border-radius: .4rem; }
button { background: #1d5fd0; color: #fff; border-color: #1d5fd0; cursor: pointer; }
button.quiet { background: transparent; color: inherit; border-color: GrayText; }
strong { font-variant-numeric: tabular-nums; letter-spacing: .04em; }
.wrong { color: #c0392b; }
.or { text-align: center; color: GrayText; }
`;
