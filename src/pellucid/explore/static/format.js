// Numbers in words. Nothing undefined is ever printed as a number.

const UNDEFINED = "not defined";
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const count = (value) => value.toLocaleString("en");

function fixed(value, digits = 2) {
  if (!known(value)) return UNDEFINED;
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) > 0 ? `−${text}` : text;
}


function percent(value, digits) {
  if (!known(value)) return UNDEFINED;
  const shown = 100 * value;
  const places = digits ?? (shown !== 0 && Math.abs(shown) < 9.95 ? 1 : 0);
  if (shown > 0 && shown < 0.05) return "under 0.1 %";
  return `${shown.toFixed(places)} %`;
}

const plural = (many, one, several) => `${count(many)} ${many === 1 ? one : several ?? `${one}s`}`;

// A fixed sequence of random numbers: the same page shows the same "random" images.
function random(seed) {
  let state = (seed + 1) * 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function draws(items, most, seed) {
  const left = Array.from(items);
  const next = random(seed);
  const chosen = [];
  while (left.length && chosen.length < most) {
    const at = Math.floor(next() * left.length);
    chosen.push(left[at]);
    left[at] = left[left.length - 1];
    left.pop();
  }
  return chosen;
}
