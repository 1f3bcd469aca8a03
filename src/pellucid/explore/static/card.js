// One dimension: random active images first, then the strongest, then what it leaves out.

const SHOTS = 9;
const MISSES = 6;
const card = { draw: 0 };

function showDimension(place, k) {
  const dims = store.tree.dims;
  if (!(k >= 0 && k < store.columns)) {
    replace(place, heading("dim", "No such dimension"), make("p", {}, `There is no such dimension: they are numbered 0 to ${store.columns - 1}.`));
    return;
  }
  card.draw = 0;
  const live = dims.support[k] > 0;
  const found = live ? store.images(k) : [];
  replace(place,
    make("div", { class: "card-head" },
      heading("dim", `Dimension ${k}`),
      naming(k),
      make("p", { class: "steps" },
        k > 0 ? link(`#dim=${k - 1}`, `‹ ${k - 1}`) : null,
        k + 1 < store.columns ? link(`#dim=${k + 1}`, `${k + 1} ›`) : null,
        button("random live one", () => (location.hash = `#dim=${anyLive()}`)))),
    make("p", { class: "summary" }, live
      ? `Active on ${count(dims.support[k])} of ${count(store.tree.total)} images (${percent(dims.frequency[k])}); mean when active ${fixed(dims.mean[k])}, ${store.tree.signed ? `from ${fixed(dims.lowest[k])} to ${fixed(dims.highest[k])}` : `largest ${fixed(dims.highest[k])}`}. `
      : "This dimension has no active image: it is dead. ",
    flags(k).length ? make("strong", { class: "warn" }, `Flags: ${flags(k).join(", ")}.`) : "No flags."),
    judged(k),
    live ? evidence(k, found) : null,
    gateOf(k),
    live ? relations(k) : null,
    inOther(k));
}

const anyLive = () => {
  const live = store.tree.dims.support.flatMap((n, k) => (n > 0 ? [k] : []));
  return live[Math.floor(Math.random() * live.length)] ?? 0;
};

function naming(k) {
  const field = make("input", {
    type: "text", id: "given", maxlength: "200", placeholder: "give it a name", value: store.names.get(k) ?? "",
    onchange: () => {
      const text = field.value.trim();
      if (text) store.names.set(k, text);
      else store.names.delete(k);
      store.renamed = true;
      showUnsaved();
    },
  });
  return make("div", { class: "naming" }, make("label", { for: "given", class: "quiet" }, `Name of dimension ${k}`), field, make("span", { id: "unsaved" }));
}

function showUnsaved() {
  const place = document.getElementById("unsaved");
  if (!place || !store.renamed) return;
  replace(place, button("Save names.json", saveNames), make("small", {}, ` then: pellucid explore RUN --names names.json`));
}

function saveNames() {
  const sorted = [...store.names].sort(([a], [b]) => a - b);
  download("names.json", "application/json", `${JSON.stringify(Object.fromEntries(sorted), null, 1)}\n`);
  store.renamed = false;
}

function judged(k) {
  const { dims, use, classes } = store.tree;
  const said = [];
  if (use && known(dims.consistency[k])) {
    said.push(make("li", {}, "Consistency ", make("b", {}, fixed(dims.consistency[k])), ` (shuffled labels ${fixed(dims.chance[k])}); largest class `, name(classes[dims.largest[k]]), "."));
  } else if (use) said.push(make("li", {}, `Consistency: ${UNDEFINED}.`));
  if (dims.alike) {
    said.push(make("li", {}, "Monosemanticity ", make("b", {}, fixed(dims.alike[k])), ` (permuted images ${fixed(store.tree.alike_chance)}): mean cosine of its images in the encoder's features.`));
  }
  return said.length ? make("ul", { class: "judged" }, said) : null;
}

function evidence(k, found) {
  const strongest = [...found].sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.row - b.row);
  const drawn = make("div", { id: "drawn" });
  const redraw = () => replace(drawn, strip("Random active images", shots(k, draws(found, SHOTS, k * 1009 + card.draw), "large"), { "data-kind": "random" }));
  redraw();
  const embedded = store.rows < store.tree.total ? ` Examples are of the ${count(store.rows)} embedded images.` : "";
  if (!found.length) return make("p", {}, `None of the ${count(store.rows)} embedded images has it.`);
  return make("div", {},
    make("h3", {}, "Random active images"),
    make("p", { class: "hint" }, `What do these share?${embedded} `, button("show others", () => {
      card.draw += 1;
      redraw();
    })),
    drawn,
    extremes(k, strongest),
    make("h3", {}, "By strength"),
    make("div", { class: "strata" }, strata(k, found)),
    make("h3", {}, "Misses"),
    misses(k, strongest),
    make("div", { class: "columns" },
      make("div", {}, make("h3", {}, "Values where active"),
        histogram(store.tree.dims.histogram[k], Math.min(0, store.tree.dims.lowest[k]), Math.max(0, store.tree.dims.highest[k]),
          `Histogram of ${plural(store.tree.dims.support[k], "active image")}, logarithmic counts, from ${fixed(Math.min(0, store.tree.dims.lowest[k]))} to ${fixed(store.tree.dims.highest[k])}; largest bin ${count(Math.max(...store.tree.dims.histogram[k]))}`),
        make("p", { class: "hint" }, "Logarithmic counts; of unit vectors.")),
      classBars(k)));
}

// The strongest images; a signed dimension has two ends, which need not mean opposites.
function extremes(k, strongest) {
  const ends = store.tree.signed
    ? [["Strongest, positive end", strongest.filter(({ value }) => value > 0)], ["Strongest, negative end", strongest.filter(({ value }) => value < 0)]]
    : [["Strongest", strongest]];
  return ends.map(([words, found]) => [make("h3", {}, words), found.length
    ? strip(words, shots(k, found.slice(0, SHOTS), "large"), { "data-kind": "strongest" })
    : make("p", {}, "none")]);
}

function strata(k, found) {
  const counts = store.tree.dims.strata[k];
  const all = counts.reduce((a, b) => a + b, 0);
  const largest = Math.max(-store.tree.dims.lowest[k], store.tree.dims.highest[k]);
  const shares = wholes(counts.map((n) => (100 * n) / all), 100);
  return counts.map((n, i) => {
    const from = (largest * i) / counts.length;
    const to = (largest * (i + 1)) / counts.length;
    const inside = found.filter(({ value }) => Math.abs(value) >= from && (Math.abs(value) < to || i === counts.length - 1));
    return make("div", { class: "stratum" },
      make("p", {}, make("b", {}, `${fixed(from)} to ${fixed(to)}`), " holds ", make("span", { class: "share" }, `${shares[i]} %`)),
      strip(`Values from ${fixed(from)} to ${fixed(to)}`, shots(k, draws(inside, 4, k * 31 + i))));
  });
}

// Whole numbers with the given total, each next to its exact value (largest remainders).
function wholes(exact, total) {
  const down = exact.map(Math.floor);
  let left = total - down.reduce((a, b) => a + b, 0);
  const order = exact.map((v, i) => [v - down[i], i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  for (const [, i] of order) {
    if (left <= 0) break;
    down[i] += 1;
    left -= 1;
  }
  return down;
}

// Images that are most like the strongest ones in every other dimension, and yet lack this one.
function misses(k, strongest) {
  const mean = new Float64Array(store.columns);
  for (const { row } of strongest.slice(0, SHOTS)) {
    const unit = store.unit(row, new Set([k]));
    if (unit) for (let j = 0; j < mean.length; j++) mean[j] += unit[j];
  }
  const length = Math.sqrt(mean.reduce((sum, v) => sum + v * v, 0));
  const has = new Set(strongest.map(({ row }) => row));
  if (length === 0) return make("p", {}, "Its strongest images have nothing else to be compared in.");
  const cosine = store.cosines(mean.map((v) => v / length), new Set([k]));
  const off = [];
  for (let row = 0; row < store.rows; row++) if (!has.has(row) && !Number.isNaN(cosine[row])) off.push({ row, cosine: cosine[row] });
  if (!off.length) return make("p", {}, "There are none: every other image that has a similarity has it.");
  off.sort((a, b) => b.cosine - a.cosine || a.row - b.row);
  return make("div", {},
    make("p", { class: "hint" }, "Most like its strongest images in all other dimensions, yet it is off. Would your words have kept these out?"),
    strip("Misses", off.slice(0, MISSES).map(({ row, cosine: c }) =>
      thumb(row, { words: [`dim ${k} = 0`, `otherwise alike ${fixed(c)}`], under: `alike ${fixed(c)}`, size: "large" })), { "data-kind": "misses" }));
}

function classBars(k) {
  const { use, classes } = store.tree;
  if (!use) return null;
  const counts = use.counts[k];
  const all = counts.reduce((a, b) => a + b, 0);
  const total = use.images.reduce((a, b) => a + b, 0);
  if (!all) return null;
  const order = counts.map((_, c) => c).sort((a, b) => counts[b] / (use.images[b] || 1) - counts[a] / (use.images[a] || 1) || a - b).slice(0, 8);
  const most = Math.max(...order.map((c) => Math.max(counts[c] / all, use.images[c] / total)));
  return make("div", {}, make("h3", {}, "Classes"),
    table("Share of its active images, and of all images", ["class", "here", "overall", "lift", "images"], order.map((c) => {
      const here = counts[c] / all;
      const overall = use.images[c] / total;
      return make("tr", {}, make("th", { scope: "row" }, link(`#images=class-${c}`, name(classes[c]))),
        make("td", {}, bar(here, most), make("span", { class: "amount" }, percent(here))), make("td", {}, bar(overall, most), make("span", { class: "amount" }, percent(overall))),
        make("td", {}, overall ? `×${fixed(here / overall, 1)}` : "–"), make("td", {}, count(counts[c])));
    }), { class: "bars" }));
}

function relations(k) {
  const { nearest, together } = store.tree.dims;
  const items = (pairs, words) => pairs.length
    ? make("ul", { class: "inline" }, pairs.map(([j, value]) => make("li", {}, link(`#dim=${j}`, name(store.dimension(j))), ` ${words(value)}`)))
    : make("p", {}, "none");
  return make("div", { class: "columns" },
    make("div", {}, make("h3", {}, "Nearest dimensions"), make("p", { class: "hint" }, "Cosine of their columns over all images."), items(nearest[k], (v) => `(cos ${fixed(v)})`)),
    make("div", {}, make("h3", {}, "Often on together"), make("p", { class: "hint" }, "Times more often than if independent."), items(together[k], (v) => `(×${fixed(v, 1)})`)));
}

function gateOf(k) {
  const gate = store.tree.gate;
  if (!gate) return null;
  const soft = gate.threshold === null;
  const closed = soft ? [] : store.closed(k).sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.row - b.row);
  return make("div", {},
    make("h3", {}, "Gate"),
    make("p", {}, `Before the gate on for ${percent(gate.pi[k])} of images; gate open on ${percent(gate.open_rate[k])} (mean probability ${fixed(gate.mean[k])}); after it on for ${percent(store.tree.dims.frequency[k])}. `,
      soft ? "The gate is soft: z is multiplied by its probability, and \"open\" is only a reading at 0.5." : `Taken away on ${plural(gate.closed[k], "image")} that had it.`),
    closed.length ? strip("Closed here, strongest before the gate", closed.slice(0, SHOTS).map(({ row, value }) =>
      thumb(row, { words: [`dim ${k} closed`, `before the gate ${fixed(value)}`], under: `was ${fixed(value)}` })), { "data-kind": "closed" }) : null,
    closed.length ? link(`#gate=${k}`, "open beside closed") : null);
}

function inOther(k) {
  const other = store.tree.versus;
  if (!other) return null;
  const partner = other.partner[k];
  return make("div", {}, make("h3", {}, "Also in ", name(other.label), "?"), partner < 0
    ? make("p", {}, store.tree.dims.support[k] ? "No dimension there is left to match it." : "It is dead here, and a dead dimension matches none.")
    : make("p", {}, `Dimension ${partner}`, other.names[partner] ? [" ", name(other.names[partner])] : null, `, agreement ${fixed(other.agreement[k])} (cosine ${fixed(other.cosine[k])}, by chance ${fixed(other.chance[k])}): `, make("b", {}, other.recurs[k] ? "recurs" : "does not recur"), "."),
    partner < 0 ? null : strip("Its random active images there", other.random[partner].map((id) => thumb(store.row.get(id)))));
}
