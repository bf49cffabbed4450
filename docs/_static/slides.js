// Upright windows get upright slides; a formula that is wider than its slide becomes smaller.
const size = innerWidth < innerHeight ? { width: 600, height: 1000 } : { width: 1200, height: 720 };
const shrink = () => {
  for (const formula of Reveal.getCurrentSlide().querySelectorAll("div.math")) {
    const excess = formula.scrollWidth / formula.clientWidth;
    if (excess > 1) formula.style.fontSize = `${0.98 / excess}em`;
  }
};
Reveal.initialize({ ...size, margin: 0.06, hash: true, scrollActivationWidth: null });
Reveal.on("slidechanged", shrink);
Reveal.on("ready", () => document.fonts.ready.then(shrink));
