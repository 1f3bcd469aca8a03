// Elements from plain calls. Text only ever goes in as text: names are data.

const SVG = "http://www.w3.org/2000/svg";

function fill(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

function assign(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

function make(tag, attributes = {}, ...children) {
  return fill(assign(document.createElement(tag), attributes), children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(assign(document.createElementNS(SVG, tag), attributes), children);
}

// A name in an isolated run of text: a right-to-left mark in it reverses nothing around it.
const name = (text) => make("bdi", {}, text);

function replace(parent, ...children) {
  parent.replaceChildren();
  return fill(parent, children);
}

function heading(place, ...words) {
  return make("h2", { id: `${place}-title`, tabindex: "-1" }, ...words);
}

const link = (hash, ...words) => make("a", { href: hash }, ...words);

function button(words, action, attributes = {}) {
  return make("button", { type: "button", onclick: action, ...attributes }, words);
}

function choice(label, options, value, action) {
  const select = make("select", { onchange: () => action(select.value) });
  for (const [key, words] of options) select.append(make("option", { value: key }, words));
  select.value = value;
  return make("label", { class: "field" }, label, select);
}

function table(caption, heads, rows, attributes = {}) {
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    make("table", attributes,
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((h) => h instanceof Node ? h : make("th", { scope: "col" }, h)))),
      make("tbody", {}, rows)));
}

// A page of rows out of many, with what is needed to leaf through them.
function leafing(total, size, page, go) {
  const pages = Math.max(1, Math.ceil(total / size));
  if (pages === 1) return null;
  const turn = (to, words, label) =>
    button(words, () => go(to), { "aria-label": label, disabled: to < 0 || to >= pages || to === page });
  return make("div", { class: "leaf" },
    turn(0, "«", "first page"), turn(page - 1, "‹", "previous page"),
    make("span", {}, `page ${count(page + 1)} of ${count(pages)}`),
    turn(page + 1, "›", "next page"), turn(pages - 1, "»", "last page"));
}

function say(words) {
  document.getElementById("said").textContent = words;
}

function download(file, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const anchor = make("a", { href: url, download: file });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
