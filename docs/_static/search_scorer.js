// Chapters first, then the other pages, then modules and their members.
var Scorer = {
  score: ([page, , , , score]) =>
    score + (page.startsWith("notebooks/") ? 10 : page.startsWith("api/") ? -20 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
