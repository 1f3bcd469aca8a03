// What the file holds, decoded once: the tree of facts, and activations by row and by column.

function bytes(id) {
  const text = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

async function unzipped(id) {
  const stream = new Blob([bytes(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const bit = (from, i) => (from[i >> 3] >> (i & 7)) & 1;

// Rows in compressed form: entries of row r are those from start[r] to start[r + 1].
// value: of unit rows, as after the gate; size: before the gate, in units of the row after it.
function decode(raw, shape, rows, columns) {
  const stored = shape.entries;
  let at = 0;
  const take = (length) => raw.subarray(at, (at += length));
  const bitmap = take(Math.ceil((rows * columns) / 8));
  const activeBits = take(Math.ceil(stored / 8));
  const openBits = shape.gated ? take(Math.ceil(stored / 8)) : null;
  const signBits = shape.signed ? take(Math.ceil(stored / 8)) : null;
  const high = take(stored);
  const low = take(stored);
  const scales = new DataView(raw.buffer, raw.byteOffset + at, 4 * rows * (openBits ? 2 : 1));
  const start = new Uint32Array(rows + 1);
  const column = new Uint16Array(stored);
  const value = new Float64Array(stored);
  const active = new Uint8Array(stored);
  const open = new Uint8Array(stored).fill(1);
  let entry = 0;
  for (let row = 0; row < rows; row++) {
    const scale = scales.getFloat32(4 * row, true) / 65535;
    const taken = openBits ? scales.getFloat32(4 * (rows + row), true) / 65535 : 0;
    let squared = 0;
    const first = entry;
    for (let k = 0, place = row * columns; k < columns; k++, place++) {
      if (!bit(bitmap, place)) continue;
      if (openBits) open[entry] = bit(openBits, entry);
      const size = (high[entry] * 256 + low[entry]) * (open[entry] ? scale : taken);
      value[entry] = signBits && bit(signBits, entry) ? -size : size;
      column[entry] = k;
      active[entry] = bit(activeBits, entry);
      if (open[entry]) squared += size * size;
      entry++;
    }
    // A row that the gate closed altogether keeps its sizes before the gate, relative to each other.
    const length = Math.sqrt(squared) || 1;
    for (let i = first; i < entry; i++) value[i] /= length;
    start[row + 1] = entry;
  }
  return { start, column, value, active, open };
}

function byColumn(matrix, rows, columns) {
  const start = new Uint32Array(columns + 1);
  for (const k of matrix.column) start[k + 1]++;
  for (let k = 0; k < columns; k++) start[k + 1] += start[k];
  const next = start.slice(0, columns);
  const row = new Uint32Array(matrix.column.length);
  const entry = new Uint32Array(matrix.column.length);
  for (let r = 0; r < rows; r++) {
    for (let i = matrix.start[r]; i < matrix.start[r + 1]; i++) {
      const place = next[matrix.column[i]]++;
      row[place] = r;
      entry[place] = i;
    }
  }
  return { start, row, entry };
}

class Store {
  constructor(tree, shape, raw) {
    this.tree = tree;
    this.rows = tree.images.length;
    this.columns = tree.dimensions;
    this.matrix = decode(raw, shape, this.rows, this.columns);
    this.row = new Map(tree.images.map((id, row) => [id, row]));
    this.names = new Map(Object.entries(tree.names).map(([k, text]) => [Number(k), text]));
    this.renamed = false;
    this.alive = new Uint8Array(this.rows);
    for (let r = 0; r < this.rows; r++) {
      for (let i = this.matrix.start[r]; i < this.matrix.start[r + 1]; i++) {
        if (this.matrix.open[i]) this.alive[r] = 1;
      }
    }
  }

  static async open() {
    const shape = JSON.parse(new TextDecoder().decode(bytes("data-shape")));
    const [text, raw] = await Promise.all([unzipped("data-content"), unzipped("data-entries")]);
    return [new Store(JSON.parse(new TextDecoder().decode(text)), shape, raw), shape];
  }

  get byColumn() {
    this.columnwise ??= byColumn(this.matrix, this.rows, this.columns);
    return this.columnwise;
  }

  // Entries of an image that are on (active after the gate), strongest first.
  on(row) {
    const { start, column, value, active } = this.matrix;
    const found = [];
    for (let i = start[row]; i < start[row + 1]; i++) if (active[i]) found.push({ k: column[i], value: value[i] });
    return found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.k - b.k);
  }

  // Entries that the gate took from an image, in units of the image's length after the gate.
  taken(row) {
    const { start, column, value, open } = this.matrix;
    const found = [];
    for (let i = start[row]; i < start[row + 1]; i++) if (!open[i]) found.push({ k: column[i], value: value[i] });
    return found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value) || a.k - b.k);
  }

  // Share of an image's energy that the gate removed.
  removed(row) {
    const { start, value, open } = this.matrix;
    let before = 0;
    let after = 0;
    for (let i = start[row]; i < start[row + 1]; i++) {
      before += value[i] * value[i];
      if (open[i]) after += value[i] * value[i];
    }
    return before > 0 ? 1 - after / before : 0;
  }

  // Images on which a dimension is active, with its value, by image.
  images(k) {
    const { start, row, entry } = this.byColumn;
    const { value, active } = this.matrix;
    const found = [];
    for (let i = start[k]; i < start[k + 1]; i++) {
      if (active[entry[i]]) found.push({ row: row[i], value: value[entry[i]] });
    }
    return found;
  }

  // Images from which the gate took a dimension.
  closed(k) {
    const { start, row, entry } = this.byColumn;
    const { value, open } = this.matrix;
    const found = [];
    for (let i = start[k]; i < start[k + 1]; i++) {
      if (!open[entry[i]]) found.push({ row: row[i], value: value[entry[i]] });
    }
    return found;
  }

  at(row, k) {
    const { start, column, value, open, active } = this.matrix;
    for (let i = start[row]; i < start[row + 1]; i++) {
      if (column[i] === k) return open[i] && active[i] ? value[i] : 0;
    }
    return 0;
  }

  // A row as numbers after the gate, without some dimensions, scaled to length 1; null for nothing.
  unit(row, without = new Set()) {
    const dense = new Float64Array(this.columns);
    const { start, column, value, open } = this.matrix;
    let squared = 0;
    for (let i = start[row]; i < start[row + 1]; i++) {
      if (!open[i] || without.has(column[i])) continue;
      dense[column[i]] = value[i];
      squared += value[i] * value[i];
    }
    if (squared === 0) return null;
    const length = Math.sqrt(squared);
    for (let k = 0; k < dense.length; k++) dense[k] /= length;
    return dense;
  }

  // Cosines of a dense unit vector with every image; NaN where an image has none.
  cosines(query, without = new Set()) {
    const { start, column, value, open } = this.matrix;
    const out = new Float64Array(this.rows);
    for (let r = 0; r < this.rows; r++) {
      let sum = 0;
      let squared = 0;
      for (let i = start[r]; i < start[r + 1]; i++) {
        if (!open[i] || without.has(column[i])) continue;
        sum += value[i] * query[column[i]];
        squared += value[i] * value[i];
      }
      out[r] = squared > 0 ? sum / Math.sqrt(squared) : NaN;
    }
    return out;
  }

  // Nearest images of a row: exact, ties by index, itself left out by identity.
  neighbours(row, most, without = new Set()) {
    const query = this.unit(row, without);
    if (query === null) return [];
    const cosine = this.cosines(query, without);
    const order = [];
    for (let r = 0; r < this.rows; r++) if (r !== row && !Number.isNaN(cosine[r])) order.push(r);
    // Only what can be among the first is sorted by the slow comparison.
    const least = Float64Array.from(order, (r) => cosine[r]).sort().at(-most) ?? -Infinity;
    const near = order.filter((r) => cosine[r] > least - 1e-8);
    near.sort((a, b) => tied(cosine[b], cosine[a]) || a - b);
    return near.slice(0, most).map((r) => ({ row: r, cosine: cosine[r] }));
  }

  image(row) {
    return this.tree.images[row];
  }

  file(row) {
    return this.tree.files ? this.tree.files[row] : `image ${this.image(row)}`;
  }

  // The end of a long path: what tells files apart.
  short(row) {
    const whole = this.file(row);
    const last = whole.slice(whole.lastIndexOf("/") + 1) || whole;
    return last.length > 40 ? `…${last.slice(-39)}` : last;
  }

  className(row) {
    const label = this.tree.labels ? this.tree.labels[row] : -1;
    return label >= 0 ? this.tree.classes[label] : null;
  }

  dimension(k) {
    const given = this.names.get(k);
    return given ? `${k} ${given}` : `${k}`;
  }
}

// Cosines that agree to nine decimals are a tie: stored values carry no more.
function tied(a, b) {
  return Math.abs(a - b) < 1e-9 ? 0 : a - b;
}
