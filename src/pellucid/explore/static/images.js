// All images, and one image as a list of dimensions.

const GRID = 60;
const grid = { page: 0, class: "", named: "", order: "index", all: false };

function showImages(place, asked) {
  const label = whole(asked?.match(/^class-(\d+)$/)?.[1]);
  if (store.tree.classes && label < store.tree.classes.length) Object.assign(grid, { class: String(label), page: 0 });
  const change = (key) => (value) => {
    Object.assign(grid, { [key]: value, page: 0 });
    showGrid();
  };
  const orders = [["index", "number"], ["most", "most active dimensions"], ["fewest", "fewest active dimensions"]];
  if (store.tree.gate && store.tree.gate.threshold !== null) orders.push(["removed", "most removed by the gate"]);
  replace(place,
    heading("images", "Images"),
    make("fieldset", { class: "filters" }, make("legend", {}, "Filter"),
      store.tree.classes && choice("class", [["", "any"], ...store.tree.classes.map((text, c) => [String(c), text])], grid.class, change("class")),
      store.tree.files && make("label", { class: "field" }, "file contains", make("input", { type: "text", value: grid.named, oninput: (e) => change("named")(e.target.value) })),
      choice("sort by", orders, grid.order, change("order")),
      button("random image", () => (location.hash = `#img=${store.image(Math.floor(Math.random() * store.rows))}`))),
    make("p", { id: "grid-count", class: "result", role: "status" }),
    make("div", { id: "grid" }));
  showGrid();
}

function showGrid() {
  const wanted = grid.named.trim().toLowerCase();
  const rows = [];
  for (let row = 0; row < store.rows; row++) {
    if (grid.class !== "" && store.tree.labels[row] !== Number(grid.class)) continue;
    if (wanted && !store.file(row).toLowerCase().includes(wanted)) continue;
    rows.push(row);
  }
  if (grid.order !== "index") {
    const way = grid.order === "fewest" ? 1 : -1;
    const key = new Map(rows.map((row) => [row, grid.order === "removed" ? store.removed(row) : store.on(row).length]));
    rows.sort((a, b) => way * (key.get(a) - key.get(b)) || a - b);
  }
  document.getElementById("grid-count").textContent = `${count(rows.length)} of ${count(store.rows)} embedded images shown`;
  replace(document.getElementById("grid"),
    rows.length ? strip("Images", rows.slice(grid.page * GRID, (grid.page + 1) * GRID).map((row) =>
      thumb(row, { size: "large", under: make("span", {}, name(store.className(row) ?? store.short(row))) })), { class: "strip grid" })
      : make("p", {}, "No image passes this filter."),
    leafing(rows.length, GRID, grid.page, (page) => {
      grid.page = page;
      showGrid();
      document.querySelector("#grid a").focus();
    }));
}

// The picture of a dimension: the image that has it most.
function icon(k) {
  const found = store.images(k);
  if (!found.length) return null;
  const best = found.reduce((a, b) => (Math.abs(b.value) > Math.abs(a.value) ? b : a));
  return make("a", { href: `#dim=${k}`, tabindex: "-1", "aria-hidden": "true" }, thumbs.picture(best.row, "", "small"));
}

const missing = (id) => known(id) && id < store.tree.total
  ? `Image ${id} is not in this file: it holds ${count(store.rows)} of ${count(store.tree.total)} images.`
  : `There is no such image: they are numbered 0 to ${store.tree.total - 1}.`;

const closedWords = (row) => store.taken(row).length
  ? "All gates are closed on this image; its similarity is not defined."
  : "No dimension is active on this image; its similarity is not defined.";

function showImage(place, id) {
  const row = store.row.get(id);
  if (row === undefined) {
    replace(place, heading("img", "No such image"), make("p", {}, missing(id)));
    return;
  }
  grid.all = false;
  const label = store.className(row);
  const on = store.on(row);
  const taken = store.tree.gate ? store.taken(row) : [];
  const entries = make("div", { id: "entries" });
  const showEntries = () => {
    const shown = grid.all ? on : on.slice(0, 12);
    const most = on.length ? Math.abs(on[0].value) : 0;
    replace(entries,
      make("ol", { class: "dictionary", onkeydown: walk }, shown.map(({ k, value }) => make("li", {},
        icon(k), link(`#dim=${k}`, name(store.dimension(k))), bar(value, most, store.tree.signed), make("span", { class: "number" }, fixed(value))))),
      on.length > shown.length ? button(`show ${on.length - shown.length} more`, () => {
        grid.all = true;
        showEntries();
        entries.querySelectorAll("li > a:not([tabindex])")[12].focus();
      }) : null);
  };
  showEntries();
  replace(place,
    make("div", { class: "image-head" }, thumbs.picture(row, described(row), "hero"),
      make("div", {}, heading("img", name(store.short(row))),
        make("p", { class: "path" }, store.tree.files ? name(store.file(row)) : null),
        make("p", { class: "summary" }, label === null ? null : ["Class ", link(`#images=class-${store.tree.labels[row]}`, name(label)), ". "],
          `Image ${count(id)}; ${on.length} of ${count(store.columns)} dimensions active.`,
          taken.length ? ` The gate took away ${plural(taken.length, "dimension")}, ${percent(store.removed(row))} of the energy.` : ""))),
    on.length ? [make("h3", {}, "z / |z| ="), make("p", { class: "hint" }, "Each dimension by the image that has it most."), entries] : make("p", {}, closedWords(row)),
    taken.length ? make("div", {}, make("h3", {}, "Closed by the gate here"),
      make("ul", { class: "inline" }, taken.slice(0, 12).map(({ k, value }) => make("li", {}, icon(k), link(`#dim=${k}`, name(store.dimension(k))), ` ${fixed(value)}`)),
        taken.length > 12 ? make("li", {}, `and ${taken.length - 12} more`) : null)) : null,
    neighboursOf(row, id));
}

function neighboursOf(row, id) {
  const found = store.neighbours(row, 12);
  if (!found.length) return null;
  const among = store.rows < store.tree.total ? `, of the ${count(store.rows)} embedded images` : "";
  const others = draws(Array.from({ length: store.rows }, (_, r) => r).filter((r) => r !== row && store.alive[r]), 4, id);
  const cosine = store.cosines(store.unit(row));
  const shot = (r, c) => make("span", { class: "near" },
    thumb(r, { words: [`cosine ${fixed(c, 3)}`], under: [fixed(c, 3), store.className(r) ? [" ", name(store.className(r))] : null], size: "large" }),
    make("a", { href: `#pair=${id},${store.image(r)}`, class: "why", "aria-label": `why image ${store.image(r)} is similar` }, "why"));
  return make("div", {},
    make("h3", {}, "Nearest"), make("p", { class: "hint" }, `By cosine of z${among}.`),
    strip("Nearest images", found.map(({ row: r, cosine: c }) => shot(r, c)), { id: "nearest" }),
    make("h3", {}, "Random images, for scale"),
    strip("Random images", others.map((r) => shot(r, cosine[r]))));
}
