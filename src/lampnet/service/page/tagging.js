/* The tagging page: rows on one side, ranked labels on the other. Every click is a known label of the row, and the
   other suggestions are asked for anew. Texts only ever become text nodes. Nothing is loaded from elsewhere. */
"use strict";
const MOST = 12;
const STORE = "lampnet-tagging";
const TOKEN = "lampnet-token";
const MISSING_FROM = 0.5;
const state = {
    model: "", version: "", kind: "", labels: [],
    items: [], at: 0, audit: false,
    suggestions: [], doubts: [], question: null,
    chosen: 0, undo: [], asked: 0, reachable: true,
};
function byId(id) {
    const found = document.getElementById(id);
    if (!found)
        throw new Error(`the page has no element ${id}`);
    return found;
}
function element(name, options = {}, ...children) {
    const made = document.createElement(name);
    if (options.text !== undefined)
        made.textContent = options.text;
    if (options.className)
        made.className = options.className;
    for (const [key, value] of Object.entries(options.attributes ?? {}))
        made.setAttribute(key, value);
    made.append(...children);
    return made;
}
function say(sentence) { byId("announce").textContent = sentence; }
/* ---- the service ---- */
class Refused extends Error {
    status;
    constructor(status, sentence) {
        super(sentence);
        this.status = status;
    }
}
async function ask(path, body) {
    const headers = { "content-type": "application/json" };
    const token = sessionStorage.getItem(TOKEN);
    if (token)
        headers["authorization"] = `Bearer ${token}`;
    let response;
    try {
        response = await fetch(path, body === undefined
            ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
    }
    catch {
        setReachable(false);
        throw new Refused(0, "The service cannot be reached.");
    }
    setReachable(true);
    const answer = await response.json().catch(() => ({ error: `The service answered ${response.status}.` }));
    if (response.status === 401)
        byId("token-box").hidden = false;
    if (!response.ok)
        throw new Refused(response.status, String(answer.error ?? response.status));
    return answer;
}
let retry;
function setReachable(reachable) {
    if (reachable !== state.reachable) {
        state.reachable = reachable;
        byId("offline").hidden = reachable;
        if (!reachable)
            say("The service cannot be reached. Your tags are kept.");
    }
    if (!reachable && retry === undefined) {
        retry = window.setTimeout(() => { retry = undefined; void refresh(); }, 2000);
    }
}
async function refresh() {
    const item = state.items[state.at];
    const number = ++state.asked;
    if (!item) {
        state.suggestions = [];
        state.doubts = [];
        state.question = null;
        draw();
        return;
    }
    byId("labels-box").setAttribute("aria-busy", "true");
    try {
        if (!state.version)
            await loadLabels();
        if (state.audit) {
            const doubts = await doubtsOf(item);
            if (number !== state.asked)
                return; // another row or click came meanwhile
            state.doubts = doubts;
        }
        else {
            const body = { rows: [item.row], known: [item.known] };
            const [suggested, next] = await Promise.all([
                ask("/suggest", { ...body, most: MOST }),
                ask("/next-question", body),
            ]);
            if (number !== state.asked)
                return;
            state.suggestions = suggested.suggestions[0] ?? [];
            state.question = next.questions[0]?.label ?? null;
        }
        state.chosen = Math.min(state.chosen, Math.max(0, shownLabels().length - 1));
        byId("problem").textContent = "";
    }
    catch (fault) {
        if (number !== state.asked)
            return;
        if (!(fault instanceof Refused))
            throw fault;
        if (fault.status !== 0)
            byId("problem").textContent = fault.message;
    }
    byId("labels-box").removeAttribute("aria-busy");
    draw();
}
/* Audit: how probable is each given label by the input and the row's other labels, and which are missing. */
async function doubtsOf(item) {
    const held = Object.keys(item.known).filter((label) => item.known[label]);
    const without = held.map((left) => Object.fromEntries(Object.entries(item.known).filter(([label]) => label !== left)));
    const rows = [item.known, ...without].map(() => item.row);
    const answer = await ask("/suggest", {
        rows, known: [item.known, ...without], most: Math.min(1000, state.labels.length),
    });
    const doubts = held.map((label, place) => ({
        label, given: true, proba: answer.suggestions[place + 1]?.find((one) => one.label === label)?.proba ?? 0,
    }));
    for (const one of (answer.suggestions[0] ?? []).slice(0, MOST)) {
        if (one.proba >= MISSING_FROM)
            doubts.push({ label: one.label, given: false, proba: one.proba });
    }
    const surprise = (one) => (one.given ? 1 - one.proba : one.proba);
    return doubts.sort((a, b) => surprise(b) - surprise(a)).slice(0, MOST);
}
async function loadLabels() {
    const found = await ask("/labels");
    state.model = found.model;
    state.version = found.version;
    state.kind = found.kind;
    state.labels = found.labels;
    byId("model").textContent = `${found.model}: ${found.labels.length} labels, rows of kind ${found.kind}`;
    const list = byId("all-labels");
    list.replaceChildren(...found.labels.map((label) => element("option", { attributes: { value: label } })));
    const saved = readSaved();
    if (saved && saved.version === found.version && !state.items.length) {
        state.items = saved.items;
        state.at = saved.at;
        setAudit(saved.audit);
        say(`${saved.items.length} rows were restored.`);
    }
}
/* ---- what the tagger does ---- */
function remember() {
    const item = state.items[state.at];
    if (item)
        state.undo.push({ at: state.at, known: { ...item.known }, done: item.done });
    if (state.undo.length > 500)
        state.undo.shift();
}
function setKnown(label, value) {
    const item = state.items[state.at];
    if (!item)
        return;
    remember();
    if (value === null)
        delete item.known[label];
    else
        item.known[label] = value;
    say(value === null ? `${label}: open again` : `${label}: ${value ? "accepted" : "refused"}`);
    changed();
}
function changed() { save(); draw(); void refresh(); }
function undo() {
    const step = state.undo.pop();
    const item = step && state.items[step.at];
    if (!step || !item) {
        say("Nothing to undo.");
        return;
    }
    item.known = step.known;
    item.done = step.done;
    state.at = step.at;
    say("Undone.");
    changed();
}
function go(by) {
    const to = state.at + by;
    if (to < 0 || to >= state.items.length) {
        say(by > 0 ? "This is the last row." : "This is the first row.");
        return;
    }
    state.at = to;
    state.chosen = 0;
    state.suggestions = [];
    state.doubts = [];
    state.question = null;
    changed();
}
function finishRow() {
    const item = state.items[state.at];
    if (!item)
        return;
    remember();
    item.done = true;
    if (state.at + 1 < state.items.length) {
        go(1);
        return;
    }
    say("All rows are done. Download them.");
    changed();
}
function setAudit(audit) {
    state.audit = audit;
    byId("audit").checked = audit;
}
/* ---- rows in, tags out ---- */
function parseCsv(text) {
    const rows = [];
    let cells = [], cell = "", quoted = false;
    const head = text.slice(0, text.indexOf("\n") < 0 ? text.length : text.indexOf("\n"));
    const comma = [",", ";", "\t"].sort((a, b) => head.split(b).length - head.split(a).length)[0] ?? ",";
    const source = text.replace(/^\uFEFF/, "");
    for (let place = 0; place < source.length; place++) {
        const sign = source[place];
        if (quoted) {
            if (sign !== '"')
                cell += sign;
            else if (source[place + 1] === '"') {
                cell += '"';
                place++;
            }
            else
                quoted = false;
        }
        else if (sign === '"' && cell === "")
            quoted = true;
        else if (sign === comma) {
            cells.push(cell);
            cell = "";
        }
        else if (sign === "\n" || sign === "\r") {
            if (sign === "\r" && source[place + 1] === "\n")
                place++;
            cells.push(cell);
            rows.push(cells);
            cells = [];
            cell = "";
        }
        else
            cell += sign;
    }
    if (cell !== "" || cells.length) {
        cells.push(cell);
        rows.push(cells);
    }
    return rows.filter((row) => row.some((one) => one.trim() !== ""));
}
const FIELD = { text: "text", molecule: "smiles", dna: "dna" };
function itemsOf(text, name) {
    const lines = text.split(/\r\n|\n|\r/).filter((line) => line.trim() !== "");
    if (!lines.length)
        throw new Error("There is no row; paste texts, one per line, or a CSV file.");
    if (lines[0]?.trimStart().startsWith("{"))
        return lines.map(itemOfJson);
    const field = FIELD[state.kind];
    const table = /\.(csv|tsv|txt)$/i.test(name) || (!name && !field) ? parseCsv(text) : null;
    if (!table) {
        if (!field)
            throw new Error(`Rows of kind ${state.kind} need columns: give CSV with a header, or JSON lines.`);
        return lines.map((line) => ({ row: { [field]: line }, known: {}, given: [], done: false }));
    }
    return itemsOfTable(table, field);
}
function itemOfJson(line, number) {
    let row;
    try {
        row = JSON.parse(line);
    }
    catch {
        throw new Error(`Line ${number + 1} is not JSON.`);
    }
    if (typeof row !== "object" || row === null || Array.isArray(row))
        throw new Error(`Line ${number + 1} is no object.`);
    const { labels, known, ...rest } = row;
    const given = Array.isArray(labels) ? labels.map(String).filter((label) => state.labels.includes(label)) : [];
    const held = {};
    if (Array.isArray(known))
        for (const label of known)
            held[String(label)] = true;
    else if (known && typeof known === "object") {
        for (const [label, value] of Object.entries(known))
            if (typeof value === "boolean")
                held[label] = value;
    }
    for (const label of given)
        held[label] = true;
    return { row: rest, known: held, given, done: false };
}
function itemsOfTable(table, field) {
    const [header, ...body] = table;
    if (!header || !body.length)
        throw new Error("The table has a header only; give rows below it.");
    const lower = header.map((one) => one.trim().toLowerCase());
    const labelsAt = lower.findIndex((one) => ["labels", "label", "tags"].includes(one));
    const length = (column) => body.reduce((sum, row) => sum + (row[column] ?? "").length, 0);
    const free = header.map((_, column) => column).filter((column) => column !== labelsAt);
    const named = field ? lower.indexOf(field) : -1;
    const main = named >= 0 ? named : [...free].sort((a, b) => length(b) - length(a))[0] ?? 0;
    return body.map((cells) => {
        const row = {};
        if (field)
            row[field] = cells[main] ?? "";
        else
            for (const column of free) {
                const cell = cells[column] ?? "";
                if (cell !== "")
                    row[header[column] ?? `c${column}`] = isNaN(Number(cell)) ? cell : Number(cell);
            }
        const idAt = lower.indexOf("id");
        if (idAt >= 0)
            row["id"] = cells[idAt] ?? "";
        const written = labelsAt < 0 ? [] : (cells[labelsAt] ?? "").split(/[;|,]/).map((one) => one.trim());
        const given = written.filter((label) => state.labels.includes(label));
        const features = state.kind === "wordset" || state.kind === "vector";
        const { id, ...rest } = row;
        const shaped = features ? { features: rest, ...(id === undefined ? {} : { id }) } : row;
        return { row: shaped, known: Object.fromEntries(given.map((label) => [label, true])), given, done: false };
    });
}
function take(text, name) {
    try {
        state.items = itemsOf(text, name);
    }
    catch (fault) {
        byId("problem").textContent = fault instanceof Error ? fault.message : String(fault);
        return;
    }
    state.at = 0;
    state.undo = [];
    state.chosen = 0;
    byId("problem").textContent = "";
    say(`${state.items.length} rows were read.`);
    changed();
    byId("work").focus({ preventScroll: true });
}
const labelsOf = (item, value) => Object.keys(item.known).filter((label) => item.known[label] === value).sort();
function cellOf(value) {
    let text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text))
        text = `'${text}`; // no formula for a spreadsheet
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}
function download(form) {
    const rows = state.items;
    const names = [...new Set(rows.flatMap((item) => Object.keys(item.row)))];
    const text = form === "jsonl"
        ? rows.map((item) => JSON.stringify({ ...item.row, labels: labelsOf(item, true), refused: labelsOf(item, false), done: item.done })).join("\n") + "\n"
        : [[...names, "labels", "refused", "done"].map(cellOf).join(","), ...rows.map((item) => [
                ...names.map((name) => cellOf(item.row[name] ?? "")), cellOf(labelsOf(item, true).join("|")),
                cellOf(labelsOf(item, false).join("|")), String(item.done)
            ].join(","))].join("\r\n") + "\r\n";
    const link = element("a", { attributes: { download: `tagged.${form}` } });
    link.href = URL.createObjectURL(new Blob([text], { type: form === "csv" ? "text/csv" : "application/jsonl" }));
    link.click();
    URL.revokeObjectURL(link.href);
    say(`${rows.length} rows were downloaded.`);
}
function save() {
    const saved = { version: state.version, items: state.items, at: state.at, audit: state.audit };
    try {
        localStorage.setItem(STORE, JSON.stringify(saved));
    }
    catch {
        byId("problem").textContent = "The browser has no room to keep these rows; download them before you leave.";
    }
}
function readSaved() {
    try {
        return JSON.parse(localStorage.getItem(STORE) ?? "null");
    }
    catch {
        return null;
    }
}
function shownLabels() {
    if (state.audit) {
        return state.doubts.map((one) => ({
            label: one.label, proba: one.proba, given: one.given,
            why: [element("span", { className: "why", text: one.given ? "given" : "missing?" })],
        }));
    }
    const item = state.items[state.at];
    return state.suggestions.filter((one) => item?.known[one.label] === undefined)
        .map((one) => ({ label: one.label, proba: one.proba, given: false, why: reasons(one) }));
}
const signed = (value) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(1);
function reasons(one) {
    const words = (one.parts ?? []).slice(0, 2).map((part) => `${part.part} ${signed(part.moved)}`).join(", ");
    const chips = [element("span", { className: "why", text: words || `input ${signed(one.input)}` })];
    const moved = Object.entries(one.known).filter(([, by]) => Math.abs(by) >= 0.1)
        .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3);
    for (const [label, by] of moved) {
        chips.push(element("span", { className: "why label", text: `${label} ${signed(by)}` }));
    }
    return chips;
}
function draw() {
    const item = state.items[state.at];
    byId("start").hidden = state.items.length > 0;
    byId("work").hidden = state.items.length === 0;
    const done = state.items.filter((one) => one.done).length;
    byId("count").textContent = state.items.length ? `Row ${state.at + 1} of ${state.items.length}, ${done} done` : "";
    const bar = byId("progress");
    bar.max = Math.max(1, state.items.length);
    bar.value = done;
    if (!item)
        return;
    drawRow(item);
    drawKnown(item);
    drawLabels(item);
    const question = state.question !== null && item.known[state.question] === undefined && !state.audit;
    byId("question").hidden = !question;
    byId("question-label").textContent = state.question ?? "";
}
/* What moved the selected label; in an audit nothing is marked. */
function chosenParts() {
    const chosen = shownLabels()[state.chosen]?.label;
    return state.audit ? [] : state.suggestions.find((one) => one.label === chosen)?.parts ?? [];
}
/* The text with the words marked that moved the selected label. Places count characters, not UTF-16 units. */
function marked(text, parts) {
    const letters = [...text];
    const moved = new Float64Array(letters.length);
    for (const part of parts) {
        for (const [from = 0, to = 0] of part.places)
            for (let at = from; at < to; at++)
                moved[at] += part.moved;
    }
    const nodes = [];
    for (let from = 0; from < letters.length;) {
        let to = from + 1;
        while (to < letters.length && moved[to] === moved[from])
            to++;
        const piece = letters.slice(from, to).join(""), by = moved[from] ?? 0;
        nodes.push(by === 0 ? document.createTextNode(piece) : element("mark", {
            text: piece, className: by > 0 ? "for" : "against",
            attributes: { title: `moves the selected label by ${signed(by)}` },
        }));
        from = to;
    }
    return nodes;
}
function drawRow(item) {
    const box = byId("row");
    const text = item.row["text"];
    if (typeof text === "string") {
        box.replaceChildren(...marked(text, chosenParts()));
        return;
    }
    const parts = chosenParts();
    const of = (name) => parts.find((one) => one.part === name
        || ["=", ": ", " ("].some((sign) => one.part.startsWith(name + sign)));
    box.replaceChildren(element("dl", {}, ...Object.entries(item.row).flatMap(([name, value]) => [
        element("dt", {}, of(name) ? element("mark", { text: name, className: of(name).moved > 0 ? "for" : "against",
            attributes: { title: `${of(name).part} moves the selected label by ${signed(of(name).moved)}` } })
            : document.createTextNode(name)),
        element("dd", { text: typeof value === "string" ? value : JSON.stringify(value) }),
    ])));
}
function drawKnown(item) {
    byId("known").replaceChildren(...Object.entries(item.known).map(([label, value]) => {
        const button = element("button", {
            className: value ? "chip yes" : "chip no", text: `${value ? "✓" : "✗"} ${label}`,
            attributes: { type: "button", "aria-label": `${label}: ${value ? "accepted" : "refused"}; open it again` },
        });
        button.addEventListener("click", () => setKnown(label, null));
        return element("li", {}, button);
    }));
}
function drawLabels(item) {
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
        line.addEventListener("click", (event) => {
            if (!event.target.closest("button") && state.chosen !== place) {
                state.chosen = place;
                draw();
            }
        });
        return line;
    }));
    byId("none").hidden = shown.length > 0;
    byId("none").textContent = state.audit ? "Nothing looks wrong in this row." : state.reachable
        ? (Object.keys(item.known).length === state.labels.length ? "Every label of this row is known." : "…")
        : "No suggestions while the service cannot be reached; labels can be added by name.";
}
/* ---- keys ---- */
function onKey(event) {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey) {
        if ((event.ctrlKey || event.metaKey) && event.key === "z" && !/^(INPUT|TEXTAREA)$/.test(target.tagName)) {
            event.preventDefault();
            undo();
        }
        return;
    }
    const help = byId("help");
    if (help.open)
        return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
        if (event.key === "Escape") {
            target.blur();
            byId("work").focus({ preventScroll: true });
        }
        return;
    }
    if (event.key === "?") {
        help.showModal();
        event.preventDefault();
        return;
    }
    if (!state.items.length)
        return;
    const shown = shownLabels();
    const current = shown[state.chosen];
    const digit = /^Digit([1-9])$/.exec(event.code);
    if (digit) {
        const one = shown[Number(digit[1]) - 1];
        if (one)
            setKnown(one.label, !event.shiftKey);
        event.preventDefault();
        return;
    }
    if ((event.key === "Enter" || event.key === " ") && target.tagName === "BUTTON")
        return; // the button's own
    const actions = {
        ArrowDown: () => { state.chosen = Math.min(shown.length - 1, state.chosen + 1); draw(); },
        ArrowUp: () => { state.chosen = Math.max(0, state.chosen - 1); draw(); },
        a: () => { if (current)
            setKnown(current.label, true); },
        x: () => { if (current)
            setKnown(current.label, false); },
        Enter: finishRow,
        n: () => go(1), p: () => go(-1), ArrowRight: () => go(1), ArrowLeft: () => go(-1),
        u: undo,
        y: () => { if (state.question)
            setKnown(state.question, true); },
        o: () => { if (state.question)
            setKnown(state.question, false); },
        "/": () => byId("add").focus(),
    };
    const action = actions[event.key];
    if (action) {
        event.preventDefault();
        action();
    }
}
function start() {
    document.addEventListener("keydown", onKey);
    byId("take").addEventListener("click", () => take(byId("paste").value, ""));
    const file = byId("file");
    file.addEventListener("change", async () => {
        const chosen = file.files?.[0];
        if (chosen)
            take(await chosen.text(), chosen.name);
        file.value = "";
    });
    byId("add-form").addEventListener("submit", (event) => {
        event.preventDefault();
        const add = byId("add");
        const label = add.value.trim();
        if (!state.labels.includes(label)) {
            byId("problem").textContent = `The model has no label “${label}”.`;
            return;
        }
        byId("problem").textContent = "";
        add.value = "";
        add.blur();
        byId("work").focus({ preventScroll: true });
        setKnown(label, true);
    });
    byId("yes").addEventListener("click", () => { if (state.question)
        setKnown(state.question, true); });
    byId("no").addEventListener("click", () => { if (state.question)
        setKnown(state.question, false); });
    byId("next").addEventListener("click", finishRow);
    byId("previous").addEventListener("click", () => go(-1));
    byId("undo").addEventListener("click", undo);
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    byId("csv").addEventListener("click", () => download("csv"));
    byId("jsonl").addEventListener("click", () => download("jsonl"));
    byId("audit").addEventListener("change", (event) => {
        setAudit(event.target.checked);
        state.chosen = 0;
        changed();
    });
    byId("new").addEventListener("click", () => {
        if (!window.confirm("Leave these rows? Download them first if they are to be kept."))
            return;
        state.items = [];
        state.at = 0;
        state.undo = [];
        save();
        draw();
        byId("paste").focus();
    });
    byId("retry").addEventListener("click", () => void refresh());
    byId("token-form").addEventListener("submit", (event) => {
        event.preventDefault();
        sessionStorage.setItem(TOKEN, byId("token").value);
        byId("token-box").hidden = true;
        void begin();
    });
    void begin();
}
async function begin() {
    try {
        await loadLabels();
    }
    catch (fault) {
        if (fault instanceof Refused && fault.status !== 401)
            byId("problem").textContent = fault.message;
    }
    draw();
    await refresh();
}
start();
