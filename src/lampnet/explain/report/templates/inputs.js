// The input itself, with one label's attention laid over it: one drawing per kind of input.

function drawInput(row, weights) {
  const most = Math.max(0, ...weights);
  const level = (i) => (most > 0 ? weights[i] / most : 0);
  const amount = (i) => (DATA.steps ? percent(weights[i]) + " of the attention" : signed(weights[i]));
  const tip = (i) => shorten(row.nodes[i].name, 120) + ": " + amount(i);
  const kind = row.input.kind;
  if (!row.nodes.length) return make("p", { class: "lead", text: "The model knows nothing in this row: it has no input node to attend to." });
  if (kind === "text" && row.nodes.some((node) => node.places.length)) return drawText(row, level, tip, weights);
  if (kind === "image") return drawPicture(row, level, tip, weights);
  if (kind === "dna") return drawBases(row, level, tip, weights);
  if (kind === "molecule" && row.input.drawing.atoms.length) return drawMolecule(row, level, tip, weights);
  if (kind === "columns") return drawColumns(row, level, tip, weights);
  if (kind === "vector") return make("p", { class: "lead", text: "The whole vector is one input node, so every label attends to it fully." });
  return drawWords(row, level, tip, weights);
}

function lit(i, row, level, tip, weights, text) {
  return make("mark", {
    "data-node": i, "data-weight": weights[i].toFixed(6), "data-tip": tip(i), dir: "auto",
    style: { "--a": level(i).toFixed(4) }, text,
  });
}

function drawWords(row, level, tip, weights) {
  const box = make("div", { class: "words", tabindex: 0, role: "group", "aria-label": "Words by attention" });
  for (const i of byFalling(weights)) box.append(lit(i, row, level, tip, weights, shorten(row.nodes[i].name, 400)));
  return box;
}

function drawText(row, level, tip, weights) {
  const box = make("div", { class: "text", dir: "auto", tabindex: 0, role: "group", "aria-label": "The text" });
  const spans = [];
  row.nodes.forEach((node, i) => node.places.forEach(([start, end]) => spans.push([start, end, i])));
  spans.sort((a, b) => a[0] - b[0]);
  let last = 0;
  for (const chunk of row.input.chunks) {
    if (chunk.start > last) box.append(make("span", { class: "gap", text: " … " + count(chunk.start - last, "character") + " left out … " }));
    const signs = Array.from(chunk.text); // code points, as the places are counted
    let at = 0;
    for (const [start, end, i] of spans) {
      const a = start - chunk.start, b = end - chunk.start;
      if (a < at || b > signs.length) continue;
      box.append(signs.slice(at, a).join(""), lit(i, row, level, tip, weights, signs.slice(a, b).join("")));
      at = b;
    }
    box.append(signs.slice(at).join(""));
    last = chunk.start + signs.length;
  }
  return box;
}

function drawPicture(row, level, tip, weights) {
  const { width, height, picture } = row.input;
  const image = make("img", { src: picture, alt: "The picture of this row", width, height });
  const over = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "group", "aria-label": "Attention by patch" });
  const size = Math.max(width, height);
  row.nodes.forEach((node, i) => {
    const [left, top, right, bottom] = node.places[0];
    over.append(makeSvg("rect", {
      x: left, y: top, width: right - left, height: bottom - top, fill: "var(--heat)", "fill-opacity": (0.55 * level(i)).toFixed(3),
      stroke: "var(--heat)", "stroke-width": size / 150, "stroke-opacity": (0.25 + 0.75 * level(i)).toFixed(3),
      "data-node": i, "data-weight": weights[i].toFixed(6), "data-tip": tip(i),
    }));
  });
  return make("div", { class: "picture" + (size <= 64 ? " tiny" : "") }, image, over);
}

function drawBases(row, level, tip, weights) {
  const bases = row.input.sequence;
  const owner = new Array(bases.length).fill(-1);
  row.nodes.forEach((node, i) => node.places.forEach(([a, b]) => owner.fill(i, a, b)));
  const width = Math.max(260, byId("input").clientWidth || 480);
  const perLine = Math.max(20, Math.floor((width - 34) / 9 / 10) * 10);
  const step = (width - 34) / perLine, line = 58, tall = 40;
  const lines = Math.ceil(bases.length / perLine);
  const drawing = makeSvg("svg", { width, height: lines * line + 6, viewBox: `0 0 ${width} ${lines * line + 6}`, role: "group", "aria-label": "DNA, letters scaled by attention" });
  for (let p = 0; p < bases.length; p++) {
    const i = owner[p], a = i < 0 ? 0 : level(i);
    const x = 34 + (p % perLine) * step, y = Math.floor(p / perLine) * line + 46;
    if (p % perLine === 0) drawing.append(makeSvg("text", { x: 28, y, "font-size": 10, "text-anchor": "end", class: "soft-text", text: p + 1 }));
    const grow = (9 + (tall - 9) * a) / 9;
    const letter = makeSvg("text", {
      transform: `translate(${(x + step / 2).toFixed(2)} ${y}) scale(${(step / 9).toFixed(3)} ${grow.toFixed(3)})`, "font-size": 12, "text-anchor": "middle",
      "font-weight": 700, "font-family": "ui-monospace, Menlo, monospace", opacity: (0.35 + 0.65 * a).toFixed(3), text: bases[p],
    });
    letter.setAttribute("class", "base-" + bases[p]);
    if (i >= 0) { letter.setAttribute("data-node", i); letter.setAttribute("data-weight", weights[i].toFixed(6)); letter.setAttribute("data-tip", "bases " + tip(i)); }
    drawing.append(letter);
  }
  return drawing;
}

function drawMolecule(row, level, tip, weights) {
  const { atoms, bonds } = row.input.drawing;
  const xs = atoms.map((atom) => atom.x), ys = atoms.map((atom) => atom.y);
  const low = [Math.min(...xs) - 1, Math.min(...ys) - 1], span = [Math.max(...xs) - low[0] + 1, Math.max(...ys) - low[1] + 1];
  const width = Math.max(260, byId("input").clientWidth || 480);
  const scale = Math.min(width / span[0], 380 / span[1], 44);
  const high = span[1] * scale, offset = (width - span[0] * scale) / 2;
  const at = (i) => [(atoms[i].x - low[0]) * scale + offset, (atoms[i].y - low[1]) * scale];
  const drawing = makeSvg("svg", { width, height: high, viewBox: `0 0 ${width} ${high}`, role: "group", "aria-label": "The molecule " + shorten(row.input.smiles, 80) });
  row.nodes.forEach((node, i) => {
    const atom = node.places[0][0];
    if (atom >= atoms.length) return;
    const [x, y] = at(atom);
    drawing.append(makeSvg("circle", {
      cx: x.toFixed(1), cy: y.toFixed(1), r: (scale * (0.2 + 0.45 * level(i))).toFixed(1), class: "halo", "fill-opacity": (0.08 + 0.72 * level(i)).toFixed(3),
      "data-node": i, "data-weight": weights[i].toFixed(6), "data-tip": tip(i),
    }));
  });
  for (const bond of bonds) {
    const [x1, y1] = at(bond.from), [x2, y2] = at(bond.to);
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, nx = (-(y2 - y1) / length) * 2.4, ny = ((x2 - x1) / length) * 2.4;
    const sides = bond.order === 2 ? [-1, 1] : bond.order === 3 ? [-1.6, 0, 1.6] : bond.order === 1.5 ? [-1, 1] : [0];
    sides.forEach((side, k) => drawing.append(makeSvg("line", {
      x1: (x1 + nx * side).toFixed(1), y1: (y1 + ny * side).toFixed(1), x2: (x2 + nx * side).toFixed(1), y2: (y2 + ny * side).toFixed(1),
      class: "bond", "stroke-dasharray": bond.order === 1.5 && k === 1 ? "3 2.5" : null, "pointer-events": "none",
    })));
  }
  const font = Math.max(11.5, Math.min(15, scale * 0.46));
  atoms.forEach((atom, i) => {
    if (atom.symbol === "C" && !atom.charge) return;
    const [x, y] = at(i), sign = atom.charge ? (atom.charge > 0 ? "+" : "−") : "";
    drawing.append(
      makeSvg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: (font * 0.6).toFixed(1), class: "atom-back", "fill-opacity": 0.75, "pointer-events": "none" }),
      makeSvg("text", { x: x.toFixed(1), y: (y + font * 0.36).toFixed(1), "font-size": font.toFixed(1), "text-anchor": "middle", "font-weight": 600, "pointer-events": "none", text: atom.symbol + sign }));
  });
  return drawing;
}

function drawColumns(row, level, tip, weights) {
  const list = make("ol", { class: "bars tall" });
  for (const i of byFalling(weights)) {
    const node = row.nodes[i];
    const value = node.value === null || node.value === 0 ? "" : " (" + (node.value > 0 ? "+" : "−") + Math.abs(node.value).toFixed(1) + " sd)";
    const item = barItem(node.name + value, weights[i], Math.max(...weights), "node", i);
    item.setAttribute("data-node", i);
    list.append(item);
  }
  return list;
}
