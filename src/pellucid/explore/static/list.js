// All dimensions: sort, filter, leaf through.

const LIST_ROWS = 20;
const list = { sort: null, down: true, page: 0, show: "live", support: null, class: "", named: "" };

const KINDS = [
  ["live", (k) => store.tree.dims.support[k] > 0, () => "live"],
  ["all", () => true, () => "all"],
  ["dead", (k) => store.tree.dims.support[k] === 0, () => "dead: on no image"],
  ["always", (k) => alwaysOn(k), () => `always on: over ${percent(store.tree.thresholds.always_on)} of images`],
  ["doubles", (k) => store.tree.dims.duplicates[k].length > 0, () => `near-duplicates: column cosine from ${store.tree.thresholds.duplicate}`],
  ["rare", (k) => few(k), () => `few images: under ${store.tree.thresholds.support}`],
  ["named", (k) => store.names.has(k), () => "named"],
];

// The least support would empty the lists of dead and rare dimensions.
const LEAST_FOR = new Set(["live", "always", "doubles", "named"]);
const TEXT = new Set(["name", "class"]);

const alwaysOn = (k) => store.tree.dims.frequency[k] > store.tree.thresholds.always_on;
const few = (k) => store.tree.dims.support[k] > 0 && store.tree.dims.support[k] < store.tree.thresholds.support;

const some = (ks) => (ks.length > 4 ? `${ks.slice(0, 3).join(", ")} and ${count(ks.length - 3)} more` : ks.join(", "));

function flags(k) {
  const dims = store.tree.dims;
  if (dims.support[k] === 0) return ["dead"];
  return [
    alwaysOn(k) ? "always on" : null,
    few(k) ? "few images" : null,
    dims.duplicates[k].length ? `near-duplicate of ${some(dims.duplicates[k])}` : null,
    known(dims.consistency?.[k]) && dims.consistency[k] - dims.chance[k] < 0.02 && !few(k) ? "classes at chance" : null,
  ].filter((flag) => flag !== null);
}

function topShare(k) {
  const { use, dims } = store.tree;
  const all = use.counts[k].reduce((a, b) => a + b, 0);
  return all ? use.counts[k][dims.largest[k]] / all : null;
}

// Columns: key, heading, value to sort by, cell; null for what the run does not have.
function columns() {
  const { dims, use, gate } = store.tree;
  return [
    ["id", "dim", (k) => k, (k) => link(`#dim=${k}`, String(k)), "number of the column in the model, from 0"],
    ["name", "name", (k) => store.names.get(k) ?? "￿", (k) => store.names.has(k) ? name(store.names.get(k)) : make("span", { class: "faint" }, "–"), "given by a reader"],
    ["frequency", "on", (k) => dims.frequency[k], (k) => percent(dims.frequency[k]), "share of images on which it is active"],
    ["support", "images", (k) => dims.support[k], (k) => count(dims.support[k]), "number of images on which it is active"],
    use && ["class", "top class", (k) => topShare(k) ?? -1, (k) => dims.largest[k] < 0 ? "–" : [name(store.tree.classes[dims.largest[k]]), ` ${percent(topShare(k), 0)}`], "most frequent class among its images, by rates"],
    use && ["consistency", "consistency", (k) => dims.consistency[k] ?? -1, (k) => fixed(dims.consistency[k]), "share of its largest class, class-balanced"],
    use && ["chance", "chance", (k) => dims.chance[k] ?? -1, (k) => fixed(dims.chance[k]), "the same with shuffled labels"],
    use && ["above", "above chance", (k) => known(dims.consistency[k]) ? dims.consistency[k] - dims.chance[k] : -2, (k) => known(dims.consistency[k]) ? fixed(dims.consistency[k] - dims.chance[k]) : UNDEFINED, "consistency minus the level of shuffled labels, which is high for rare dimensions"],
    dims.alike && ["alike", "monosem.", (k) => dims.alike[k] ?? -2, (k) => fixed(dims.alike[k]), `likeness of its images in the encoder's features; permuted images give ${fixed(store.tree.alike_chance)}`],
    gate && ["open", "gate open", (k) => gate.open_rate[k], (k) => percent(gate.open_rate[k]), "share of images whose gate is open"],
  ].filter(Boolean);
}

function chosenDimensions() {
  const kind = KINDS.find(([key]) => key === list.show)[1];
  const { dims } = store.tree;
  const wanted = list.named.trim().toLowerCase();
  const found = [];
  for (let k = 0; k < store.columns; k++) {
    if (!kind(k) || (LEAST_FOR.has(list.show) && dims.support[k] < list.support)) continue;
    if (list.class !== "" && dims.largest[k] !== Number(list.class)) continue;
    if (wanted && !(store.names.get(k) ?? "").toLowerCase().includes(wanted)) continue;
    found.push(k);
  }
  const column = columns().find(([key]) => key === list.sort) ?? columns()[0];
  const value = column[2];
  const way = list.down ? -1 : 1;
  return found.sort((a, b) => (value(a) < value(b) ? -way : value(a) > value(b) ? way : 0) || a - b);
}

function sortBy(key) {
  if (list.sort === key) list.down = !list.down;
  else Object.assign(list, { sort: key, down: key !== "id" && key !== "name" });
  list.page = 0;
  showRows();
  document.querySelector(`#dimensions th[data-key="${key}"] button`).focus();
}

function showDimensions(place) {
  list.sort ??= store.tree.use ? "above" : store.tree.dims.alike ? "alike" : "frequency";
  list.support ??= store.tree.thresholds.support;
  const change = (key) => (value) => {
    list[key] = value;
    list.page = 0;
    showRows();
  };
  replace(place,
    heading("dimensions", "Dimensions"),
    make("fieldset", { class: "filters" },
      make("legend", {}, "Filter"),
      choice("show", KINDS.map(([key, , words]) => [key, words()]), list.show, change("show")),
      make("label", { class: "field" }, "images from",
        make("input", { type: "number", min: "0", value: String(list.support), oninput: (e) => change("support")(Number(e.target.value) || 0) })),
      store.tree.classes && choice("top class", [["", "any"], ...store.tree.classes.map((text, c) => [String(c), text])], list.class, change("class")),
      make("label", { class: "field" }, "name contains",
        make("input", { type: "text", value: list.named, oninput: (e) => change("named")(e.target.value) })),
      button("Download table (CSV)", () => download("dimensions.csv", "text/csv", asCsv()))),
    make("p", { id: "list-count", class: "result", role: "status" }),
    make("div", { id: "list-rows" }));
  showRows();
}

function showRows() {
  const found = chosenDimensions();
  const part = found.slice(list.page * LIST_ROWS, (list.page + 1) * LIST_ROWS);
  const heads = columns().map(([key, words, , , about]) => make("th", {
    scope: "col", "data-key": key, class: TEXT.has(key) ? "left" : null,
    "aria-sort": list.sort === key ? (list.down ? "descending" : "ascending") : "none",
  }, button([words, make("span", { class: "arrow", "aria-hidden": "true" }, list.sort === key ? (list.down ? " ▼" : " ▲") : "")], () => sortBy(key), { title: about })));
  heads.push(make("th", { scope: "col", class: "left" }, "random active images"));
  const cells = columns();
  const rows = part.map((k) => make("tr", { "data-dim": k }, cells.map(([key, words, , cell]) =>
    make(key === "id" ? "th" : "td", key === "id" ? { scope: "row" } : { class: `c-${key}${TEXT.has(key) ? " left" : ""}`, "data-head": words }, cell(k))),
    make("td", { class: "c-shots left" }, make("div", { class: "strip small" }, draws(store.images(k), 7, k).map(({ row, value }) =>
      thumb(row, { words: [`dim ${k} = ${fixed(value)}`], size: "small" }))),
      flags(k).length ? make("p", { class: "flags" }, flags(k).join(" · ")) : null)));
  document.getElementById("list-count").textContent = `${count(found.length)} of ${count(store.columns)} dimensions shown`;
  replace(document.getElementById("list-rows"),
    rows.length ? table("Dimensions; a heading sorts", heads, rows, { class: "dims", onkeydown: walkRows }) : make("p", {}, "No dimension passes this filter."),
    leafing(found.length, LIST_ROWS, list.page, (page) => {
      list.page = page;
      showRows();
      document.querySelector("#list-rows tbody th a").focus();
    }));
}

function walkRows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const links = [...document.querySelectorAll("#list-rows tbody th a")];
  const at = links.indexOf(document.activeElement);
  if (!step || at < 0) return;
  links[at + step]?.focus();
  event.preventDefault();
}

// A text that a spreadsheet would take for a formula gets a quote in front.
function csvText(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

function asCsv() {
  const { dims, use, gate, classes } = store.tree;
  const heads = ["dimension", "name", "frequency", "support", "mean", "highest"];
  if (use) heads.push("top_class", "consistency", "chance");
  if (dims.alike) heads.push("monosemanticity");
  if (gate) heads.push("pi", "open_rate", "images_closed");
  const number = (value) => (known(value) ? String(value) : "");
  const lines = dims.support.map((_, k) => {
    const cells = [k, csvText(store.names.get(k) ?? ""), number(dims.frequency[k]), dims.support[k], number(dims.mean[k]), number(dims.highest[k])];
    if (use) cells.push(dims.largest[k] < 0 ? "" : csvText(classes[dims.largest[k]]), number(dims.consistency[k]), number(dims.chance[k]));
    if (dims.alike) cells.push(number(dims.alike[k]));
    if (gate) cells.push(number(gate.pi[k]), number(gate.open_rate[k]), gate.closed[k]);
    return cells.join(",");
  });
  return `${[heads.join(","), ...lines].join("\n")}\n`;
}
