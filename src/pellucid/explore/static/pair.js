// Why two images are similar: a sum of products, each a dimension's own.

const TOP = 8;
const pair = { without: new Set(), all: false, rarity: false };

function showPair(place, a, b) {
  pair.without = new Set();
  pair.all = false;
  pair.rarity = false;
  const rows = [store.row.get(a), store.row.get(b)];
  replace(place, heading("pair", "Why are these two similar?"), pairForm(a, b));
  if (rows.includes(undefined)) {
    place.append(make("p", {}, missing(rows[0] === undefined ? a : b)));
    return;
  }
  const body = make("div", { id: "explanation" });
  place.append(make("div", { class: "two" }, sideOf(rows[0], "A"), make("p", { id: "cosine" }), sideOf(rows[1], "B")), body);
  explain(rows[0], rows[1], body);
}

function pairForm(a, b) {
  const field = (label, value) => make("input", { type: "number", min: "0", max: String(store.tree.total - 1), value: known(value) ? String(value) : "", "aria-label": label });
  const first = field("number of image A", a);
  const second = field("number of image B", b);
  const row = store.row.get(a);
  const near = row === undefined ? [] : store.neighbours(row, 1);
  return make("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#pair=${Number(first.value)},${Number(second.value)}`;
  } },
  make("label", { class: "field" }, "image A", first), make("label", { class: "field" }, "image B", second),
  make("button", { type: "submit" }, "explain"),
  near.length ? button("A with its nearest", () => (location.hash = `#pair=${a},${store.image(near[0].row)}`)) : null,
  button("random image with its nearest", () => {
    const alive = Array.from(store.alive.keys()).filter((r) => store.alive[r]);
    const one = alive[Math.floor(Math.random() * alive.length)];
    const [next] = one === undefined ? [] : store.neighbours(one, 1);
    if (next) location.hash = `#pair=${store.image(one)},${store.image(next.row)}`;
  }));
}

function sideOf(row, letter) {
  return make("div", { class: "side" }, thumb(row, { size: "hero" }),
    make("p", {}, make("b", {}, `${letter} `), name(store.short(row)), store.className(row) === null ? null : [", ", name(store.className(row))]));
}

const thousandths = (value) => Math.round(value * 1000);
const shown3 = (value) => fixed(value / 1000, 3);

function explain(a, b, body) {
  const [za, zb] = [store.unit(a), store.unit(b)];
  const top = document.getElementById("cosine");
  if (za === null || zb === null) {
    replace(top, make("b", {}, UNDEFINED));
    const which = za === null && zb === null ? "A and B" : za === null ? "A" : "B";
    replace(body, make("p", {}, make("b", {}, `${which}: `), closedWords(za === null ? a : b)), za && onlyIn("A", a, null), zb && onlyIn("B", b, null));
    return;
  }
  const terms = [];
  const [onA, onB] = [a, b].map((row) => new Set(store.on(row).map(({ k }) => k)));
  let cosine = 0;
  let positive = 0;
  for (let k = 0; k < store.columns; k++) {
    const product = za[k] * zb[k];
    cosine += product;
    positive += Math.max(0, product);
    if (onA.has(k) && onB.has(k)) terms.push({ k, a: za[k], b: zb[k], product });
  }
  terms.sort((x, y) => Math.abs(y.product) - Math.abs(x.product) || x.k - y.k);
  const total = thousandths(cosine);
  const near = placed(a, b);
  replace(top, make("b", { id: "cosine-value" }, shown3(total)), make("span", {}, "cosine"),
    near === null ? null : make("small", {}, a === b ? "one and the same image" : `B is A's neighbour ${count(near)} of ${count(comparable(a))}`),
    known(store.tree.start.random_cosine) ? make("small", {}, `median random pair ${fixed(store.tree.start.random_cosine)}`) : null);
  replace(body,
    terms.length === 0 ? make("p", {}, "These images share no active dimension.") : [additive(terms, cosine, positive, () => explain(a, b, body)), leftOut(a, b, cosine, near)],
    onlyIn("A", a, onB), onlyIn("B", b, onA),
    terms.length && !store.tree.signed ? rarity(terms) : null);
}

const comparable = (a) => store.alive.reduce((n, v) => n + v, 0) - store.alive[a];

// The place of b among a's neighbours, from 1; null for the image itself.
function placed(a, b, without = new Set()) {
  if (a === b) return 0;
  const query = store.unit(a, without);
  if (query === null) return null;
  const cosine = store.cosines(query, without);
  if (Number.isNaN(cosine[b])) return null;
  let better = 0;
  for (let r = 0; r < store.rows; r++) {
    if (r === a || r === b || Number.isNaN(cosine[r])) continue;
    const lead = tied(cosine[r], cosine[b]);
    if (lead > 0 || (lead === 0 && r < b)) better++;
  }
  return better + 1;
}

// The table whose printed rows sum to the printed cosine: the rest is what rounding leaves, too.
function additive(terms, cosine, positive, again) {
  const total = thousandths(cosine);
  const signed = store.tree.signed;
  const shares = !signed && cosine > 0;
  const rows = pair.all ? terms : terms.slice(0, TOP);
  const left = terms.length - rows.length;
  const rest = total - rows.reduce((sum, t) => sum + thousandths(t.product), 0);
  const parts = rows.map((t) => (100 * t.product) / cosine);
  const restPart = 100 - parts.reduce((x, y) => x + y, 0);
  const per = shares ? wholes([...parts, Math.max(0, restPart)], 100) : null;
  const most = Math.abs(terms[0].product);
  const line = (t, i) => make("tr", { "data-dim": t.k },
    make("td", { class: "tick" }, make("input", { type: "checkbox", checked: pair.without.has(t.k), "aria-label": `leave dimension ${t.k} out`, onchange: (e) => {
      if (e.target.checked) pair.without.add(t.k);
      else pair.without.delete(t.k);
      again();
      document.querySelector(`#explanation tr[data-dim="${t.k}"] input`)?.focus();
    } })),
    make("th", { scope: "row" }, icon(t.k), link(`#dim=${t.k}`, name(store.dimension(t.k)))),
    make("td", { class: "wide" }, fixed(t.a)), make("td", { class: "wide" }, fixed(t.b)),
    make("td", { class: "barcell" }, bar(t.product, most, signed)),
    make("td", { class: "part" }, shown3(thousandths(t.product))), shares ? make("td", { class: "share" }, `${per[i]} %`) : null);
  const restLine = left || rest || (per && per[rows.length])
    ? make("tr", { class: "rest" }, make("td"), make("th", { scope: "row" }, left ? `+ ${left} further shared ${left === 1 ? "dimension" : "dimensions"}` : "rounding of the rows above",
      left ? [" ", button("show", () => {
        pair.all = true;
        again();
        document.querySelectorAll("#explanation tr[data-dim] input")[TOP].focus();
      })] : null), make("td", { class: "wide" }), make("td", { class: "wide" }), make("td", { class: "barcell" }),
    make("td", { class: "part" }, shown3(rest)), shares ? make("td", { class: "share" }, `${per[rows.length]} %`) : null) : null;
  return make("div", {},
    table(signed ? "Products of the two unit vectors; they can cancel, so none is a share" : "Products of the two unit vectors; none is negative, so each is a share of the similarity",
      [make("th", { scope: "col" }, make("span", { class: "quiet" }, "leave out")), make("th", { scope: "col", class: "left" }, "dimension"), ...["A", "B"].map((words) => make("th", { scope: "col", class: "wide" }, words)), make("th", { scope: "col", class: "barcell" }, make("span", { class: "quiet" }, "bar")), "A × B", ...(shares ? ["share"] : [])],
      [rows.map(line), restLine,
        make("tr", { class: "sum" }, make("td"), make("th", { scope: "row" }, "sum"), make("td", { class: "wide" }), make("td", { class: "wide" }), make("td", { class: "barcell" }),
          make("td", { id: "sum-value" }, shown3(total)), shares ? make("td", {}, "100 %") : null)], { class: "additive" }),
    make("p", { class: "hint" }, signed
      ? `Positive ${shown3(thousandths(positive))}, negative ${shown3(total - thousandths(positive))}, sum ${shown3(total)}, which is the cosine.`
      : "The sum is the cosine."));
}

function leftOut(a, b, cosine, near) {
  if (!pair.without.size) return make("p", { class: "hint" }, "Tick dimensions to leave them out and see what becomes of the similarity.");
  const [za, zb] = [store.unit(a, pair.without), store.unit(b, pair.without)];
  const which = [...pair.without].sort((x, y) => x - y).map((k) => store.dimension(k)).join(", ");
  if (za === null || zb === null) return make("p", { class: "without", role: "status" }, `Without ${which} nothing is left of ${za === null ? "A" : "B"}; the similarity is not defined.`);
  const now = za.reduce((sum, v, k) => sum + v * zb[k], 0);
  const place = placed(a, b, pair.without);
  return make("p", { class: "without", role: "status" }, "Without ", name(which), ` (vectors scaled to length 1 again) the cosine is `, make("b", {}, fixed(now, 3)), ` in place of ${fixed(cosine, 3)}`,
    place && near ? `, and B is A's neighbour ${count(place)} in place of ${count(near)}.` : ".");
}

function onlyIn(letter, row, other) {
  const only = store.on(row).filter(({ k }) => other === null || !other.has(k));
  if (!only.length) return null;
  return make("div", { class: "only" }, make("h3", {}, `Only in ${letter}`),
    make("ul", { class: "inline" }, only.slice(0, 8).map(({ k, value }) => make("li", {}, icon(k), link(`#dim=${k}`, name(store.dimension(k))), ` ${fixed(value)}`)),
      only.length > 8 ? make("li", {}, `and ${only.length - 8} more`) : null));
}

// The ideal that a gate stands for: what is rare counts more. Not what the model was trained with.
function rarity(terms) {
  const pi = store.tree.gate?.pi ?? store.tree.dims.frequency;
  const weighed = terms.map((t) => ({ ...t, weight: t.product / Math.max(pi[t.k], 1 / store.tree.total) }));
  const all = weighed.reduce((sum, t) => sum + t.weight, 0);
  const order = weighed.sort((x, y) => y.weight - x.weight || x.k - y.k).slice(0, TOP);
  return make("details", {}, make("summary", {}, "Weighed by rarity"),
    make("p", { class: "hint" }, `Each product over the share of images that have the dimension, z z′ / pi: the theory behind the gate. This is not the cosine that the model was trained with. Sum ${fixed(all)}.`),
    make("ol", { class: "dictionary" }, order.map((t) => make("li", {}, icon(t.k), link(`#dim=${t.k}`, name(store.dimension(t.k))), bar(t.weight, order[0].weight), make("span", { class: "number" }, percent(t.weight / all))))));
}
