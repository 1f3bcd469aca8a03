// What the gate does: to each dimension over all images, and to the images that it changes most.

const GATE_ROWS = 20;
const gates = { page: 0, sort: "closed" };

function showGate(place, asked) {
  const gate = store.tree.gate;
  const soft = gate.threshold === null;
  const points = gate.pi.flatMap((x, k) => (x > 0 ? [{ x, y: gate.open_rate[k], k, words: `dimension ${store.dimension(k)}: on before the gate for ${percent(x)}, open on ${percent(gate.open_rate[k])}` }] : []));
  const inside = (test) => points.filter(test).length;
  const common = inside((p) => p.x >= 0.5 && p.y < 0.5);
  const rare = inside((p) => p.x < 0.5 && p.y >= 0.5);
  const price = known(gate.prior) && known(gate.weight) ? gate.weight * Math.log((1 - gate.prior) / gate.prior) : null;
  replace(place,
    heading("gate", "Gate"),
    make("p", {}, "A gate can close a dimension on one image and leave it open on another. It is meant to close what most images share, their background, and to keep what is rare. ",
      soft ? "This gate is soft: it multiplies by its probability, and open means a probability above 0.5." : `It is open where its probability exceeds ${gate.threshold}.`,
      ` The median image loses ${percent(gate.removed_median)} of its energy to it, the most changed one ${percent(gate.removed_most)}.`),
    make("div", { class: "columns" },
      make("div", {},
        scatter(points, "on before the gate, share of images", "gate open, share of images",
          `${points.length} dimensions by how often they are on before the gate and how often the gate is open: ${rare} rare and open, ${common} common and closed. The table beside holds the numbers.`,
          [[0, 1.025, "rare and open (wanted)", "start"], [0.98, 0.09, "common and closed (background)", "end"]])),
      make("div", {},
        make("p", {}, `${plural(rare, "dimension")} rare and open, ${plural(common, "dimension")} common and closed, of ${points.length} that are on anywhere before the gate; ${plural(inside((p) => gate.closed[p.k] > 0), "dimension")} closed on at least one image that had it.`),
        make("p", {}, "In theory closing dimension k gains in proportion to pi (1 − pi), most at one half, with pi the share of images that have it before the gate.",
          price === null ? null : ` Opening a gate costs ${price.toPrecision(2).replace("-", "−")} nats here, weight × ln((1 − prior) / prior) at prior ${gate.prior}: ${price < 0 ? "a negative price, so the prior pays gates to stay open" : "gates are paid to close"}.`),
        make("p", {}, "The marks are measured; no line is fitted."))),
    make("div", { id: "gate-dim" }),
    make("h3", {}, "Dimensions"),
    choice("sort by", [["closed", "images closed"], ["pi", "on before the gate"], ["open_rate", "gate open"], ["id", "number"]], gates.sort, (value) => {
      Object.assign(gates, { sort: value, page: 0 });
      showGateRows();
    }),
    make("div", { id: "gate-rows" }),
    soft ? null : make("div", {}, make("h3", {}, "Images that the gate changed most"),
      make("p", { class: "hint" }, "Share of the energy before the gate, |z before|², that it removed; of the embedded images."),
      mostGated()));
  showGateRows();
  const k = whole(asked);
  if (k < store.columns && !soft) openBesideClosed(k);
}

function mostGated() {
  const rows = Array.from({ length: store.rows }, (_, row) => ({ row, removed: store.removed(row) }));
  rows.sort((a, b) => b.removed - a.removed || a.row - b.row);
  return strip("Most gated images", rows.slice(0, 24).map(({ row, removed }) =>
    thumb(row, { words: [`${percent(removed)} removed`], under: percent(removed) })), { id: "most-gated" });
}

function openBesideClosed(k) {
  const closed = store.closed(k).sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.row - b.row);
  const opened = store.images(k);
  replace(document.getElementById("gate-dim"),
    make("h3", {}, "Dimension ", link(`#dim=${k}`, name(store.dimension(k))), ": open beside closed"),
    make("div", { class: "columns" },
      make("div", {}, make("h4", {}, `Open and on, ${plural(opened.length, "image")}`), opened.length ? strip("Open", shots(k, draws(opened, 12, k)), { id: "opened-here" }) : make("p", {}, "none")),
      make("div", {}, make("h4", {}, `Closed, ${plural(closed.length, "image")}`), closed.length ? strip("Closed here", draws(closed, 12, k + 1).map(({ row, value }) =>
        thumb(row, { words: [`dim ${k} closed, before the gate ${fixed(value)}`], under: `was ${fixed(value)}` })), { id: "closed-here" }) : make("p", {}, "none"))));
}

function showGateRows() {
  const { gate, dims } = store.tree;
  const order = gate.pi.map((_, k) => k).filter((k) => gate.pi[k] > 0);
  if (gates.sort !== "id") order.sort((a, b) => gate[gates.sort][b] - gate[gates.sort][a] || a - b);
  const part = order.slice(gates.page * GATE_ROWS, (gates.page + 1) * GATE_ROWS);
  replace(document.getElementById("gate-rows"),
    table("Gate by dimension", ["dim", "on before the gate (pi)", "gate open", "mean probability", "on after the gate", "images closed", ""], part.map((k) =>
      make("tr", { "data-dim": k }, make("th", { scope: "row" }, link(`#dim=${k}`, name(store.dimension(k)))),
        make("td", {}, percent(gate.pi[k])), make("td", {}, percent(gate.open_rate[k])), make("td", {}, fixed(gate.mean[k])),
        make("td", {}, percent(dims.frequency[k])), make("td", {}, count(gate.closed[k])),
        make("td", {}, gate.threshold === null ? null : make("a", { href: `#gate=${k}`, "aria-label": `images that dimension ${k} is open and closed on` }, "images")))), { class: "numbers" }),
    leafing(order.length, GATE_ROWS, gates.page, (page) => {
      gates.page = page;
      showGateRows();
      document.querySelector("#gate-rows th a").focus();
    }));
}
