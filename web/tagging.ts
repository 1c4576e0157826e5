/* The tagging page: rows on one side, ranked labels on the other. Every click is a known label of the row, and the
   other suggestions are asked for anew. Texts only ever become text nodes. Nothing is loaded from elsewhere. */
"use strict";

type Known = Record<string, boolean>;
type Row = Record<string, unknown>;
/* `beside` are columns of the file that the model does not read; they come back with the download. */
interface Item { row: Row; beside: Row; known: Known; done: boolean }
interface Part { part: string; moved: number; places: number[][] }
interface Suggestion { label: string; proba: number; input: number; known: Record<string, number>; parts?: Part[] }
interface Doubt { label: string; given: boolean; proba: number }
interface Saved { items: Item[]; at: number; audit: boolean }
interface Step { at: number; known: Known; done: boolean }

const MOST = 12;
const TOKEN = "lampnet-token";
const MISSING_FROM = 0.5;
/* shifts of the log-odds that are smaller are not shown */
const SHOWN_FROM = 0.1;

const state = {
  model: "", version: "", kind: "", labels: [] as string[],
  items: [] as Item[], at: 0, audit: false,
  suggestions: [] as Suggestion[], doubts: [] as Doubt[], question: null as string | null,
  chosen: 0, undo: [] as Step[], asked: 0, reachable: true,
};

function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}

function element<K extends keyof HTMLElementTagNameMap>(
  name: K, options: { text?: string; className?: string; attributes?: Record<string, string> } = {},
  ...children: Node[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  if (options.text !== undefined) made.textContent = options.text;
  if (options.className) made.className = options.className;
  for (const [key, value] of Object.entries(options.attributes ?? {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function say(sentence: string): void { byId("announce").textContent = sentence; }

/* Labels and columns may have any name, also "constructor" or "__proto__": objects are made of pairs, and only their
   own entries are looked at. */
const decided = (item: Item, label: string): boolean => Object.hasOwn(item.known, label);
const withLabel = (known: Known, label: string, value: boolean | null): Known => Object.fromEntries(
  [...Object.entries(known).filter(([one]) => one !== label), ...(value === null ? [] : [[label, value] as const])]);
/* What the service is told: labels of the file that the model does not have are kept for the download only. */
const told = (item: Item): Known =>
  Object.fromEntries(Object.entries(item.known).filter(([label]) => state.labels.includes(label)));

/* ---- the service ---- */

class Refused extends Error { constructor(readonly status: number, sentence: string) { super(sentence); } }

async function ask<T>(path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers["authorization"] = `Bearer ${token}`;
  let response: Response;
  try {
    response = await fetch(path, body === undefined
      ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    setReachable(false);
    throw new Refused(0, "The service cannot be reached.");
  }
  setReachable(true);
  const answer = await response.json().catch(() => ({ error: `The service answered ${response.status}.` }));
  if (response.status === 401) byId("token-box").hidden = false;
  if (!response.ok) throw new Refused(response.status, String(answer.error ?? response.status));
  return answer as T;
}

let retry: number | undefined;
function setReachable(reachable: boolean): void {
  if (reachable !== state.reachable) {
    state.reachable = reachable;
    byId("offline").hidden = reachable;
    if (!reachable) say("The service cannot be reached. Your tags are kept.");
  }
  if (!reachable && retry === undefined) {
    retry = window.setTimeout(() => { retry = undefined; void refresh(); }, 2000);
  }
}

async function refresh(): Promise<void> {
  const item = state.items[state.at];
  const number = ++state.asked;
  if (!item) { state.suggestions = []; state.doubts = []; state.question = null; draw(); return; }
  byId("labels-box").setAttribute("aria-busy", "true");
  try {
    if (!state.version) await loadLabels();
    if (state.audit) {
      const doubts = await doubtsOf(item);
      if (number !== state.asked) return; // another row or click came meanwhile
      state.doubts = doubts;
    } else {
      const body = { rows: [item.row], known: [told(item)] };
      const [suggested, next] = await Promise.all([
        ask<{ version: string; suggestions: Suggestion[][] }>("/suggest", { ...body, most: MOST }),
        ask<{ questions: ({ label: string } | null)[] }>("/next-question", body),
      ]);
      if (number !== state.asked) return;
      if (suggested.version !== state.version) await loadLabels(); // the model was replaced meanwhile
      state.suggestions = suggested.suggestions[0] ?? [];
      state.question = next.questions[0]?.label ?? null;
    }
    state.chosen = Math.min(state.chosen, Math.max(0, shownLabels().length - 1));
    byId("problem").textContent = "";
  } catch (fault) {
    if (number !== state.asked) return;
    if (!(fault instanceof Refused)) throw fault;
    if (fault.status === 400 && await wasReplaced()) { await refresh(); return; } // it may lack a label it was told
    if (fault.status !== 0) byId("problem").textContent = fault.message;
  }
  byId("labels-box").removeAttribute("aria-busy");
  draw();
}

/* Audit: how probable is each given label by the input and the row's other labels, and which are missing. */
async function doubtsOf(item: Item): Promise<Doubt[]> {
  const known = told(item);
  const held = Object.keys(known).filter((label) => known[label]);
  const sets = [known, ...held.map((left) => withLabel(known, left, null))];
  const answer = await ask<{ suggestions: Suggestion[][] }>("/suggest", {
    rows: sets.map(() => item.row), known: sets, most: Math.min(1000, state.labels.length),
  });
  const doubts: Doubt[] = held.map((label, place) => ({
    label, given: true, proba: answer.suggestions[place + 1]?.find((one) => one.label === label)?.proba ?? 0,
  }));
  for (const one of (answer.suggestions[0] ?? []).slice(0, MOST)) {
    if (one.proba >= MISSING_FROM) doubts.push({ label: one.label, given: false, proba: one.proba });
  }
  const surprise = (one: Doubt): number => (one.given ? 1 - one.proba : one.proba);
  return doubts.sort((a, b) => surprise(b) - surprise(a)).slice(0, MOST);
}

async function loadLabels(): Promise<void> {
  const found = await ask<{ model: string; version: string; kind: string; labels: string[] }>("/labels");
  state.model = found.model; state.version = found.version; state.kind = found.kind; state.labels = found.labels;
  byId("model").textContent = `${found.model}: ${found.labels.length} labels, rows of kind ${found.kind}`;
  const list = byId("all-labels");
  list.replaceChildren(...found.labels.map((label) => element("option", { attributes: { value: label } })));
  const saved = readSaved();
  if (saved && !state.items.length) { // a model that was trained again meanwhile shows them, too
    state.items = saved.items; state.at = saved.at; setAudit(saved.audit);
    say(`${saved.items.length} rows were restored.`);
  }
}

/* Whether another model is served than the one whose labels are shown; its labels are read. */
async function wasReplaced(): Promise<boolean> {
  const before = state.version;
  try { await loadLabels(); } catch { return false; }
  return state.version !== before;
}

/* ---- what the tagger does ---- */

function remember(): void {
  const item = state.items[state.at];
  if (item) state.undo.push({ at: state.at, known: { ...item.known }, done: item.done });
  if (state.undo.length > 500) state.undo.shift();
}

function setKnown(label: string, value: boolean | null): void {
  const item = state.items[state.at];
  if (!item) return;
  remember();
  item.known = withLabel(item.known, label, value);
  say(value === null ? `${label}: open again` : `${label}: ${value ? "accepted" : "refused"}`);
  changed();
}

function changed(): void { save(); draw(); void refresh(); }

function undo(): void {
  const step = state.undo.pop();
  const item = step && state.items[step.at];
  if (!step || !item) { say("Nothing to undo."); return; }
  item.known = step.known; item.done = step.done; state.at = step.at;
  say("Undone.");
  changed();
}

function go(by: number): void {
  const to = state.at + by;
  if (to < 0 || to >= state.items.length) { say(by > 0 ? "This is the last row." : "This is the first row."); return; }
  state.at = to; state.chosen = 0; state.suggestions = []; state.doubts = []; state.question = null;
  changed();
}

function finishRow(): void {
  const item = state.items[state.at];
  if (!item) return;
  remember();
  item.done = true;
  if (state.at + 1 < state.items.length) { go(1); return; }
  say("All rows are done. Download them.");
  changed();
}

function setAudit(audit: boolean): void {
  state.audit = audit;
  byId<HTMLInputElement>("audit").checked = audit;
}

/* ---- rows in, tags out ---- */

function parseCsv(text: string): string[][] {
  const rows: string[][] = [];
  let cells: string[] = [], cell = "", quoted = false;
  const head = text.slice(0, text.indexOf("\n") < 0 ? text.length : text.indexOf("\n"));
  const comma = [",", ";", "\t"].sort((a, b) => head.split(b).length - head.split(a).length)[0] ?? ",";
  const source = text.replace(/^\uFEFF/, "");
  for (let place = 0; place < source.length; place++) {
    const sign = source[place];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (source[place + 1] === '"') { cell += '"'; place++; } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === comma) { cells.push(cell); cell = ""; }
    else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && source[place + 1] === "\n") place++;
      cells.push(cell); rows.push(cells); cells = []; cell = "";
    } else cell += sign;
  }
  if (cell !== "" || cells.length) { cells.push(cell); rows.push(cells); }
  return rows.filter((row) => row.some((one) => one.trim() !== ""));
}

const FIELD: Record<string, string> = { text: "text", molecule: "smiles", dna: "dna" };

function itemsOf(text: string, name: string): Item[] {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/).filter((line) => line.trim() !== "");
  if (!lines.length) throw new Error("There is no row; paste texts, one per line, or a CSV file.");
  if (lines[0]?.trimStart().startsWith("{")) return lines.map(itemOfLine);
  if (/\.json$/i.test(name)) return itemsOfList(text);
  const field = FIELD[state.kind];
  const table = /\.(csv|tsv)$/i.test(name) || !field ? parseCsv(text) : null;
  if (!table) return lines.map((line) => ({ row: { [field!]: line }, beside: {}, known: {}, done: false }));
  return itemsOfTable(table, field);
}

function itemOfLine(line: string, number: number): Item {
  let row: unknown;
  try { row = JSON.parse(line); } catch { throw new Error(`Line ${number + 1} is not JSON.`); }
  return itemOfJson(row, `Line ${number + 1}`);
}

function itemsOfList(text: string): Item[] {
  let rows: unknown;
  try { rows = JSON.parse(text.replace(/^\uFEFF/, "")); } catch { throw new Error("The file is not JSON."); }
  if (!Array.isArray(rows) || !rows.length) throw new Error("The file is no list of rows; give JSON lines.");
  return rows.map((row, number) => itemOfJson(row, `Row ${number + 1}`));
}

function itemOfJson(row: unknown, place: string): Item {
  if (typeof row !== "object" || row === null || Array.isArray(row)) throw new Error(`${place} is no object.`);
  const ours = Array.isArray((row as Row)["refused"]) && typeof (row as Row)["done"] === "boolean";
  const { labels, known, ...rest } = row as Row;
  const pairs: [string, boolean][] = Array.isArray(known) ? known.map((label) => [String(label), true])
    : Object.entries(known ?? {}).filter((pair): pair is [string, boolean] => typeof pair[1] === "boolean");
  if (Array.isArray(labels)) for (const label of labels) pairs.push([String(label), true]);
  if (ours) for (const label of rest["refused"] as unknown[]) pairs.push([String(label), false]);
  const done = ours && rest["done"] === true;
  if (ours) { delete rest["refused"]; delete rest["done"]; }
  return { row: rest, beside: {}, known: Object.fromEntries(pairs), done };
}

/* The labels in a cell: by the sign that gives most names the model has. */
function labelsIn(cell: string): string[] {
  const split = (sign: string | RegExp): string[] => cell.split(sign).map((one) => one.trim()).filter(Boolean);
  const known = (names: string[]): number => names.filter((name) => state.labels.includes(name)).length;
  return ["|", ";", ",", /[|;,]/].map(split).reduce((best, one) => (known(one) > known(best) ? one : best));
}

const TAGGED = ["labels", "refused", "done"];

function itemsOfTable(table: string[][], field: string | undefined): Item[] {
  const [header, ...body] = table;
  if (!header || !body.length) throw new Error("The table has a header only; give rows below it.");
  const lower = header.map((one) => one.trim().toLowerCase());
  const ours = TAGGED.every((name, place) => lower[lower.length - TAGGED.length + place] === name); // a download
  const labelsAt = ours ? lower.length - TAGGED.length : lower.findIndex((one) => ["labels", "label", "tags"].includes(one));
  const free = header.map((_, column) => column).filter((column) => column !== labelsAt && !(ours && column > labelsAt));
  const length = (column: number): number => body.reduce((sum, row) => sum + (row[column] ?? "").length, 0);
  const named = field ? lower.indexOf(field) : -1;
  const main = named >= 0 ? named : [...free].sort((a, b) => length(b) - length(a))[0] ?? 0;
  const idAt = lower.indexOf("id");
  const features = state.kind === "wordset" || state.kind === "vector";
  return body.map((cells) => {
    const cell = (column: number): string => {
      const text = cells[column] ?? "";
      return ours && /^'[=+\-@\t\r]/.test(text) ? text.slice(1) : text;
    };
    const named = (columns: number[], of: (text: string) => unknown): Row => Object.fromEntries(
      columns.filter((column) => cell(column) !== "").map((column) => [header[column] || `c${column}`, of(cell(column))]));
    const id: Row = idAt < 0 ? {} : { id: cell(idAt) };
    const others = free.filter((column) => column !== idAt && !(field && column === main));
    const row: Row = field ? { [field]: cell(main), ...id } : features ? { features: named(others, plain), ...id }
      : { ...named(others, number), ...id };
    const refused = ours ? cell(labelsAt + 1).split("|").filter(Boolean) : [];
    const accepted = labelsAt < 0 ? [] : ours ? cell(labelsAt).split("|").filter(Boolean) : labelsIn(cell(labelsAt));
    return {
      row, beside: field ? named(others, String) : {}, done: ours && cell(labelsAt + 2) === "true",
      known: Object.fromEntries([...accepted.map((label) => [label, true]), ...refused.map((label) => [label, false])]),
    };
  });
}

const plain = (cell: string): string | number => (isNaN(Number(cell)) ? cell : Number(cell));
/* A number where it would be written as it came: 007 and 1.50 stay texts, which the service reads as well. */
const number = (cell: string): string | number => (String(Number(cell)) === cell && cell !== "NaN"
  && !cell.endsWith("Infinity") ? Number(cell) : cell);

/* Text in the encoding of the file: what says so itself, UTF-8, or what old spreadsheets write. */
function decodedText(bytes: ArrayBuffer): string {
  const [first, second] = new Uint8Array(bytes.slice(0, 2));
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

function take(text: string, name: string): void {
  try {
    state.items = itemsOf(text, name);
  } catch (fault) {
    byId("problem").textContent = fault instanceof Error ? fault.message : String(fault);
    return;
  }
  state.at = Math.max(0, state.items.findIndex((item) => !item.done)); state.undo = []; state.chosen = 0;
  byId("problem").textContent = "";
  say(`${state.items.length} rows were read.`);
  changed();
  byId("work").focus({ preventScroll: true });
}

const labelsOf = (item: Item, value: boolean): string[] =>
  Object.keys(item.known).filter((label) => item.known[label] === value).sort();

function cellOf(value: unknown): string {
  let text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`; // no formula for a spreadsheet
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/* All columns of a row, those of features too. */
function columnsOf(item: Item): Row {
  const { features, ...rest } = item.row;
  const flat = typeof features === "object" && features !== null && !Array.isArray(features);
  return { ...(flat ? { ...rest, ...features } : item.row), ...item.beside };
}

function download(form: "csv" | "jsonl"): void {
  const rows = state.items.map((item) => ({ item, columns: columnsOf(item) }));
  const names = [...new Set(rows.flatMap(({ columns }) => Object.keys(columns)))];
  const text = form === "jsonl"
    ? rows.map(({ item }) => JSON.stringify({
      ...item.row, ...item.beside, labels: labelsOf(item, true), refused: labelsOf(item, false), done: item.done,
    })).join("\n") + "\n"
    : [[...names, ...TAGGED].map(cellOf).join(","), ...rows.map(({ item, columns }) => [
      ...names.map((name) => cellOf(Object.hasOwn(columns, name) ? columns[name] : "")),
      cellOf(labelsOf(item, true).join("|")), cellOf(labelsOf(item, false).join("|")), String(item.done),
    ].join(","))].join("\r\n") + "\r\n";
  const link = element("a", { attributes: { download: `tagged.${form}` } });
  link.href = URL.createObjectURL(new Blob([text], { type: form === "csv" ? "text/csv" : "application/jsonl" }));
  link.click();
  URL.revokeObjectURL(link.href);
  say(`${rows.length} rows were downloaded.`);
}

/* Tags are kept by the model's name and kind of rows, so that another model at this address finds its own. */
const store = (): string => `lampnet-tagging:${state.kind}:${state.model}`;

function save(): void {
  const saved: Saved = { items: state.items, at: state.at, audit: state.audit };
  try {
    localStorage.setItem(store(), JSON.stringify(saved));
    byId("unkept").hidden = true;
  } catch {
    byId("unkept").hidden = false;
  }
}

function readSaved(): Saved | null {
  try { return JSON.parse(localStorage.getItem(store()) ?? "null") as Saved | null; } catch { return null; }
}

/* ---- drawing ---- */

interface Shown { label: string; proba: number; why: Node[]; given: boolean }

function shownLabels(): Shown[] {
  if (state.audit) {
    return state.doubts.map((one) => ({
      label: one.label, proba: one.proba, given: one.given,
      why: [element("span", { className: "why", text: one.given ? "given" : "missing?" })],
    }));
  }
  const item = state.items[state.at];
  return state.suggestions.filter((one) => !item || !decided(item, one.label))
    .map((one) => ({ label: one.label, proba: one.proba, given: false, why: reasons(one) }));
}

const signed = (value: number): string => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(1);

function reasons(one: Suggestion): Node[] {
  const words = (one.parts ?? []).slice(0, 2).map((part) => `${part.part} ${signed(part.moved)}`).join(", ");
  const chips: Node[] = [element("span", { className: "why", text: words || `input ${signed(one.input)}` })];
  const moved = Object.entries(one.known).filter(([, by]) => Math.abs(by) >= SHOWN_FROM)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3);
  for (const [label, by] of moved) {
    chips.push(element("span", { className: "why label", text: `${label} ${signed(by)}` }));
  }
  return chips;
}

function draw(): void {
  const item = state.items[state.at];
  byId("start").hidden = state.items.length > 0;
  byId("work").hidden = state.items.length === 0;
  const done = state.items.filter((one) => one.done).length;
  byId("count").textContent = state.items.length ? `Row ${state.at + 1} of ${state.items.length}, ${done} done` : "";
  const bar = byId<HTMLProgressElement>("progress");
  bar.max = Math.max(1, state.items.length); bar.value = done;
  if (!item) return;
  drawRow(item);
  drawKnown(item);
  drawLabels(item);
  const question = state.question !== null && !decided(item, state.question) && !state.audit;
  byId("question").hidden = !question;
  byId("question-label").textContent = state.question ?? "";
}

/* What moved the selected label; in an audit nothing is marked. */
function chosenParts(): Part[] {
  const chosen = shownLabels()[state.chosen]?.label;
  return state.audit ? [] : state.suggestions.find((one) => one.label === chosen)?.parts ?? [];
}

/* The text with the words marked that moved the selected label. Places count characters, not UTF-16 units. */
function marked(text: string, parts: Part[]): Node[] {
  const letters = [...text];
  const moved = new Float64Array(letters.length);
  for (const part of parts) {
    for (const [from = 0, to = 0] of part.places) for (let at = from; at < to; at++) moved[at]! += part.moved;
  }
  const nodes: Node[] = [];
  for (let from = 0; from < letters.length;) {
    let to = from + 1;
    while (to < letters.length && moved[to] === moved[from]) to++;
    const piece = letters.slice(from, to).join(""), by = moved[from] ?? 0;
    nodes.push(by === 0 ? document.createTextNode(piece) : element("mark", {
      text: piece, className: by > 0 ? "for" : "against",
      attributes: { title: `moves the selected label by ${signed(by)}` },
    }));
    from = to;
  }
  return nodes;
}

function drawRow(item: Item): void {
  const box = byId("row");
  const text = item.row["text"];
  if (typeof text === "string") {
    box.replaceChildren(...marked(text, chosenParts()));
    return;
  }
  const parts = chosenParts();
  const of = (name: string): Part | undefined => parts.find((one) => one.part === name
    || ["=", ": ", " ("].some((sign) => one.part.startsWith(name + sign)));
  box.replaceChildren(element("dl", {}, ...Object.entries(item.row).flatMap(([name, value]) => [
    element("dt", {}, of(name) ? element("mark", { text: name, className: of(name)!.moved > 0 ? "for" : "against",
      attributes: { title: `${of(name)!.part} moves the selected label by ${signed(of(name)!.moved)}` } })
      : document.createTextNode(name)),
    element("dd", { text: typeof value === "string" ? value : JSON.stringify(value) }),
  ])));
}

/* The labels that moved the selected one are marked as the words are. */
function drawKnown(item: Item): void {
  const chosen = state.audit ? undefined : shownLabels()[state.chosen]?.label;
  const moved = state.suggestions.find((one) => one.label === chosen)?.known ?? {};
  byId("known").replaceChildren(...Object.entries(item.known).map(([label, value]) => {
    const by = Object.hasOwn(moved, label) && Math.abs(moved[label]!) >= SHOWN_FROM ? moved[label]! : 0;
    const effect = by === 0 ? "" : `moves ${chosen} by ${signed(by)}; `;
    const button = element("button", {
      className: `chip ${value ? "yes" : "no"}${by === 0 ? "" : by > 0 ? " for" : " against"}`,
      text: `${value ? "✓" : "✗"} ${label}${state.labels.includes(label) ? "" : " (not a label of the model)"}`,
      attributes: {
        type: "button", title: `${effect}click to open it again`,
        "aria-label": `${label}: ${value ? "accepted" : "refused"}; ${effect}open it again`,
      },
    });
    button.addEventListener("click", () => setKnown(label, null));
    return element("li", {}, button);
  }));
}

function drawLabels(item: Item): void {
  const shown = shownLabels();
  byId("labels").replaceChildren(...shown.map((one, place) => {
    const bar = element("span", { className: "bar", attributes: { "aria-hidden": "true" } });
    bar.style.setProperty("--share", `${Math.round(one.proba * 100)}%`);
    const key = element("kbd", { text: place < 9 ? String(place + 1) : " " });
    const name = element("span", { className: "name", text: one.label });
    const proba = element("span", { className: "proba", text: `${Math.round(one.proba * 100)}%` });
    const yes = element("button", { text: "✓", attributes: { type: "button", "aria-label": `accept ${one.label}` } });
    const no = element("button", { text: "✗", attributes: { type: "button", "aria-label": `refuse ${one.label}` } });
    yes.addEventListener("click", () => setKnown(one.label, true));
    no.addEventListener("click", () => setKnown(one.label, false));
    const line = element("li", {
      className: place === state.chosen ? "suggestion chosen" : "suggestion",
      attributes: place === state.chosen ? { "aria-current": "true" } : {},
    }, key, name, proba, bar, element("span", { className: "whys" }, ...one.why), yes, no);
    line.addEventListener("click", (event) => { // a button's own click comes first and draws the list anew
      if (!(event.target as HTMLElement).closest("button") && state.chosen !== place) { state.chosen = place; draw(); }
    });
    return line;
  }));
  byId("none").hidden = shown.length > 0;
  byId("none").textContent = state.audit ? "Nothing looks wrong in this row." : state.reachable
    ? (state.labels.every((label) => decided(item, label)) ? "Every label of this row is known." : "…")
    : "No suggestions while the service cannot be reached; labels can be added by name.";
}

/* ---- keys ---- */

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey) {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !/^(INPUT|TEXTAREA)$/.test(target.tagName)) {
      event.preventDefault(); undo();
    }
    return;
  }
  const help = byId<HTMLDialogElement>("help");
  if (help.open) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
    if (event.key === "Escape") { target.blur(); byId("work").focus({ preventScroll: true }); }
    return;
  }
  if (event.key === "?") { help.showModal(); event.preventDefault(); return; }
  if (!state.items.length) return;
  const shown = shownLabels();
  const current = shown[state.chosen];
  const digit = /^Digit([1-9])$/.exec(event.code);
  if (digit) {
    const one = shown[Number(digit[1]) - 1];
    if (one) setKnown(one.label, !event.shiftKey);
    event.preventDefault();
    return;
  }
  if ((event.key === "Enter" || event.key === " ") && target.tagName === "BUTTON") return; // the button's own
  const actions: Record<string, () => void> = {
    ArrowDown: () => { state.chosen = Math.min(shown.length - 1, state.chosen + 1); draw(); },
    ArrowUp: () => { state.chosen = Math.max(0, state.chosen - 1); draw(); },
    a: () => { if (current) setKnown(current.label, true); },
    x: () => { if (current) setKnown(current.label, false); },
    Enter: finishRow,
    n: () => go(1), p: () => go(-1), ArrowRight: () => go(1), ArrowLeft: () => go(-1),
    u: undo,
    y: () => { if (state.question) setKnown(state.question, true); },
    o: () => { if (state.question) setKnown(state.question, false); },
    "/": () => byId("add").focus(),
  };
  const action = actions[event.key];
  if (action) { event.preventDefault(); action(); }
}

function start(): void {
  document.addEventListener("keydown", onKey);
  byId("take").addEventListener("click", () => take(byId<HTMLTextAreaElement>("paste").value, ""));
  const file = byId<HTMLInputElement>("file");
  file.addEventListener("change", async () => {
    const chosen = file.files?.[0];
    if (chosen) take(decodedText(await chosen.arrayBuffer()), chosen.name);
    file.value = "";
  });
  byId("add-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const add = byId<HTMLInputElement>("add");
    const label = add.value.trim();
    if (!state.labels.includes(label)) { byId("problem").textContent = `The model has no label “${label}”.`; return; }
    byId("problem").textContent = "";
    add.value = ""; add.blur(); byId("work").focus({ preventScroll: true });
    setKnown(label, true);
  });
  byId("yes").addEventListener("click", () => { if (state.question) setKnown(state.question, true); });
  byId("no").addEventListener("click", () => { if (state.question) setKnown(state.question, false); });
  byId("next").addEventListener("click", finishRow);
  byId("previous").addEventListener("click", () => go(-1));
  byId("undo").addEventListener("click", undo);
  byId("help-button").addEventListener("click", () => byId<HTMLDialogElement>("help").showModal());
  byId("csv").addEventListener("click", () => download("csv"));
  byId("jsonl").addEventListener("click", () => download("jsonl"));
  byId("audit").addEventListener("change", (event) => {
    setAudit((event.target as HTMLInputElement).checked); state.chosen = 0; changed();
  });
  byId("new").addEventListener("click", () => {
    if (!window.confirm("Leave these rows? Download them first if they are to be kept.")) return;
    state.items = []; state.at = 0; state.undo = [];
    save(); draw(); byId("paste").focus();
  });
  byId("retry").addEventListener("click", () => void refresh());
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, byId<HTMLInputElement>("token").value);
    byId("token-box").hidden = true;
    void begin();
  });
  void begin();
}

async function begin(): Promise<void> {
  try { await loadLabels(); } catch (fault) {
    if (fault instanceof Refused && fault.status !== 401) byId("problem").textContent = fault.message;
  }
  draw();
  await refresh();
}

start();
