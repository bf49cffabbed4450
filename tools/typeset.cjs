// Typesets the formulas of pages, so that no browser has to: of a site (build_site.py) in HTML with
// a stylesheet, and of a book (book.py) in MathML, if the first argument is "book".
const fs = require("node:fs");
const path = require("node:path");
const MATHJAX = require("mathjax/es5/node-main.js");

// A page has \(…\) in a span and \[…\] in a div, escaped for HTML, and a script to typeset them.
const FORMULA = /(class="math\b[^"]*"[^>]*>\s*)\\([([])([\s\S]*?)\\[)\]]/g;
const SCRIPT = /<script[^>]*mathjax[\s\S]*?<\/script>|<script>window\.MathJax[\s\S]*?<\/script>/g;
const SIGNS = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'" };
const STYLES = path.join("_static", "mathjax", "formulas.css");

async function typeset(site, pages) {
  const MathJax = await MATHJAX.init({
    loader: {
      load: ["input/tex", "output/chtml", "adaptors/liteDOM", "a11y/assistive-mml"],
      versionWarnings: false,
    },
    options: { enableAssistiveMml: true },
    chtml: { fontURL: "output/chtml/fonts/woff-v2", scale: 1.15 }, // as high as the text's letters
    startup: { typeset: false },
  });
  const { adaptor } = MathJax.startup;
  const isBook = site === "book";
  const formula = (page) => (_all, before, mark, tex) => {
    const source = tex.replace(/&\S+?;/g, (sign) => SIGNS[sign] ?? sign);
    const display = mark === "[";
    const html = isBook
      ? MathJax.tex2mml(source, { display })
      : adaptor.outerHTML(MathJax.tex2chtml(source, { display }));
    if (html.includes("merror")) throw new Error(`${page}: ${source} cannot be typeset`);
    return before + html;
  };
  for (const page of pages) {
    const before = fs.readFileSync(page, "utf8").replace(SCRIPT, "");
    const after = before.replace(FORMULA, formula(page));
    const styles = path.relative(path.dirname(page), path.join(site, STYLES));
    const link = `<link rel="stylesheet" href="${styles}"></head>`;
    fs.writeFileSync(page, isBook || after === before ? after : after.replace("</head>", link));
  }
  if (isBook) return;
  fs.writeFileSync(path.join(site, STYLES), adaptor.textContent(MathJax.chtmlStylesheet()));
}

const [site, ...pages] = process.argv.slice(2);
typeset(site, pages).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
