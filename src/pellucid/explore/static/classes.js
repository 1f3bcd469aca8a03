// Classes by dimensions: one cell each, read by arrow keys, and as a table for the chosen row or column.

const PER_CLASS = 20;
const heat = { mode: "share", at: [0, 0], all: false, most: 1 };
const MODES = {
  share: ["p(class | dimension)", "share of the dimension's active images that are of the class"],
  mass: ["mean activation", "mean value over all images of the class"],
  lift: ["lift", "times more often than the class is in the data; white is as often, blue rarer, orange more often"],
};

function heatDimensions() {
  const { dims, use } = store.tree;
  const scored = dims.support.map((_, k) => k).filter((k) => dims.largest[k] >= 0);
  const order = scored.sort((a, b) => dims.largest[a] - dims.largest[b] || (dims.consistency[b] ?? 0) - (dims.consistency[a] ?? 0) || a - b);
  if (heat.all) return order;
  const shown = new Array(use.images.length).fill(0);
  return order.filter((k) => !few(k) && shown[dims.largest[k]]++ < PER_CLASS);
}

// Active labelled images of a dimension, counted once.
function rowTotal(k) {
  heat.totals ??= store.tree.use.counts.map((counts) => counts.reduce((a, b) => a + b, 0));
  return heat.totals[k];
}

function heatValue(k, c, mode = heat.mode) {
  const { use } = store.tree;
  if (mode === "mass") return use.mass[k][c];
  const all = rowTotal(k);
  const share = all ? use.counts[k][c] / all : null;
  if (mode === "share" || share === null) return share;
  const total = (heat.total ??= use.images.reduce((a, b) => a + b, 0));
  return use.images[c] ? share / (use.images[c] / total) : null;
}

const heatWords = (value, mode = heat.mode) => !known(value) ? UNDEFINED : mode === "share" ? percent(value) : mode === "lift" ? `×${fixed(value, 2)}` : fixed(value, 4);

function showClasses(place) {
  const { classes } = store.tree;
  const ks = heatDimensions();
  heat.at = [Math.min(heat.at[0], classes.length - 1), Math.min(heat.at[1], Math.max(0, ks.length - 1))];
  const again = (control) => {
    showClasses(place);
    place.querySelector(control).focus();
  };
  replace(place,
    heading("classes", "Classes by dimensions"),
    make("p", {}, `Dimensions are ordered by their largest class, then by consistency. ${heat.all ? "All live dimensions are shown; those under the least support are hatched." : `At most ${PER_CLASS} dimensions a class, each with at least ${store.tree.thresholds.support} images.`}`),
    make("div", { class: "filters" },
      choice("cells show", Object.entries(MODES).map(([key, [words]]) => [key, words]), heat.mode, (value) => {
        heat.mode = value;
        again("select");
      }),
      make("label", { class: "field check" }, make("input", { type: "checkbox", checked: heat.all, onchange: (e) => {
        heat.all = e.target.checked;
        again("input");
      } }), " all live dimensions")),
    make("p", { class: "hint" }, `${MODES[heat.mode][0]}: ${MODES[heat.mode][1]}. Arrow keys move; Enter opens the dimension.`));
  if (!ks.length) {
    place.append(make("p", {}, "No dimension has enough labelled images."));
    return;
  }
  heat.most = 1e-9;
  for (const k of ks) classes.forEach((_, c) => (heat.most = Math.max(heat.most, heatValue(k, c) ?? 0)));
  const wide = Math.max(4, Math.min(24, Math.floor(1100 / ks.length)));
  const tall = classes.length > 40 ? 12 : 20;
  const canvas = make("canvas", { width: ks.length * wide, height: classes.length * tall, tabindex: "0", role: "application", "aria-label": `Heat map of ${classes.length} classes by ${ks.length} dimensions`, "aria-describedby": "heat-reading" });
  const reading = make("p", { id: "heat-reading", role: "status" });
  const details = make("div", { class: "columns" });
  const paint = () => {
    paintHeat(canvas, ks, wide, tall);
    readHeat(ks, reading, details);
  };
  canvas.addEventListener("keydown", (event) => {
    const [dc, dk] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === "Enter") location.hash = `#dim=${ks[heat.at[1]]}`;
    if (!dc && !dk) return;
    heat.at = [Math.min(classes.length - 1, Math.max(0, heat.at[0] + dc)), Math.min(ks.length - 1, Math.max(0, heat.at[1] + dk))];
    paint();
    event.preventDefault();
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const within = (part, cells) => Math.min(cells - 1, Math.max(0, Math.floor(part * cells)));
    heat.at = [within((event.clientY - box.top) / box.height, classes.length), within((event.clientX - box.left) / box.width, ks.length)];
    paint();
  });
  const scale = heat.mode === "lift" ? null : make("p", { class: "hint" }, `Dark is 0, bright ${heatWords(heat.most)}, the largest cell.`);
  place.append(scale ?? "", make("div", { class: "heat" },
    make("ul", { class: "heat-names", "aria-hidden": "true" }, classes.map((text) => {
      const item = make("li", {}, name(text));
      item.style.height = `${tall}px`;
      return item;
    })),
    make("div", { class: "scroll" }, canvas)), reading, details);
  paint();
}

function paintHeat(canvas, ks, wide, tall) {
  const context = canvas.getContext("2d");
  const { classes } = store.tree;
  ks.forEach((k, x) => classes.forEach((_, c) => {
    const value = heatValue(k, c);
    context.fillStyle = !known(value) || few(k) ? "#888" : heat.mode === "lift"
      ? blend(DIVERGING, 0.5 + Math.log2(Math.max(value, 0.0625)) / 8)
      : blend(CIVIDIS, value / heat.most);
    context.fillRect(x * wide, c * tall, wide - (wide > 5 ? 1 : 0), tall - 1);
    if (few(k)) {
      context.strokeStyle = "#999";
      context.beginPath();
      context.moveTo(x * wide, c * tall + tall);
      context.lineTo(x * wide + wide, c * tall);
      context.stroke();
    }
  }));
  const [c, x] = heat.at;
  context.strokeStyle = "#fff";
  context.lineWidth = 3;
  context.strokeRect(x * wide - 0.5, c * tall - 0.5, wide, tall);
  context.strokeStyle = "#000";
  context.lineWidth = 1;
  context.strokeRect(x * wide - 1.5, c * tall - 1.5, wide + 2, tall + 2);
}

function readHeat(ks, reading, details) {
  const { classes } = store.tree;
  const [c, x] = heat.at;
  const k = ks[x];
  replace(reading, name(classes[c]), ", dimension ", link(`#dim=${k}`, name(store.dimension(k))), ": ", make("b", {}, heatWords(heatValue(k, c))),
    ` (${plural(store.tree.use.counts[k][c], "active image")} of the class)`);
  const byClass = classes.map((_, i) => i).sort((a, b) => (heatValue(k, b) ?? -1) - (heatValue(k, a) ?? -1) || a - b).slice(0, 8);
  const byDimension = [...ks].sort((a, b) => (heatValue(b, c) ?? -1) - (heatValue(a, c) ?? -1) || a - b).slice(0, 8);
  replace(details,
    table(`Dimension ${k}, by class`, ["class", MODES[heat.mode][0]], byClass.map((i) => make("tr", {}, make("th", { scope: "row" }, name(classes[i])), make("td", {}, heatWords(heatValue(k, i)))))),
    table("This class, by dimension", ["dimension", MODES[heat.mode][0]], byDimension.map((j) => make("tr", {}, make("th", { scope: "row" }, link(`#dim=${j}`, name(store.dimension(j)))), make("td", {}, heatWords(heatValue(j, c)))))));
}
