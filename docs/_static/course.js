// The buttons that unfold the side bar have no words: give them a name to be read aloud.
// A box that scrolls sideways must be reached by the keyboard, and one with a picture says that it
// scrolls.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("summary")) {
    if (!button.textContent.trim()) button.setAttribute("aria-label", "Show the pages below");
  }
  for (const box of document.querySelectorAll(".bd-article :is(table, p, .output)")) {
    if (box.scrollWidth <= box.clientWidth) continue;
    box.tabIndex = 0;
    if (box.querySelector(":scope > img")) box.classList.add("scrolls");
  }
});
