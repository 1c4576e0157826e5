// One finding at a time, decided with the keyboard. Decisions stay in this browser and leave it as a CSV file.
const FINDINGS = DATA.findings;
const WORDS = { accepted: "accepted", refused: "refused", skipped: "skipped" };
const decisions = new Map();
const done = []; // [finding, what it was before, where the page was], for undo
let current = 0;
let kept = true;

function load() {
  try {
    const stored = JSON.parse(localStorage.getItem(DATA.key) || "{}");
    for (const [index, word] of Object.entries(stored))
      if (Number(index) < FINDINGS.length && Object.hasOwn(WORDS, word)) decisions.set(Number(index), word);
  } catch { kept = false; }
}

function store() {
  try { localStorage.setItem(DATA.key, JSON.stringify(Object.fromEntries(decisions))); } catch { kept = false; }
}

function question(finding) {
  const share = percent(finding.proba);
  return finding.kind === "missing"
    ? "The row does not have this label; by its input and its other labels the probability is " + share + ". Accept to add it."
    : "The row has this label; by its input and its other labels the probability is " + share + ". Accept to remove it.";
}

function shown() {
  const text = byId("search").value.toLowerCase();
  const kind = document.querySelector('[name="kind"]:checked').value;
  const open = byId("only-open").checked;
  return FINDINGS.map((_, index) => index).filter((index) => {
    const finding = FINDINGS[index];
    return (!kind || finding.kind === kind) && (!open || !decisions.has(index)) &&
      (!text || finding.label.toLowerCase().includes(text) || finding.id.toLowerCase().includes(text));
  });
}

function tile(name, value) {
  return make("div", {}, make("dt", { text: name }), make("dd", { text: value.toLocaleString("en") }));
}

function drawProgress() {
  const total = (word) => Array.from(decisions.values()).filter((one) => one === word).length;
  replaceAll(
    byId("tiles"), tile("findings", FINDINGS.length), tile("undecided", FINDINGS.length - decisions.size),
    tile("accepted", total("accepted")), tile("refused", total("refused")), tile("skipped", total("skipped")),
  );
  byId("kept").textContent = kept ? "" : "This browser keeps no decisions for this page: download them before you leave.";
  byId("undo").disabled = done.length === 0;
}

function drawInput(row) {
  const text = row.text === undefined ? [] : [make("div", { class: "text", dir: "auto", text: row.text })];
  if (!row.picture) return text[0] || make("div", { class: "text" });
  return make("div", { class: "picture" }, make("img", { src: row.picture, alt: "the row's picture" }), ...text);
}

function drawFinding() {
  const finding = FINDINGS[current];
  const row = DATA.rows[finding.row];
  const decided = decisions.get(current);
  byId("finding-title").textContent =
    (finding.kind === "missing" ? "Missing? " : "Wrong? ") + shorten(finding.label, 200) + " · row " + shorten(finding.id, 100) + (decided ? " · " + decided : "");
  byId("question").textContent = question(finding);
  replaceAll(byId("input"), drawInput(row));
  replaceAll(
    byId("labels"),
    ...row.labels.map((name) => make("span", { class: "tag" + (name === finding.label ? " wrong" : ""), dir: "auto", text: shorten(name, 200), "data-tip": shorten(name, 300) })),
    row.labels.length ? null : make("span", { class: "small", text: "none" }),
  );
  const line = (name, by) => make("tr", {}, make("td", { dir: "auto", text: shorten(name, 200) }), make("td", { class: "n", text: (by > 0 ? "+" : "") + by.toFixed(2) }));
  replaceAll(byId("moved"), make("tbody", {}, line("the input", finding.input), ...finding.labels.map(([name, by]) => line("label " + name, by))));
}

function drawList() {
  const found = shown();
  byId("list-count").textContent = count(found.length, "finding");
  const heading = make("thead", {}, make("tr", {}, ...["kind", "label", "row", "probability", "decision"].map((name) => make("th", { text: name }))));
  const rows = found.map((index) => {
    const finding = FINDINGS[index];
    const open = make("button", { type: "button", class: "quiet", text: shorten(finding.label, 80), dir: "auto", onclick: () => go(index) });
    return make(
      "tr", { "data-index": index, "aria-current": index === current && "true" }, make("td", { text: finding.kind }), make("td", {}, open),
      make("td", { text: shorten(finding.id, 60), dir: "auto" }), make("td", { class: "n", text: percent(finding.proba) }), make("td", { text: decisions.get(index) || "" }),
    );
  });
  replaceAll(byId("list"), heading, make("tbody", {}, ...rows));
}

function drawLine(index) {
  const row = document.querySelector('#list tr[data-index="' + index + '"]');
  if (!row) return;
  row.cells[4].textContent = decisions.get(index) || "";
  if (index === current) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
}

function go(index) {
  const before = current;
  current = index;
  drawFinding();
  drawLine(before);
  drawLine(index);
}

function step(by) {
  const found = shown();
  if (!found.length) return;
  const place = found.indexOf(current);
  const from = place >= 0 ? place : found.findIndex((index) => index > current) - (by > 0 ? 1 : 0);
  go(found[Math.min(found.length - 1, Math.max(0, from + by))]);
}

function decide(word) {
  const decided = current;
  const next = shown().find((index) => index > decided && !decisions.has(index));
  done.push([decided, decisions.get(decided), decided]);
  decisions.set(decided, word);
  store();
  if (next !== undefined) go(next); else { drawFinding(); drawLine(decided); }
  if (byId("only-open").checked) drawList();
  drawProgress();
}

function undo() {
  const last = done.pop();
  if (!last) return;
  if (last[1] === undefined) decisions.delete(last[0]); else decisions.set(last[0], last[1]);
  store();
  if (byId("only-open").checked) { current = last[2]; drawFinding(); drawList(); } else go(last[2]);
  drawProgress();
}

function quoted(value) {
  const text = String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function decisionsCsv() {
  const lines = [["row", "id", "label", "given", "kind", "proba", "decision"]];
  for (const [index, word] of Array.from(decisions).sort((a, b) => a[0] - b[0])) {
    const finding = FINDINGS[index];
    lines.push([finding.row, finding.id, DATA.names[finding.number], finding.kind === "wrong" ? 1 : 0, finding.kind, finding.proba, word]);
  }
  return lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function download() {
  const address = URL.createObjectURL(new Blob([decisionsCsv()], { type: "text/csv" }));
  const link = make("a", { href: address, download: "decisions.csv" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function setUpKeys() {
  const actions = {
    a: () => decide("accepted"), r: () => decide("refused"), s: () => decide("skipped"), u: undo, d: download,
    ArrowRight: () => step(1), ArrowLeft: () => step(-1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches("input, select, textarea")) return;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || (!FINDINGS.length && action !== download)) return;
    event.preventDefault();
    action();
  });
  for (const [id, action] of [["accept", actions.a], ["refuse", actions.r], ["skip", actions.s], ["undo", undo], ["download", download]])
    byId(id).addEventListener("click", action);
  for (const id of ["search", "only-open"]) byId(id).addEventListener("input", drawList);
  for (const one of document.querySelectorAll('[name="kind"]')) one.addEventListener("change", drawList);
}

byId("title").textContent = DATA.title;
byId("about").textContent = DATA.about;
load();
setUpTheme();
setUpTips();
setUpKeys();
if (FINDINGS.length) {
  const open = FINDINGS.findIndex((_, index) => !decisions.has(index));
  current = open >= 0 ? open : 0;
  drawFinding();
} else {
  byId("finding-title").textContent = "Nothing to go through";
  byId("question").textContent = "No given label looks wrong, and none looks forgotten.";
  for (const id of ["accept", "refuse", "skip", "undo"]) byId(id).disabled = true;
}
drawList();
drawProgress();
