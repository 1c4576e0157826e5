// The page of explained rows: one state, redrawn after every choice.

const state = { row: 0, label: 0, step: 0, head: -1 }; // head -1 is the mean over heads

const unpacked = new Map();

function attention(row) {
  if (!unpacked.has(row)) unpacked.set(row, { toInput: unpack(row.toInput), toLabels: unpack(row.toLabels) });
  return unpacked.get(row);
}

// Weights of the chosen step and head: N numbers of one label, or K x K of all labels.
function slice(values, size) {
  const T = DATA.steps, H = DATA.heads;
  const of = (head) => values.subarray((state.step * H + head) * size, (state.step * H + head + 1) * size);
  if (values.length !== T * H * size) return new Float64Array(size);
  if (state.head >= 0) return of(state.head);
  const mean = new Float64Array(size);
  for (let head = 0; head < H; head++) of(head).forEach((value, i) => { mean[i] += value / H; });
  return mean;
}

function inputWeights(row) {
  const N = row.nodes.length;
  return slice(attention(row).toInput, row.labels.length * N).subarray(state.label * N, (state.label + 1) * N);
}

function labelWeights(row) {
  return slice(attention(row).toLabels, row.labels.length ** 2);
}

function status(row, i) {
  if (row.known !== null && row.known[i] !== null) return row.known[i] ? "given" : "refused";
  const truth = row.truth === null ? null : row.truth[i];
  if (row.chosen[i]) return truth === true ? "right" : truth === false ? "wrong" : "chosen";
  return truth === true ? "missed" : "";
}

const GLYPH = { given: "●", refused: "⊘", right: "✓", wrong: "✕", missed: "○", chosen: "✓", "": "" };
const MEANING = { given: "known to be true", refused: "known to be false", right: "correctly predicted", wrong: "wrongly predicted", missed: "true, but missed", chosen: "predicted", "": "not predicted" };

function drawSummary(row) {
  const box = byId("summary");
  const labels = row.labels.map((_, i) => i).filter((i) => status(row, i));
  const chips = make("ul", { class: "chips", "aria-label": "Predicted and true labels" });
  for (const i of labels) {
    const kind = status(row, i);
    chips.append(make("li", {}, make("button", {
      type: "button", class: kind, "aria-pressed": String(i === state.label), "data-label": i, onclick: () => chooseLabel(i),
      "data-tip": shorten(row.labels[i], 300) + ": " + MEANING[kind] + ", " + percent(row.proba[i]) + ", cut-off " + percent(row.threshold[i]),
    }, make("span", { class: "glyph", "aria-hidden": "true", text: GLYPH[kind] }), make("span", { class: "name", dir: "auto", text: shorten(row.labels[i], 200) }),
      make("span", { class: "small number", text: percent(row.proba[i]) }))));
  }
  const kinds = new Set(labels.map((i) => status(row, i)));
  const legend = make("p", { class: "legend small" });
  for (const kind of ["given", "refused", "right", "chosen", "wrong", "missed"]) if (kinds.has(kind)) legend.append(make("span", { class: kind + "-key", text: GLYPH[kind] + " " + MEANING[kind] }));
  legend.append(make("span", { text: "Decision rule: " + DATA.rule }));
  replaceAll(box, labels.length ? chips : make("p", { class: "lead", text: "No label is predicted for this row, and none is known to be true." }), legend,
    row.note ? make("p", { class: "fine", text: row.note }) : null);
}

const STAGE_WORDS = { "0": "initial", ".1": "after input", ".2": "after labels" };

function drawStages(row) {
  const head = make("tr", {}, make("th", { class: "label-column", scope: "col" }, make("span", { class: "small", text: "Label" })));
  DATA.stages.forEach((stage) => {
    const words = STAGE_WORDS[stage === "0" ? "0" : stage.slice(stage.indexOf("."))];
    const inside = [make("b", { text: stage }), make("span", { text: words })];
    if (stage === "0") { head.append(make("th", { scope: "col" }, make("div", { class: "plain" }, ...inside))); return; }
    const step = parseInt(stage, 10) - 1;
    head.append(make("th", { scope: "col" }, make("button", { type: "button", "data-stage": stage, "aria-pressed": String(step === state.step), "aria-label": "Stage " + stage + ", " + words + ": show the attention of step " + (step + 1), onclick: () => { state.step = step; draw(); } }, ...inside)));
  });
  const body = make("tbody");
  row.labels.forEach((name, i) => {
    const kind = status(row, i);
    const line = make("tr", { "data-label": i, "aria-selected": String(i === state.label), class: row.truth !== null && row.truth[i] === true ? "true" : null });
    line.append(make("th", { scope: "row" }, make("button", {
      type: "button", class: kind, "data-pick": i, onclick: () => chooseLabel(i), "aria-pressed": String(i === state.label),
      "aria-label": shorten(name, 200) + ", " + MEANING[kind] + ", " + percent(row.proba[i]), "data-tip": shorten(name, 300) + ": " + MEANING[kind],
    }, make("span", { class: "glyph", "aria-hidden": "true", text: GLYPH[kind] }), make("span", { class: "name", dir: "auto", text: shorten(name, 120) }))));
    DATA.stages.forEach((stage, g) => {
      const p = row.stages[g][i], before = g ? row.stages[g - 1][i] : p, moved = p - before, last = g === DATA.stages.length - 1;
      const sign = Math.abs(moved) >= 0.05 ? make("span", { class: moved > 0 ? "rise" : "fall", "aria-hidden": "true", text: (moved > 0 ? "▲" : "▼") + shortNumber(Math.abs(moved)) }) : null;
      line.append(make("td", {}, make("div", {
        class: "cell", "data-stage": stage, "data-label": i, "data-value": p.toFixed(4),
        "data-tip": "stage " + stage + ": " + percent(p) + (g ? " (" + (moved >= 0 ? "+" : "−") + (Math.abs(moved) * 100).toFixed(1) + " points)" : "") + (last ? ", cut-off " + percent(row.threshold[i]) : ""),
      }, make("div", { class: "fill", style: { height: (100 * p).toFixed(1) + "%" } }),
        last ? make("div", { class: "cut", style: { bottom: (100 * Math.min(row.threshold[i], 0.985)).toFixed(1) + "%" } }) : null,
        make("div", { class: "value" }, make("span", { text: shortNumber(p) }), sign))));
    });
    body.append(line);
  });
  const kept = document.activeElement && document.activeElement.getAttribute("data-pick");
  replaceAll(byId("stages"), make("thead", {}, head), body);
  if (kept !== null && kept !== undefined) focusLabel(state.label);
  byId("stages-lead").textContent = !DATA.steps ? "Each label's probability by the base learners; the notches mark the cut-off. Choose a label to see where its logit comes from." : "Each label's probability as messages arrive: " + (DATA.stages[0] === "0" ? "the initial prediction (0), then " : "") +
    "after messages from the input (t.1) and after messages from the other labels (t.2). ▲ and ▼ mark changes of 5 points or more; the notches mark the cut-off." + (row.truth ? " True labels are in colour and bold." : "");
  byId("stages-left-out").textContent = row.nLabels > row.labels.length
    ? `Shown: ${count(row.labels.length, "label")} of ${row.nLabels.toLocaleString("en")}: the true and predicted ones, ${DATA.steps ? "those they attend to most, and those that changed most" : "and the most probable others"}.` : "All labels are shown.";
}

// Without a network: what the base learners' features say for the label, laid over the input.
function drawSupports(row) {
  const weights = row.supports[state.label];
  replaceAll(byId("input"), drawInput(row, weights));
  byId("input-title").textContent = "What speaks for it in the input";
  byId("input-lead").textContent = "The features listed above that speak for this label, where they lie in the input.";
  byId("top-nodes").previousElementSibling.hidden = true;
}

function drawInputPanel(row) {
  const weights = Array.from(inputWeights(row));
  const shown = weights.reduce((a, b) => a + b, 0);
  replaceAll(byId("input"), drawInput(row, weights));
  byId("input-lead").textContent = `Attention of this label to the input at stage ${state.step + 1}.1, ${headWords()}.`;
  const order = byFalling(weights).slice(0, 8);
  replaceAll(byId("top-nodes"), ...order.map((i) => barItem(row.nodes[i].name, weights[i], weights[order[0]], "node", i)));
  const repeats = row.input.kind === "columns"; // the columns are a list by attention already
  byId("top-nodes").hidden = repeats;
  byId("top-nodes").previousElementSibling.hidden = repeats;
  const parts = [];
  if (row.nNodes > row.nodes.length) parts.push(`Shown: the ${row.nodes.length} most attended of ${count(row.nNodes, "input node")}, with ${percent(Math.min(1, shown))} of this label's attention.`);
  if (!row.exchangesMessages[state.label]) parts.push("This label is not on the row's shortlist: it receives no messages and keeps its initial prediction.");
  byId("input-left-out").textContent = parts.join(" ");
}

function drawNetworkPanel(row) {
  const K = row.labels.length, weights = labelWeights(row);
  const own = Array.from(weights.subarray(state.label * K, (state.label + 1) * K));
  replaceAll(byId("network"), drawNetwork(row, state.label, weights, chooseLabel));
  byId("network-lead").textContent = `Attention among labels at stage ${state.step + 1}.2, ${headWords()}. Arrows point to the label that receives messages; blue: into this label, dashed: out of it.`;
  const order = byFalling(own).filter((j) => own[j] > 0).slice(0, 8);
  replaceAll(byId("top-labels"), ...order.map((j) => barItem(j === state.label ? row.labels[j] + " (itself)" : row.labels[j], own[j], own[order[0]], "label", j)));
  const sum = own.reduce((a, b) => a + b, 0);
  const drawn = K > MOST_DRAWN ? `Drawn: ${MOST_DRAWN} of the ${K} labels shown. ` : "";
  byId("network-left-out").textContent = drawn + (row.nLabels > K ? `${percent(Math.max(0, 1 - sum))} of this label's attention goes to labels that are not shown.` : "");
}

// What the other labels' probabilities would be if the selected label were known.
function drawWhatIf(row) {
  byId("what-if-section").hidden = row.whatIf === null || row.labels.length < 2;
  if (byId("what-if-section").hidden) return;
  const K = row.labels.length, all = unpack(row.whatIf);
  const given = (truth) => all.subarray((state.label * 2 + truth) * K, (state.label * 2 + truth + 1) * K);
  const yes = given(0), no = given(1);
  byId("what-if-lead").textContent = "Probabilities of other labels if this one were known to be true, and if it were known to be false, beside what is known already.";
  const moved = row.labels.map((_, i) => (i === state.label || (row.known !== null && row.known[i] !== null) ? 0 : Math.max(Math.abs(yes[i] - row.proba[i]), Math.abs(no[i] - row.proba[i]))));
  const order = byFalling(moved).filter((i) => moved[i] >= 0.001).slice(0, 8);
  const heading = make("thead", {}, make("tr", {}, ...["label", "now", "if true", "if false"].map((text, i) => make("th", { text, class: i ? "n" : null }))));
  const line = (i) => make("tr", { "data-index": i }, make("td", { dir: "auto", text: shorten(row.labels[i], 120) }), ...[row.proba[i], yes[i], no[i]].map((p) => make("td", { class: "n", text: percent(p) })));
  replaceAll(byId("what-if"), heading, make("tbody", {}, ...order.map(line)));
  byId("what-if-none").textContent = order.length ? "" : "It would change no other label that is shown.";
}

function headWords() {
  return state.head < 0 ? `mean over ${DATA.heads} heads` : `head ${state.head + 1}`;
}

function drawFaithfulness() {
  if (!DATA.faithfulness) return;
  byId("faithfulness").hidden = false;
  const { nodes, labels, rows } = DATA.faithfulness;
  replaceAll(byId("checks"), ...[nodes, labels].map((check, n) => {
    const box = make("div", { class: "check", "data-check": n ? "labels" : "nodes" }, make("strong", { text: check.name }), make("p", { class: "small", text: check.question }));
    if (check.attended !== null && !check.few) {
      const widest = Math.max(Math.abs(check.attended), Math.abs(check.random), check.everything || 0, 1e-9);
      const list = make("ol", { class: "bars" });
      const lines = [["Most attended", check.attended], ["Random", check.random]];
      if (check.everything !== null) lines.push(["All other labels", check.everything]);
      for (const [name, value] of lines) {
        const item = barItem(name, Math.max(0, value), widest, n ? "label" : "node", 0);
        item.querySelector(".number").textContent = (value * 100).toFixed(Math.abs(value) < 0.0995 ? 2 : 1) + " pt";
        list.append(item);
      }
      box.append(list);
    }
    box.append(make("p", { class: "verdict", text: check.verdict }));
    if (check.attended !== null && !check.few) box.append(make("p", { class: "small", text: `Mean ${n ? "move" : "fall"} in percentage points over ${count(check.cases, "case")} from ${count(rows, "row")}; standard error of the difference ${(check.error * 100).toFixed(2)}; larger than random in ${percent(check.wins)} of the cases.` }));
    return box;
  }));
}

function radios(id, options, get, set) {
  const field = byId(id);
  options.forEach(([value, word]) => {
    const input = make("input", { type: "radio", name: id, value, onchange: () => { set(value); draw(); } });
    field.append(make("label", {}, input, make("span", { text: word })));
  });
}

function chooseLabel(i) {
  state.label = i;
  draw();
}

function focusLabel(i) {
  const button = document.querySelector(`#stages [data-pick="${i}"]`);
  if (button) button.focus({ preventScroll: true });
}

function chooseRow(number) {
  state.row = Math.min(Math.max(0, number), DATA.rows.length - 1);
  const row = DATA.rows[state.row];
  const positive = row.labels.findIndex((_, i) => status(row, i));
  state.label = Math.max(0, positive);
  draw();
}

function draw() {
  const row = DATA.rows[state.row];
  byId("row").value = String(state.row);
  byId("previous").disabled = state.row === 0;
  byId("next").disabled = state.row === DATA.rows.length - 1;
  byId("selected-label").textContent = shorten(row.labels[state.label], 120);
  for (const [id, value] of [["step", state.step], ["head", state.head]])
    for (const input of document.getElementsByName(id)) input.checked = Number(input.value) === value;
  drawSummary(row);
  drawStages(row);
  drawWaterfall(row, state.label);
  if (DATA.steps) { drawInputPanel(row); drawNetworkPanel(row); } else drawSupports(row);
  drawWhatIf(row);
  const place = "#row=" + row.row;
  if (location.hash !== place) history.replaceState(null, "", place);
}

// An option holds plain text only, so isolating signs keep a right-to-left name from turning its neighbours.
function apart(text) {
  return "\u2068" + text + "\u2069";
}

function fromAddress() {
  const wanted = /^#row=(\d+)$/.exec(location.hash);
  const found = wanted ? DATA.rows.findIndex((row) => row.row === Number(wanted[1])) : -1;
  return Math.max(0, found);
}

function start() {
  setUpTheme();
  setUpTips();
  byId("title").textContent = DATA.title;
  if (DATA.testSet) { byId("test-set-link").href = DATA.testSet; byId("test-set-link").hidden = false; }
  DATA.rows.forEach((row, i) => byId("row").append(make("option", { value: i, text: apart(shorten(row.id, 60)) + " · " + (row.labels.filter((_, k) => row.chosen[k]).map((name) => apart(shorten(name, 24))).join(", ") || "no label") })));
  byId("row").addEventListener("change", (event) => chooseRow(Number(event.target.value)));
  byId("previous").addEventListener("click", () => chooseRow(state.row - 1));
  byId("next").addEventListener("click", () => chooseRow(state.row + 1));
  byId("stages").addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (!(event.key in moves) || !event.target.hasAttribute("data-pick")) return;
    event.preventDefault();
    const K = DATA.rows[state.row].labels.length;
    chooseLabel((state.label + moves[event.key] + K) % K);
    focusLabel(state.label);
  });
  // Without a network there are no messages: only the sum and the input's own terms are shown.
  for (const id of ["step", "head", "network-section"]) byId(id).hidden = !DATA.steps;
  byId("input-section").parentElement.classList.toggle("two", DATA.steps > 0);
  byId("input-section").hidden = !DATA.steps && ["columns", "vector"].includes(DATA.kind);
  radios("step", Array.from({ length: DATA.steps }, (_, t) => [t, String(t + 1)]), () => state.step, (t) => { state.step = t; });
  radios("head", [[-1, "mean"], ...Array.from({ length: DATA.heads }, (_, h) => [h, String(h + 1)])], () => state.head, (h) => { state.head = h; });
  addEventListener("hashchange", () => { const place = fromAddress(); if (place !== state.row) chooseRow(place); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  drawFaithfulness();
  byId("about").textContent = "Made by lampnet. This page contains everything it shows and sends nothing." + (!DATA.steps ? "" : " The attention weights are those of the softmax, without dropout, as used in the prediction.");
  chooseRow(fromAddress());
}

start();
