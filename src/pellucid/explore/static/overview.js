// The part of the overview that needs pictures: where to start.

function showStart() {
  const { start, clear, dims, use } = store.tree;
  const small = (k) => make("article", { class: "mini" },
    make("h4", {}, link(`#dim=${k}`, "Dimension ", name(store.dimension(k)))),
    make("p", {}, `on ${percent(dims.frequency[k])}`, use && known(dims.consistency[k]) ? [` · ${fixed(dims.consistency[k])} (chance ${fixed(dims.chance[k])}) `, name(store.tree.classes[dims.largest[k]])] : dims.alike && known(dims.alike[k]) ? ` · alike ${fixed(dims.alike[k])} (chance ${fixed(store.tree.alike_chance)})` : null),
    strip(`Random active images of dimension ${k}`, draws(store.images(k), 6, k).map(({ row, value }) => thumb(row, { words: [`dim ${k} = ${fixed(value)}`] }))),
    flags(k).length ? make("p", { class: "flags" }, flags(k).join(" · ")) : null);
  replace(document.getElementById("start"),
    start.clearest.length ? [make("h3", {}, "The clearest"), make("p", { class: "hint" }, `By ${clear}; six random active images of each.`), make("div", { class: "minis" }, start.clearest.map(small))] : null,
    start.doubtful.length ? [make("h3", {}, "The most doubtful"), make("p", { class: "hint" }, `On too few images, on nearly all, or ${clear ?? "with nothing to judge them by"} lowest.`), make("div", { class: "minis" }, start.doubtful.map(small))] : null,
    start.pair ? [make("h3", {}, "A pair worth reading"), make("p", {}, "Neighbours with more than one reason: ", make("a", { href: `#pair=${start.pair.join(",")}`, class: "pairlink" }, start.pair.map((id) => thumbs.picture(store.row.get(id), described(store.row.get(id)), "large")), " why are these two similar?"))] : null);
}
