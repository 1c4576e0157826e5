// The page of a whole set of rows.

const ROWS_SHOWN = 150;
const name = (i) => shorten(DATA.labels[i], 80);
const known = new Set(DATA.explained);

function cell(text, isNumber) {
  return make("td", { class: isNumber ? "n" : null, dir: isNumber ? null : "auto", text });
}

function header(words, numbers) {
  return make("thead", {}, make("tr", {}, ...words.map((word, i) => make("th", { scope: "col", class: numbers.includes(i) ? "n" : null, text: word }))));
}

function rowName(row, id) {
  const text = shorten(id, 60);
  if (DATA.report && known.has(row)) return make("td", { dir: "auto" }, make("a", { href: DATA.report + "#row=" + row, text }));
  return make("td", { dir: "auto", text });
}

function drawTiles() {
  const tiles = byId("tiles");
  const add = (word, value) => tiles.append(make("div", {}, make("dt", { text: word }), make("dd", { text: value })));
  add("rows", DATA.rows.toLocaleString("en"));
  add("labels", DATA.labels.length.toLocaleString("en"));
  const words = { subset_accuracy: "subset accuracy", hamming_accuracy: "Hamming accuracy", example_f1: "example F1", micro_f1: "micro F1", macro_f1: "macro F1" };
  for (const [key, word] of Object.entries(words)) if (DATA.scores && key in DATA.scores) add(word, DATA.scores[key].toFixed(3));
  byId("rule").textContent = (DATA.of > DATA.rows ? `A random part of ${count(DATA.of, "row")}. ` : "") + (DATA.trainedOn ? "The model was trained on these rows, so scores are too good and messages look more certain than on new rows. " : "") + "Decision rule: " + DATA.rule + "." + (DATA.scores ? "" : " The rows have no labels, so there are no scores.");
}

function drawChanged() {
  const total = { corrected: 0, broken: 0, unknown: 0 };
  const list = make("ul", { class: "small" });
  DATA.changed.forEach((step, t) => {
    for (const key of Object.keys(total)) total[key] += step[key];
    list.append(make("li", { "data-step": t, text: DATA.scores
      ? `Step ${t + 1}: ${step.corrected.toLocaleString("en")} from wrong to right, ${step.broken.toLocaleString("en")} from right to wrong`
      : `Step ${t + 1}: ${count(step.unknown, "decision")} changed` }));
  });
  const tiles = make("dl", { class: "tiles", id: "changed-tiles" });
  const lines = DATA.scores ? [["wrong → right", total.corrected], ["right → wrong", total.broken], ["balance", total.corrected - total.broken]] : [["changed decisions", total.unknown]];
  for (const [word, value] of lines) tiles.append(make("div", {}, make("dt", { text: word }), make("dd", { text: (word === "balance" && value > 0 ? "+" : "") + value.toLocaleString("en") })));
  const stages = DATA.stageScores ? make("p", { class: "small", text: "Example F1 by stage, with the same decision rule: " + DATA.stages.map((stage, g) => stage + " " + DATA.stageScores[g].toFixed(3)).join(" · ") }) : null;
  replaceAll(byId("changed"), tiles, list, stages);
  const body = make("tbody");
  for (const [row, label, step, before, after, right, source] of DATA.changes)
    body.append(make("tr", { "data-right": String(right) }, rowName(row, DATA.ids[row]), cell(name(label)), cell("t = " + (step + 1)), cell(percent(before) + " → " + percent(after), true),
      cell(right === null ? "" : right ? "✓ became right" : "✕ became wrong"), cell(source >= 0 ? name(source) : "")));
  replaceAll(byId("changes"), header(["Row", "Label", "Step", "Probability", "Outcome", "Strongest source"], [3]), body);
  byId("changes-left-out").textContent = DATA.nChanges > DATA.changes.length ? `Shown: the ${DATA.changes.length} largest of ${count(DATA.nChanges, "changed decision")}.` : count(DATA.nChanges, "changed decision") + ".";
}

function drawAttention() {
  byId("attention-lead").textContent = "Mean attention of one label to another, over the rows where the first is true or predicted, against how often the two occur together." +
    (DATA.pairs.some((pair) => pair[3] === 0) ? " Attention to a label that is never there together with the first is no sign that they belong together: such a message may speak against the label, or mean nothing." : "") +
    (DATA.agreement === null ? "" : ` Rank correlation over all such pairs: ${DATA.agreement.toFixed(2)}; a value near 1 means that attention repeats co-occurrence.`);
  const body = make("tbody");
  for (const [i, j, attention, together, rows] of DATA.pairs)
    body.append(make("tr", { "data-from": j, "data-to": i }, cell(name(i)), cell(name(j)), cell(percent(attention), true), cell(together === 0 ? "never" : percent(together), true), cell(rows.toLocaleString("en"), true)));
  replaceAll(byId("pairs"), header(["Label", "Attends to", "Attention", "Together", "Rows"], [2, 3, 4]), body);
  byId("attention-left-out").textContent = `Shown: ${DATA.pairs.length} strongest pairs and ${DATA.dots.length} dots of ${count(DATA.nPairs, "ordered pair")}.`;
  drawScatter();
}

function drawScatter() {
  const box = byId("scatter"), width = Math.max(260, box.clientWidth || 420), height = 330, left = 46, right = 26, top = 28, bottom = 40;
  const most = Math.max(0.01, ...DATA.dots.map((dot) => dot[2]));
  const x = (value) => left + value * (width - left - right), y = (value) => height - bottom - (value / most) * (height - bottom - top);
  const drawing = makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Attention against co-occurrence, one dot per pair of labels" });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    drawing.append(makeSvg("line", { x1: left, x2: width - right, y1: y(part * most), y2: y(part * most), class: "axis" }),
      makeSvg("text", { x: left - 6, y: y(part * most) + 4, "font-size": 11, "text-anchor": "end", class: "soft-text", text: percent(part * most) }),
      makeSvg("text", { x: x(part), y: height - bottom + 16, "font-size": 11, "text-anchor": "middle", class: "soft-text", text: part * 100 + "%" }));
  }
  drawing.append(makeSvg("text", { x: width / 2, y: height - 4, "font-size": 12, "text-anchor": "middle", class: "soft-text", text: "share of the label's rows that have the other label too" }));
  drawing.append(makeSvg("text", { x: left, y: 11, "font-size": 12, class: "soft-text", text: "attention" }));
  for (const [i, j, attention, together] of DATA.dots)
    drawing.append(makeSvg("circle", { cx: x(together).toFixed(1), cy: y(attention).toFixed(1), r: 4, class: "dot", "data-tip": name(i) + " attends to " + name(j) + ": " + percent(attention) + (together === 0 ? ", never together" : ", together " + percent(together)) }));
  replaceAll(box, drawing);
}

// The mean size of what each part and feature adds to the logits.
function drawImportance() {
  const found = DATA.importance;
  byId("importance-section").hidden = !found || !found.parts.length;
  if (byId("importance-section").hidden) return;
  byId("importance-lead").textContent = `The mean size of what each part and each feature adds to the labels' logits, through all base learners, over ${count(found.rows, "row")}. Messages of the network count as parts of their own.`;
  const bars = (listed) => listed.map(([text, size], i) => {
    const item = barItem(text, size, listed[0][1], "label", i);
    item.querySelector(".number").textContent = size.toFixed(size < 0.1 ? 3 : 2);
    return item;
  });
  const parts = found.parts.map((one) => [one.part, one.mean]).sort((a, b) => b[1] - a[1]).slice(0, 30);
  replaceAll(byId("importance-parts"), ...bars(parts));
  const choice = byId("importance-label");
  if (!choice.options.length) ["all labels", ...found.byLabel.map((one) => one[0])].forEach((text, i) => choice.append(make("option", { value: i, text: shorten(text, 60) })));
  const chosen = Number(choice.value) || 0, features = chosen ? found.byLabel[chosen - 1][1] : found.features.slice(0, 15);
  const called = (one) => (one.part && one.part !== one.name && !one.name.startsWith(one.part + "=") ? one.part + ": " : "") + one.name;
  replaceAll(byId("importance-features"), ...bars(features.map((one) => [called(one), one.size])));
}

const sorting = { column: 1, falling: true };

function drawPerLabel() {
  const words = DATA.scores ? ["Label", "True", "Predicted", "Precision", "Recall", "F1"] : ["Label", "Predicted"];
  const query = byId("label-search").value.toLowerCase();
  const rows = DATA.perLabel.filter((row) => DATA.labels[row[0]].toLowerCase().includes(query));
  rows.sort((a, b) => {
    const [p, q] = [a, b].map((row) => (sorting.column === 0 ? DATA.labels[row[0]] : row[sorting.column]));
    if (p === null || q === null) return (p === null) - (q === null);
    const way = typeof p === "string" ? p.localeCompare(q) : p - q;
    return sorting.falling ? -way : way;
  });
  const head = make("tr", {}, ...words.map((word, i) => make("th", { scope: "col", class: i ? "n" : null, "aria-sort": i === sorting.column ? (sorting.falling ? "descending" : "ascending") : null },
    make("button", { type: "button", "data-column": i, text: word + (i === sorting.column ? (sorting.falling ? " ↓" : " ↑") : ""), onclick: () => { sorting.falling = sorting.column === i ? !sorting.falling : i > 0; sorting.column = i; drawPerLabel(); document.querySelector(`#per-label [data-column="${i}"]`).focus(); } }))));
  const body = make("tbody");
  for (const row of rows) body.append(make("tr", { "data-label": row[0] }, cell(name(row[0])), ...row.slice(1).map((value, i) => cell(value === null ? "–" : i > 1 ? value.toFixed(2) : value.toLocaleString("en"), true))));
  replaceAll(byId("per-label"), make("thead", {}, head), body);
}

function drawConfusions() {
  const body = make("tbody");
  for (const [missed, wrong, rows] of DATA.confusions || []) body.append(make("tr", {}, cell(name(missed)), cell(name(wrong)), cell(rows.toLocaleString("en"), true)));
  if (!body.childElementCount) body.append(make("tr", {}, make("td", { colspan: 3, text: DATA.confusions ? "No row has both a missed and a wrong label." : "Not known without true labels." })));
  replaceAll(byId("confusions"), header(["Missed", "Predicted instead", "Rows"], [2]), body);
}

function tags(labels, kind, glyph) {
  return labels.slice(0, 25).map((i) => make("span", { class: "tag " + kind, dir: "auto", text: glyph + shorten(DATA.labels[i], 40) }));
}

function drawRows() {
  const query = byId("row-search").value.toLowerCase(), only = byId("only-wrong").checked;
  const fits = ([row, id, right, wrong, missed]) => (!only || wrong.length + missed.length > 0) &&
    (!query || id.toLowerCase().includes(query) || [...right, ...wrong, ...missed].some((i) => DATA.labels[i].toLowerCase().includes(query)));
  const found = DATA.list.filter(fits);
  const body = make("tbody");
  for (const [row, id, right, wrong, missed] of found.slice(0, ROWS_SHOWN)) {
    const more = Math.max(0, right.length - 25) + Math.max(0, wrong.length - 25) + Math.max(0, missed.length - 25);
    body.append(make("tr", { "data-row": row }, rowName(row, id), make("td", {}, ...tags(right, "right", DATA.scores ? "✓ " : ""), ...tags(wrong, "wrong", "✕ "), ...tags(missed, "missed", "○ "), more ? make("span", { class: "small", text: `and ${more} more` }) : null)));
  }
  replaceAll(byId("rows"), header(["Row", DATA.scores ? "Labels: ✓ right, ✕ wrong, ○ missed" : "Predicted labels"], []), body);
  byId("row-count").textContent = count(found.length, "row") + " found" + (found.length > ROWS_SHOWN ? `, the first ${ROWS_SHOWN} shown` : "");
  byId("rows-left-out").textContent = DATA.rows > DATA.list.length ? `The list holds the first ${DATA.list.length.toLocaleString("en")} of ${count(DATA.rows, "row")}.` : "";
}

function start() {
  setUpTheme();
  setUpTips();
  byId("title").textContent = DATA.title;
  if (DATA.report) { byId("report-link").href = DATA.report; byId("report-link").hidden = false; }
  drawTiles();
  const messages = DATA.changed.length > 0; // none without a network
  for (const id of ["changed-section", "attention-section"]) byId(id).hidden = !messages;
  if (messages) { drawChanged(); drawAttention(); }
  drawImportance();
  byId("importance-label").addEventListener("change", drawImportance);
  drawPerLabel();
  drawConfusions();
  drawRows();
  byId("label-search").addEventListener("input", drawPerLabel);
  byId("row-search").addEventListener("input", drawRows);
  byId("only-wrong").addEventListener("change", drawRows);
  if (messages) addEventListener("resize", drawScatter);
  byId("about").textContent = "Made by lampnet. This page contains everything it shows and sends nothing.";
}

start();
