// A label's logit as a sum: one bar per source, each beginning where the one before it ended.

const SOURCE_WORDS = { start: "start: how frequent the label is", linear: "linear model", knn: "similar training rows", forest: "forest", known: "known" };

function signed(value) {
  const text = Math.abs(value).toFixed(Math.abs(value) < 0.1 ? 3 : 2);
  return (Number(text) === 0 ? "" : value < 0 ? "−" : "+") + text;
}

function sourceWord(source) {
  return SOURCE_WORDS[source] || source;
}

function drawWaterfall(row, label) {
  const one = row.sums[label];
  let reached = 0;
  const steps = one.contributions.map((source) => { const from = reached; reached += source.value; return { source, from, to: reached }; });
  const low = Math.min(0, one.logit, ...steps.map((step) => step.to)), high = Math.max(0, one.logit, ...steps.map((step) => step.to));
  const span = Math.max(high - low, 1e-9), at = (value) => (100 * (value - low)) / span;
  const bar = (name, from, to, text, kind, source) => make("li", { "data-source": source, "data-value": (to - from).toFixed(6) },
    make("span", { class: "name", dir: "auto", text: name, "data-tip": name + ": " + text }),
    make("span", { class: "lane", "aria-hidden": "true" }, make("span", { class: "zero", style: { left: at(0).toFixed(2) + "%" } }),
      make("i", { class: kind, style: { left: at(Math.min(from, to)).toFixed(2) + "%", width: Math.max(0.3, (100 * Math.abs(to - from)) / span).toFixed(2) + "%" } })),
    make("span", { class: "number", text }));
  const list = steps.map(({ source, from, to }) => bar(sourceWord(source.source), from, to, signed(source.value), source.value < 0 ? "against" : "for", source.source));
  list.push(bar("logit: probability " + percent(row.proba[label]), 0, one.logit, signed(one.logit), "sum", "logit"));
  replaceAll(byId("sum"), ...list);
  byId("sum-lead").textContent = "What each source adds to this label's logit; together they are the prediction. Orange speaks against the label.";
  replaceAll(byId("sum-terms"), ...one.contributions.filter((source) => source.terms.length).map((source) => drawTerms(source)));
  byId("sum-left-out").textContent = one.contributions.some((source) => source.source === "knn")
    ? "Training rows are numbered in the order in which the model was given them, from 0." : "";
}

// The largest terms of one source: features by name, or training rows by their labels.
function drawTerms(source) {
  const widest = Math.max(...source.terms.map((term) => Math.abs(term.value)), 1e-9);
  const list = make("ol", { class: "bars signed" });
  source.terms.forEach((term, i) => {
    const row = term.similarity !== null;
    const name = row ? term.name + ": " + (term.labels.join(", ") || "no label") : (term.part && term.part !== term.name && !term.name.startsWith(term.part + "=") ? term.part + ": " : "") + term.name;
    const tip = name + " " + signed(term.value) + (row ? ", similarity " + term.similarity.toFixed(2) : "");
    list.append(make("li", { "data-index": i, "data-value": term.value.toFixed(6) },
      make("span", { class: "name", dir: "auto", text: shorten(name, 200), "data-tip": shorten(tip, 300) }),
      make("span", { class: "track" + (term.value < 0 ? " against" : ""), "aria-hidden": "true" }, make("i", { style: { width: ((100 * Math.abs(term.value)) / widest).toFixed(2) + "%" } })),
      make("span", { class: "number", text: signed(term.value) })));
  });
  const rest = source.nTerms - source.terms.length;
  return make("section", { "data-source": source.source }, make("h3", { text: sourceWord(source.source) + " " + signed(source.value) }), list,
    rest > 0 ? make("p", { class: "small", text: `${rest.toLocaleString("en")} more: ${signed(source.others)}` }) : null);
}
