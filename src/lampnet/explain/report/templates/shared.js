"use strict";
// Everything on the page is built with textContent: no text of the data is ever read as markup.

function make(tag, options, ...children) {
  const node = document.createElement(tag);
  return fillNode(node, options, children);
}

function makeSvg(tag, options, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return fillNode(node, options, children);
}

function fillNode(node, options, children) {
  for (const [name, value] of Object.entries(options || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

function percent(value) {
  if (value >= 0.9995) return "100%";
  if (value > 0 && value < 0.0005) return "<0.1%";
  return (value * 100).toFixed(value < 0.0995 ? 1 : 0) + "%";
}

function shortNumber(value) {
  return value >= 0.995 && value < 1 ? ".99" : value >= 1 ? "1.0" : value.toFixed(2).replace(/^0/, "");
}

function count(number, word) {
  return number.toLocaleString("en") + " " + word + (number === 1 ? "" : "s");
}

function shorten(name, most) {
  const signs = Array.from(name);
  return signs.length <= most ? name : signs.slice(0, most - 1).join("") + "…";
}

// Numbers from 0 to 1, packed as 16-bit little-endian integers in base64.
function unpack(text) {
  const bytes = atob(text);
  const values = new Float64Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++)
    values[i] = (bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1)) / 65535;
  return values;
}

function byFalling(values) {
  return Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
}

function byId(id) {
  return document.getElementById(id);
}

function replaceAll(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

function barItem(name, value, widest, kind, index) {
  const filled = make("i", { style: { width: (widest > 0 ? (100 * value) / widest : 0).toFixed(2) + "%" } });
  return make(
    "li", { "data-index": index, "data-weight": value.toFixed(6) },
    make("span", { class: "name", dir: "auto", text: shorten(name, 200), "data-tip": shorten(name, 300) }),
    make("span", { class: "track" + (kind === "label" ? " by-label" : ""), "aria-hidden": "true" }, filled),
    make("span", { class: "number", text: percent(value) }),
  );
}

function setUpTheme() {
  const button = byId("theme");
  const root = document.documentElement;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const showTheme = () => { button.textContent = dark() ? "Light" : "Dark"; };
  try { if (["light", "dark"].includes(localStorage.getItem("lampnet-theme"))) root.dataset.theme = localStorage.getItem("lampnet-theme"); } catch { /* files may have no storage */ }
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("lampnet-theme", root.dataset.theme); } catch { /* the choice lasts for this visit */ }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  showTheme();
}

function setUpTips() {
  const tip = byId("tip");
  const show = (event) => {
    const owner = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (!owner) { tip.hidden = true; return; }
    tip.textContent = owner.getAttribute("data-tip");
    tip.hidden = false;
    const box = owner.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(6, box.left + box.width / 2 - size.width / 2), innerWidth - size.width - 6);
    const above = box.top - size.height - 7;
    tip.style.left = left + "px";
    tip.style.top = (above > 4 ? above : Math.min(box.bottom + 7, innerHeight - size.height - 4)) + "px";
  };
  for (const name of ["pointerover", "focusin"]) document.addEventListener(name, show);
  for (const name of ["focusout", "scroll"]) document.addEventListener(name, () => { tip.hidden = true; }, true);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
}

const DATA = JSON.parse(byId("data").textContent);
