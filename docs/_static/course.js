// The buttons that unfold the side bar have no words: give them a name to be read aloud.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("summary")) {
    if (!button.textContent.trim()) button.setAttribute("aria-label", "Show the pages below");
  }
});
