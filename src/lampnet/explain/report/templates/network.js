// The labels shown as a network: an arrow from j to i shows that i attends to j.

const MOST_DRAWN = 16;

function drawNetwork(row, selected, weights, choose) {
  const K = row.labels.length;
  const weight = (i, j) => weights[i * K + j];
  const drawn = labelsDrawn(row, selected, weight);
  const width = Math.max(250, byId("network").clientWidth || 480);
  const narrow = width < 420;
  const side = narrow ? 88 : 124, letters = narrow ? 10 : 13;
  const height = narrow ? 360 : 400;
  const rx = width / 2 - side, ry = height / 2 - 40, cx = width / 2, cy = height / 2;
  const place = new Map(drawn.map((label, n) => {
    const angle = (2 * Math.PI * n) / drawn.length - Math.PI / 2;
    return [label, { x: cx + rx * Math.cos(angle), y: cy + ry * Math.sin(angle), cos: Math.cos(angle), sin: Math.sin(angle) }];
  }));
  const drawing = makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Labels; arrows point to the label that receives messages" });
  drawing.append(makeSvg("defs", {}, arrow("soft"), arrow("into"), arrow("out")));
  const edges = edgesDrawn(drawn, selected, weight);
  const widest = Math.max(1e-9, ...edges.map(([i, j]) => weight(i, j)));
  const order = { soft: 0, out: 1, into: 2 };
  const named = edges.map(([i, j]) => [i, j, i === selected ? "into" : j === selected ? "out" : "soft"]).sort((a, b) => order[a[2]] - order[b[2]]);
  for (const [i, j, kind] of named) drawing.append(edge(place.get(j), place.get(i), weight(i, j), widest, kind, row, i, j));
  for (const label of drawn) drawing.append(labelNode(row, label, place.get(label), label === selected, letters, choose));
  return drawing;
}

function labelsDrawn(row, selected, weight) {
  const K = row.labels.length;
  if (K <= MOST_DRAWN) return Array.from({ length: K }, (_, i) => i);
  const score = Array.from({ length: K }, (_, i) =>
    (i === selected ? 10 : 0) + (row.chosen[i] || (row.truth && row.truth[i]) ? 1 : 0) + 3 * weight(selected, i) + weight(i, selected));
  return byFalling(score).slice(0, MOST_DRAWN).sort((a, b) => a - b);
}

function edgesDrawn(drawn, selected, weight) {
  const edges = [];
  for (const i of drawn) {
    const others = drawn.filter((j) => j !== i && weight(i, j) >= 0.01).sort((a, b) => weight(i, b) - weight(i, a));
    // The two strongest sources of every label, all sources of the selected one.
    for (const j of i === selected ? others : others.slice(0, 2)) edges.push([i, j]);
  }
  return edges;
}

function arrow(kind) {
  return makeSvg("marker", { id: "arrow-" + kind, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
    makeSvg("path", { d: "M0 0.5 L8 4 L0 7.5 Z", class: "arrow-" + kind }));
}

function edge(from, to, value, widest, kind, row, i, j) {
  const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1;
  const bend = 0.14 * length, mx = (from.x + to.x) / 2 - (dy / length) * bend, my = (from.y + to.y) / 2 + (dx / length) * bend;
  const back = Math.hypot(to.x - mx, to.y - my) || 1;
  const ex = to.x - ((to.x - mx) / back) * 11, ey = to.y - ((to.y - my) / back) * 11;
  return makeSvg("path", {
    d: `M${from.x.toFixed(1)} ${from.y.toFixed(1)} Q${mx.toFixed(1)} ${my.toFixed(1)} ${ex.toFixed(1)} ${ey.toFixed(1)}`,
    class: "edge " + kind, "stroke-width": (0.6 + 5.4 * (value / widest)).toFixed(2), "marker-end": `url(#arrow-${kind})`,
    "data-from": j, "data-to": i, "data-weight": value.toFixed(6),
    "data-tip": shorten(row.labels[i], 60) + " attends to " + shorten(row.labels[j], 60) + ": " + percent(value),
  });
}

function labelNode(row, label, at, selected, letters, choose) {
  const p = row.proba[label], isTrue = row.truth !== null && row.truth[label] === true;
  const anchor = at.cos > 0.12 ? "start" : at.cos < -0.12 ? "end" : "middle";
  const x = at.x + (anchor === "start" ? 14 : anchor === "end" ? -14 : 0);
  const y = at.y + (anchor === "middle" ? (at.sin > 0 ? 24 : -15) : 4 + 6 * at.sin ** 5);
  const pick = () => choose(label);
  const node = makeSvg("g", {
    class: "label-node" + (selected ? " selected" : "") + (isTrue ? " true" : ""), tabindex: 0, role: "button", "data-label": label, "aria-pressed": String(selected),
    "aria-label": shorten(row.labels[label], 120) + ", probability " + percent(p), "data-tip": shorten(row.labels[label], 200) + ": " + percent(p),
    onclick: pick, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } },
  },
    makeSvg("circle", { cx: at.x.toFixed(1), cy: at.y.toFixed(1), r: 9 }),
    makeSvg("circle", { cx: at.x.toFixed(1), cy: at.y.toFixed(1), r: (8 * Math.sqrt(p)).toFixed(1), class: "level" }),
    makeSvg("text", { x: x.toFixed(1), y: y.toFixed(1), "font-size": 12.5, "text-anchor": anchor, text: shorten(row.labels[label], letters) }));
  return node;
}
