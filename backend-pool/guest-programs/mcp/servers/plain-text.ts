/** HTML as text that a model reads: headings, lists, links, code. Pure; each rule is linear in the text. */

const NAMED: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " },
  ...{ ndash: "–", mdash: "—", hellip: "…", copy: "©", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”" },
};
/** What is in them is no text of the page. */
const SILENT = new Set(["script", "style", "noscript", "template", "svg", "head", "title"]);
const BLOCKS = new Set([
  "p",
  "div",
  "section",
  "article",
  "main",
  "header",
  "footer",
  "ul",
  "ol",
  "table",
  "blockquote",
]);

/** @param base what links are relative to */
export function plainText(html: string, base: string): string {
  const title = /<title[^>]{0,200}>([^<]{0,500})/i.exec(html)?.[1]?.trim();
  let out = title ? `# ${entities(title)}\n\n` : "";
  let silent: string | null = null;
  let links: string[] = [];
  let isCode = false;
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf("<", at);
    const text = html.slice(at, open < 0 ? html.length : open);
    if (silent === null) out += isCode ? entities(text) : entities(text.replace(/\s+/g, " "));
    if (open < 0) break;
    if (html.startsWith("<!--", open)) {
      const end = html.indexOf("-->", open + 4);
      at = end < 0 ? html.length : end + 3;
      continue;
    }
    const close = html.indexOf(">", open);
    if (close < 0) break;
    const tag = html.slice(open + 1, close);
    at = close + 1;
    const match = /^(\/?)([a-z][a-z0-9]*)/i.exec(tag);
    if (!match) continue;
    const isEnd = match[1] === "/";
    const name = (match[2] ?? "").toLowerCase();
    if (silent !== null) {
      if (isEnd && name === silent) silent = null;
      continue;
    }
    if (SILENT.has(name)) {
      if (!isEnd && !tag.endsWith("/")) silent = name;
      continue;
    }
    if (/^h[1-6]$/.test(name)) out += isEnd ? "\n\n" : `\n\n${"#".repeat(Number(name[1]))} `;
    else if (name === "br") out += "\n";
    else if (name === "li" && !isEnd) out += "\n- ";
    else if (name === "tr" && !isEnd) out += "\n";
    else if ((name === "td" || name === "th") && isEnd) out += " | ";
    else if (name === "pre") {
      isCode = !isEnd;
      out += "\n```\n";
    } else if (name === "code" && !isCode) out += "`";
    else if (name === "a" && !isEnd) {
      links = [...links.slice(-20), addressOf(tag, base)];
      if (links.at(-1)) out += "[";
    } else if (name === "a") {
      const to = links.pop();
      if (to) out += `](${to})`;
    } else if (BLOCKS.has(name)) out += "\n\n";
  }
  const lines = out.split("\n").map((line) => line.trimEnd());
  return lines
    .join("\n")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

/** Of a link that leads to a page; empty for another. */
function addressOf(tag: string, base: string): string {
  const match = /\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))/i.exec(tag);
  const url = URL.parse(entities(match?.[1] ?? match?.[2] ?? match?.[3] ?? "#"), base);
  return url && /^https?:$/.test(url.protocol) && !match?.[1]?.startsWith("#") ? url.href : "";
}

function entities(text: string): string {
  return text.replace(/&(#x?[0-9a-f]{1,6}|[a-z]{2,8});/gi, (whole, name: string) => {
    if (!name.startsWith("#")) return NAMED[name.toLowerCase()] ?? whole;
    const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code > 0 && code <= 0x10_ff_ff && (code < 0xd8_00 || code > 0xdf_ff) ? String.fromCodePoint(code) : whole;
  });
}
