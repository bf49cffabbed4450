// Chapters first, those whose titles say what the reader typed before the others; then the other
// pages, then modules and their members. Only a page with exactly this title comes earlier.
const typed = new URLSearchParams(location.search).get("q") ?? "";
window.Scorer = {
  score: ([page, title, , , score, , kind]) =>
    score +
    (page.startsWith("notebooks/") ? 100 : page.startsWith("api/") ? -100 : 0) +
    (kind === "text" && title.toLowerCase().includes(typed.toLowerCase()) ? 50 : 0) +
    (kind === "title" && score > 15 ? 200 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// A result gets its excerpt when it comes into view, so a search does not fetch every page. Each
// page is fetched once, and only what its author wrote is quoted.
const NOT_QUOTED = "h1, p:has(> [download])";
const texts = {};
const load = (address) => (texts[address] ??= fetch(address).then((answer) => answer.text()));
const toText = Search.htmlToText;
Search.htmlToText = (page, anchor) => {
  const parsed = new DOMParser().parseFromString(page, "text/html");
  for (const part of parsed.querySelectorAll(NOT_QUOTED)) part.remove();
  return toText(`<main role="main">${parsed.querySelector("article").innerHTML}</main>`, anchor);
};
const inView = new IntersectionObserver(async (entries) => {
  for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
    inView.unobserve(target);
    const link = target.querySelector("a");
    const page = await load(link.pathname);
    const [, words] = Search._parseQuery(typed);
    target.append(Search.makeSearchSummary(page, words, link.hash) ?? "");
  }
});
const list = new MutationObserver((changes) => {
  const added = changes.flatMap((change) => [...change.addedNodes]);
  for (const item of added.filter((node) => node.matches?.("ul.search > li"))) inView.observe(item);
});
if (typed) list.observe(document, { childList: true, subtree: true });
