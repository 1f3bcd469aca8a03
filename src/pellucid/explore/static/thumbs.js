// Thumbnails, each made into an image only when it comes near the screen.

class Thumbnails {
  constructor(lengths) {
    this.there = lengths !== null;
    if (!this.there) return;
    this.data = bytes("data-thumbnails");
    this.offset = new Uint32Array(lengths.length + 1);
    lengths.forEach((length, i) => (this.offset[i + 1] = this.offset[i] + length));
    this.urls = new Map();
    this.rows = new WeakMap();
    this.watch = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue;
        this.watch.unobserve(target);
        target.src = this.url(this.rows.get(target));
      }
    }, { rootMargin: "300px" });
  }

  url(row) {
    if (!this.urls.has(row)) {
      const image = new Blob([this.data.subarray(this.offset[row], this.offset[row + 1])], { type: "image/webp" });
      this.urls.set(row, URL.createObjectURL(image));
    }
    return this.urls.get(row);
  }

  // A picture of an image, or its name where the file holds no pictures.
  picture(row, alt, size = "") {
    if (!this.there) return make("span", { class: `chip ${size}` }, name(alt === "" ? "▢" : store.short(row)));
    const image = make("img", { class: `thumb ${size}`, alt, decoding: "async" });
    this.rows.set(image, row);
    this.watch.observe(image);
    return image;
  }
}

// What a picture shows, in words: file, class, and the value that brought it here.
function described(row, ...more) {
  return [store.file(row), store.className(row), ...more].filter((part) => part !== null && part !== "").join(", ");
}

// A picture that leads to its image.
function thumb(row, { words = [], size = "", under = null, href = null } = {}) {
  return make("a", { href: href ?? `#img=${store.image(row)}`, class: "shot", title: described(row, ...words) },
    thumbs.picture(row, described(row, ...words), size),
    under === null ? null : make("span", { class: "under" }, under));
}

// A row of pictures; arrow keys walk along it.
function strip(label, shots, attributes = {}) {
  return make("div", { class: "strip", role: "group", "aria-label": label, onkeydown: walk, ...attributes }, shots);
}

function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const stops = [...event.currentTarget.querySelectorAll("a:not([tabindex]), button")];
  const to = stops[stops.indexOf(document.activeElement) + step];
  if (to) to.focus();
  event.preventDefault();
}

// Pictures of a dimension's images with its value under each.
function shots(k, found, size = "") {
  return found.map(({ row, value }) =>
    thumb(row, { words: [`dim ${k} = ${fixed(value)}`], under: fixed(value), size }));
}
