// What is wrong with a page, sentence by sentence: complaints(expected), where `expected` says what the page must tell:
// {kind: "bench" or "simulated", line, version, cpu}. Runs in the page, at the width that it is shown at.
"use strict";

function complaints(expected) {
  const found = [];
  const text = (element) => (element ? element.textContent.trim() : "");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Nothing is wider than the screen but what scrolls in a box of its own.
  const root = document.documentElement, width = root.clientWidth;
  if (root.scrollWidth > width) {
    const wide = all("body *").filter((e) => e.getBoundingClientRect().right > width + 0.5 && !e.closest(".wide, svg"));
    found.push(`the document is ${root.scrollWidth} wide: ${wide.slice(0, 3).map((e) => e.tagName).join(", ")}`);
  }
  for (const box of all(".wide"))
    if (box.getBoundingClientRect().right > width + 0.5 || getComputedStyle(box).overflowX !== "auto")
      found.push("the box of a wide table does not scroll");
  // A box that scrolls shows at its edge that it goes on, also where no bar is to be seen; and so does text that is cut.
  for (const box of all(".wide")) {
    const style = getComputedStyle(box);
    const shades = style.backgroundImage.split("linear-gradient").length - 1;
    if (box.scrollWidth > box.clientWidth && (shades < 4 || !/local.*scroll/.test(style.backgroundAttachment)))
      found.push("a table goes on behind the edge, and nothing shows it");
  }
  for (const words of all("svg text"))
    if (/[.]{3}$/.test(words.firstChild?.data || "") && !text(words.querySelector("title")))
      found.push(`the end of a name is nowhere: ${text(words)}`);
  for (const element of all("body *"))
    if (["hidden", "clip"].includes(getComputedStyle(element).overflowX) && element.scrollWidth > element.clientWidth + 1 && !element.closest("svg"))
      found.push(`something is cut: ${element.tagName} ${text(element).slice(0, 40)}`);
  for (const table of all("table"))
    if (!table.closest(".wide")) found.push("a table stands in no box that scrolls");

  if (expected.kind === "bench") opening(), contents(), all("table").forEach(ties);
  all("svg").forEach(chart);
  return found;

  function opening() {
    const first = document.querySelector("h1").nextElementSibling;
    const sentence = text(first);
    if (!first.classList.contains("found")) found.push("the page does not open with what was found");
    else if (!sentence.endsWith(".") || !/\d/.test(sentence) || /\d+ results/.test(sentence) || /[.!?] /.test(sentence))
      found.push(`it does not open with one sentence of what was found, with figures: ${sentence}`);
    if (text(document.querySelector(".line")) !== expected.line) found.push("the command line is not there");
    const facts = text(document.querySelector(".facts"));
    if (!/date: \d{4}-\d\d-\d\d/.test(facts)) found.push("the date is not there");
    if (!facts.includes(expected.version)) found.push(`not the version and commit: ${expected.version}`);
    if (!facts.includes(`cpu: ${expected.cpu}`)) found.push(`not the CPU: ${expected.cpu}`);
  }

  function contents() {
    const links = all("nav a"), sections = all("section");
    if (links.length === 0 || links.length !== sections.length)
      found.push(`the contents have ${links.length} links, the page has ${sections.length} sections`);
    for (const link of links) {
      const target = document.getElementById(link.getAttribute("href").slice(1));
      if (!target) found.push(`a link of the contents leads nowhere: ${link.getAttribute("href")}`);
      else if (text(target.querySelector("h2")) !== text(link))
        found.push(`a link is called otherwise than its target: ${text(link)}`);
    }
  }

  // Rows with the least median, and all whose tenth percentile does not lie above its ninetieth, are marked so; a tie as a tie.
  function ties(table) {
    const titles = all("th", table).map(text);
    const column = (...names) => titles.findIndex((title) => names.includes(title));
    const [time, low, high, mark, group, counted] =
      [column("ms/step"), column("p10"), column("p90"), column("fastest", "best by"), column("ranks"), column("MB/host")];
    if (time < 0 || mark < 0) return;
    const groups = new Map();
    for (const row of all("tbody tr", table)) {
      const cells = all("td", row).map(text);
      if (counted >= 0 && cells[counted] === "-") continue;
      const name = group < 0 ? "" : cells[group];
      groups.set(name, [...(groups.get(name) || []), cells]);
    }
    for (const rows of groups.values()) {
      const winner = rows.reduce((a, b) => (Number(b[time]) < Number(a[time]) ? b : a));
      const marks = rows.map((row) => /yes|tie|time/.test(row[mark])), tie = marks.filter((marked) => marked).length > 1;
      rows.forEach((row, i) => {
        const above = Number(row[low]) - Number(winner[high]);  // of rounded numbers
        const must = row === winner || above < -0.0011, may = must || above < 0.0011;
        const who = row.slice(0, 2).join(" ");
        if (must && !marks[i]) found.push(`not marked as fastest or as a tie: ${who}`);
        if (!may && marks[i]) found.push(`marked as fastest without being it: ${who}`);
        if (marks[i] && /tie/.test(row[mark]) !== tie) found.push(`a tie is not called one: ${who}`);
      });
    }
  }

  function chart(svg) {
    const title = text(svg.closest("figure")?.querySelector("figcaption"));
    const name = title || svg.getAttribute("aria-label");
    if (!title || svg.getAttribute("aria-label") !== title) found.push(`a chart is not called what stands above it: ${name}`);
    const outer = svg.getBoundingClientRect(), boxes = all("text", svg).map((e) => [text(e), e.getBoundingClientRect()]);
    if (outer.right > width + 0.5) found.push(`a chart is cut: ${name}`);
    for (const [words, box] of boxes)
      if (box.left < outer.left - 0.5 || box.right > outer.right + 0.5 || box.top < outer.top - 0.5 ||
          box.bottom > outer.bottom + 0.5)
        found.push(`text leaves its chart: "${words}" of ${name}`);
    boxes.forEach(([words, a], i) => boxes.slice(i + 1).forEach(([others, b]) => {
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2)
        found.push(`texts lie on each other: "${words}", "${others}" of ${name}`);
    }));
    const sizes = all("text", svg).map((e) => parseFloat(getComputedStyle(e).fontSize));
    const letters = outer.width / svg.viewBox.baseVal.width * Math.min(...sizes);
    if (letters < 8) found.push(`letters of ${letters.toFixed(1)} px: ${name}`);

    const lines = all("g.line", svg), numbers = all("text[text-anchor=end]", svg);
    if (lines.length > 0 && numbers.length < 2) found.push(`a scale of ${numbers.length} numbers: ${name}`);
    const keys = all("g.key", svg).map(look);
    if (all("polyline", svg).length !== 2 * lines.length || keys.length !== lines.length)
      found.push(`${lines.length} lines and ${keys.length} entries of the legend: ${name}`);
    lines.map(look).forEach((line, i) => {
      if (line.marks.length > 0 && line.look !== keys[i]?.look)
        found.push(`the legend shows another line than line ${i + 1} of ${name}`);
    });
    keys.forEach((key, i) => keys.slice(i + 1).forEach((other) => {
      if (key.look === other.look) found.push(`only colour tells lines apart: "${key.name}", "${other.name}" of ${name}`);
    }));
    if (keys.some((key) => key.name === "")) found.push(`a line without a name: ${name}`);
  }

  // How a line looks without colour: its dashes, and the shape of its marks.
  function look(group) {
    const marks = new Set(all("circle, polygon", group).map((e) => {
      const [a, b, ...more] = e.points || [], hollow = e.getAttribute("fill") === "#fff" ? " hollow" : "";
      const turned = b && Math.round(Math.atan2(b.y - a.y, b.x - a.x) * 12 / Math.PI);  // coordinates are rounded
      return `${e.tagName} ${more.length} ${turned}${hollow}`;
    }));
    const dashes = group.querySelector("polyline").getAttribute("stroke-dasharray") || "";
    return {name: text(group.querySelector("text")), marks: [...marks], look: [dashes, ...marks].join(" | ")};
  }
}
