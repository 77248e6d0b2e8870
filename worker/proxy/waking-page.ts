/** What a person sees in a browser while a sandbox takes longer to wake: a page that asks again by itself. Pure. */

export function wakingPage(label: string, requestId: string): Response {
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="1">
<meta name="viewport" content="width=device-width">
<title>Waking ${label}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;display:grid;place-items:center;min-height:90vh;color-scheme:light dark}</style>
</head>
<body><p>Waking <b>${label}</b>. This page loads again by itself.</p></body>
</html>
`;
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "retry-after": "1",
    "x-request-id": requestId,
  };
  return new Response(html, { status: 503, headers });
}
