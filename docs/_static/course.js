// The theme puts the link to the home page into no landmark.
// The buttons that unfold the side bar have no words: give them a name to be read aloud. Those that
// unfold code have words, which a name hides.
// A box that scrolls sideways must be reached by the keyboard, and one with a picture says that it
// scrolls.
document.addEventListener("DOMContentLoaded", () => {
  const logo = document.querySelector(".sidebar-primary-item:has(.logo)");
  logo?.setAttribute("role", "navigation");
  logo?.setAttribute("aria-label", "Home");
  for (const button of document.querySelectorAll("summary")) {
    if (button.textContent.trim()) button.removeAttribute("aria-label");
    else button.setAttribute("aria-label", "Show the pages below");
  }
});
// only now have all pictures their widths
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".bd-article :is(table, .output)")) {
    if (box.scrollWidth <= box.clientWidth) continue;
    box.tabIndex = 0;
    if (box.querySelector(":scope > :is(img, svg)")) box.classList.add("scrolls");
  }
});
