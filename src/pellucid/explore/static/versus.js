// A second representation of the same images: what both have, and what differs most.

const MATCH_ROWS = 15;
const LINEAR = { unit: "dimension", scale: (n) => n };
const matches = { page: 0, show: "recurs" };

function showVersus(place) {
  const other = store.tree.versus;
  const live = store.tree.dims.support.map((n, k) => k).filter((k) => store.tree.dims.support[k] > 0);
  const recurs = live.filter((k) => other.recurs[k]);
  const taken = new Set(recurs.map((k) => other.partner[k]));
  const onlyThere = other.live.flatMap((on, j) => (on && !taken.has(j) ? [j] : []));
  const agreement = live.map((k) => other.agreement[k] ?? 0);
  const luck = live.map((k) => other.luck[k] ?? 0);
  const bins = (values) => {
    const out = new Array(20).fill(0);
    for (const v of values) out[Math.min(19, Math.max(0, Math.floor(v * 20)))]++;
    return out;
  };
  replace(place,
    heading("versus", "Compared with ", name(other.label)),
    make("p", {}, make("b", {}, `${count(recurs.length)} of ${count(live.length)} live dimensions recur in `, name(other.label)), ". Dimensions are matched one to one by the agreement of their columns over the same images: their cosine, corrected for what permuted images give, 0 by chance and 1 for the same dimension. One recurs from 0.5 on, and above all that permuted images and randomly rotated axes gave it."),
    make("div", { class: "columns" },
      make("div", {}, make("h3", {}, "Agreement of matched dimensions"), histogram(bins(agreement), 0, 1, `Agreement of ${live.length} matched dimensions from 0 to 1, in steps of 0.05: ${bins(agreement).join(", ")}`, LINEAR)),
      make("div", {}, make("h3", {}, "The highest with permuted images or rotated axes"), histogram(bins(luck), 0, 1, `The highest agreement of each dimension with permuted images or rotated axes: ${bins(luck).join(", ")}`, LINEAR))),
    choice("show", [["recurs", `in both (${recurs.length})`], ["here", `only here (${live.length - recurs.length})`], ["there", `only in the other (${onlyThere.length})`]], matches.show, (value) => {
      Object.assign(matches, { show: value, page: 0 });
      showMatches();
    }),
    make("div", { id: "match-rows" }),
    changed(other));
  showMatches();
}

function showMatches() {
  const other = store.tree.versus;
  const live = store.tree.dims.support.map((_, k) => k).filter((k) => store.tree.dims.support[k] > 0);
  const taken = new Set(live.filter((k) => other.recurs[k]).map((k) => other.partner[k]));
  const rows = matches.show === "there"
    ? other.live.flatMap((on, j) => (on && !taken.has(j) ? [[null, j]] : []))
    : live.filter((k) => other.recurs[k] === (matches.show === "recurs")).map((k) => [k, other.partner[k] < 0 ? null : other.partner[k]]);
  // What differs most comes first, in every list.
  rows.sort((a, b) => (a[0] === null ? 0 : (other.agreement[a[0]] ?? -1) - (other.agreement[b[0]] ?? -1)));
  const mine = (k) => k === null ? "–" : [link(`#dim=${k}`, name(store.dimension(k))), make("div", { class: "strip small" }, draws(store.images(k), 6, k).map(({ row }) => thumb(row, { size: "small" })))];
  const theirs = (j) => j === null ? "–" : [other.names[j] ? name(`${j} ${other.names[j]}`) : String(j), make("div", { class: "strip small" }, other.random[j].map((id) => thumb(store.row.get(id), { size: "small" })))];
  replace(document.getElementById("match-rows"),
    rows.length ? table("Matched dimensions, what differs most first; with random active images", [...["here", other.label].map((words) => make("th", { scope: "col", class: "left" }, name(words))), "agreement", "cosine", "chance"], rows.slice(matches.page * MATCH_ROWS, (matches.page + 1) * MATCH_ROWS).map(([k, j]) =>
      make("tr", {}, make("td", { class: "left" }, mine(k)), make("td", { class: "left" }, theirs(j)),
        ...["agreement", "cosine", "chance"].map((key) => make("td", {}, k === null ? "–" : fixed(other[key][k])))))) : make("p", {}, "none"),
    leafing(rows.length, MATCH_ROWS, matches.page, (page) => {
      matches.page = page;
      showMatches();
      document.querySelector("#match-rows a").focus();
    }));
}

function changed(other) {
  const { at, tried, common, changed: images } = other.neighbours;
  return make("div", {},
    make("h3", {}, "Images whose neighbours changed most"),
    make("p", { class: "hint" }, `Of its ${at} nearest, an image keeps ${fixed(common, 1)} on average, over ${count(tried)} images.`),
    images.map(({ image, common: kept, first, other: second }) => make("div", { class: "changed" },
      thumb(store.row.get(image), { size: "large", under: `${kept} of ${at} kept` }),
      make("div", {}, strip(`Nearest here to image ${image}`, first.map((id) => thumb(store.row.get(id), { size: "small" }))),
        strip(`Nearest in the other to image ${image}`, second.map((id) => thumb(store.row.get(id), { size: "small" })))))));
}
