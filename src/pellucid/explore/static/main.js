// Places, the address that names them, and the start.

let store;
let thumbs;
const whole = (text) => (/^\d+$/.test(text ?? "") ? Number(text) : NaN);

const PLACES = {
  overview: () => {},
  dimensions: (place) => showDimensions(place),
  dim: (place, asked) => showDimension(place, whole(asked)),
  images: (place, asked) => showImages(place, asked),
  img: (place, asked) => showImage(place, whole(asked)),
  pair: (place, asked) => {
    const start = store.tree.start.pair ?? [store.image(0), store.image(Math.min(1, store.rows - 1))];
    const [a, b] = asked === undefined ? start : asked.split(",").map(whole);
    showPair(place, a, b ?? NaN);
  },
  gate: (place, asked) => showGate(place, asked),
  classes: (place) => showClasses(place),
  versus: (place) => showVersus(place),
};
const UNDER = { dim: "dimensions", img: "images" };

// Mail and messengers may write a comma as %2C; what cannot be read is no place.
function address() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

function go(focus = true) {
  const [asked, ...rest] = address().split("=");
  const lacks = { gate: !store.tree.gate, classes: !store.tree.classes, versus: !store.tree.versus };
  const key = asked in PLACES && !lacks[asked] ? asked : "overview";
  for (const section of document.querySelectorAll("section.place")) {
    section.hidden = section.id !== key;
    if (section.hidden && section.id !== "overview") section.replaceChildren();
  }
  for (const item of document.querySelectorAll("nav a")) {
    if (item.getAttribute("href") === `#${UNDER[key] ?? key}`) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  PLACES[key](document.getElementById(key), rest.length ? rest.join("=") : undefined);
  showUnsaved();
  const title = document.getElementById(`${key}-title`);
  document.title = `${title.textContent} · ${store.tree.label} · Pellucid`;
  if (!focus) return;
  scrollTo(0, 0);
  title.focus({ preventScroll: true });
}

function keys(event) {
  const writing = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !writing) history.back();
  else if (event.key === "Escape") event.target.blur(), document.getElementById("main").focus();
  else if (writing) return;
  else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find").focus();
  } else if (event.key === "?") {
    location.hash = "#overview";
    const how = document.querySelector(".how");
    how.open = true;
    setTimeout(() => how.querySelector("summary").focus());
  }
}

async function start() {
  const trouble = document.getElementById("trouble");
  try {
    if (!("DecompressionStream" in window)) throw new Error("this browser is too old: it cannot unpack the data (Chrome 80, Firefox 113 or Safari 16.4 can)");
    const [opened, shape] = await Store.open();
    store = opened;
    thumbs = new Thumbnails(shape.lengths);
    showStart();
    watchSearch();
    addEventListener("hashchange", () => go());
    document.addEventListener("keydown", keys);
    addEventListener("beforeunload", (event) => store.renamed && event.preventDefault());
    go(location.hash !== "");
    document.body.dataset.ready = "";
  } catch (error) {
    trouble.hidden = false;
    trouble.textContent = `Only the overview can be shown: ${error.message}`;
    throw error;
  }
}

start();
