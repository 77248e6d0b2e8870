/** Style and program of the reference page, as they stand in it. Pure. */

export const referenceStyle = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; --line: #d0d7de; --soft: #f3f5f7; --link: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4048; --soft: #20242a; --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: Canvas; color: CanvasText; display: grid; grid-template-columns: 15rem minmax(0, 1fr); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: Canvas; padding: .5rem; z-index: 2; }
header { grid-column: 1 / -1; position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .6rem 1.2rem; background: Canvas; border-bottom: 1px solid var(--line); }
h1 { font-size: 1.1rem; margin: 0 auto 0 0; }
header label { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
input { font: inherit; padding: .35rem .6rem; width: 18rem; max-width: 100%; border: 1px solid var(--line); border-radius: .4rem; }
nav { position: sticky; top: 3.5rem; align-self: start; max-height: calc(100vh - 4rem); overflow: auto; padding: 1rem 1.2rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: .15rem 0; text-decoration: none; }
main { padding: 0 1.2rem 4rem; max-width: 60rem; }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.4rem; scroll-margin-top: 4rem; }
article { border-top: 1px solid var(--line); padding: .6rem 0; scroll-margin-top: 3.5rem; }
article:target, tr:target { background: var(--soft); }
h3 { font-size: 1rem; margin: .3rem 0; overflow-wrap: anywhere; }
h3 a { color: inherit; text-decoration: none; }
h4 { font-size: .85rem; margin: .8rem 0 .2rem; }
p { margin: .3rem 0; }
code { font: .9em ui-monospace, monospace; background: var(--soft); border-radius: .2rem; padding: 0 .2em; overflow-wrap: anywhere; }
h3 code { background: none; padding: 0; }
b.GET, b.HEAD { color: #1a7f37; } b.POST, b.PUT { color: #9a6700; } b.DELETE { color: #cf222e; }
@media (prefers-color-scheme: dark) { b.GET, b.HEAD { color: #56d364; } b.POST, b.PUT { color: #e3b341; } b.DELETE { color: #ff7b72; } }
dl { margin: .2rem 0; } dt { font-size: .92rem; } dd { margin: 0 0 .35rem 1rem; font-size: .92rem; }
dd dl, .kind { border-left: 2px solid var(--line); padding-left: .7rem; margin: .3rem 0; }
em { font-size: .85em; } i, .type, summary { font-size: .85em; }
summary { cursor: pointer; padding: .2rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-top: 1px solid var(--line); }
tr { scroll-margin-top: 3.5rem; }
[hidden] { display: none !important; }
@media (max-width: 46rem) {
  body { display: block; } nav { position: static; max-height: none; border-bottom: 1px solid var(--line); }
  nav ul { display: flex; flex-wrap: wrap; gap: 0 .9rem; } input { width: 100%; }
}
@media print { header, nav { display: none; } }
`;

/** Shows what has all the words; a link to something hidden ends the search. */
export const referenceScript = `
"use strict";
const input = document.getElementById("search");
const count = document.getElementById("count");
const all = [...document.querySelectorAll("article, tbody tr")].map((node) => ({ node, text: node.textContent.toLowerCase() }));
const show = () => {
  const words = input.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let found = 0;
  for (const { node, text } of all) {
    node.hidden = !words.every((word) => text.includes(word));
    if (!node.hidden) found += 1;
  }
  for (const section of document.querySelectorAll("section"))
    section.hidden = words.length > 0 && !section.querySelector("article:not([hidden]), tbody tr:not([hidden])");
  count.textContent = words.length === 0 ? "" : found + " found";
};
input.hidden = false;
input.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== input) { event.preventDefault(); input.focus(); }
  if (event.key === "Escape" && event.target === input) { input.value = ""; show(); }
});
addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.closest("[hidden]")) { input.value = ""; show(); target.scrollIntoView(); }
});
`;
