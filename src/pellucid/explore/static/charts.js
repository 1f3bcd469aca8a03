// Bars, histograms, points. Each has a sentence for those who do not see it.

// A bar from zero; negative ones go left of the middle and are hatched.
function bar(value, largest, signed) {
  const part = largest > 0 ? Math.min(1, Math.abs(value) / largest) : 0;
  const mark = make("span", { class: value < 0 ? "mark negative" : "mark" });
  mark.style.width = `${(signed ? 50 : 100) * part}%`;
  if (signed) mark.style.marginLeft = value < 0 ? `${50 - 50 * part}%` : "50%";
  return make("span", { class: signed ? "meter signed" : "meter", "aria-hidden": "true" }, mark);
}

// Counts in equal intervals; logarithmic where a few bins would hide the others.
function histogram(counts, low, high, sentence, { unit = "image", scale = Math.log1p } = {}) {
  const most = Math.max(...counts.map(scale), 1e-9);
  const edge = (i) => fixed(low + ((high - low) * i) / counts.length);
  const svg = draw("svg", { viewBox: `0 0 ${counts.length * 10} 60`, preserveAspectRatio: "none", role: "img", "aria-label": sentence });
  counts.forEach((n, i) => {
    const height = (58 * scale(n)) / most;
    svg.append(draw("rect", { x: i * 10 + 1, y: 60 - height, width: 8, height }, draw("title", {}, `${edge(i)} to ${edge(i + 1)}: ${plural(n, unit)}`)));
  });
  return make("figure", {}, svg, make("p", { class: "axis" }, make("span", {}, fixed(low)), make("span", {}, fixed(high))));
}

// Points in the unit square; each is a link, and says itself on hover.
function scatter(points, across, up, sentence, corners) {
  const side = 320;
  const pad = 40;
  const place = (x, y) => [pad + x * (side - 2 * pad), side - pad - y * (side - 2 * pad)];
  const svg = draw("svg", { viewBox: `0 0 ${side} ${side}`, class: "scatter", role: "group", "aria-label": sentence });
  const [left, bottom] = place(0, 0);
  const [right, top] = place(1, 1);
  svg.append(draw("rect", { x: left, y: top, width: right - left, height: bottom - top, class: "field-of" }));
  const [middle, centre] = place(0.5, 0.5);
  svg.append(draw("path", { d: `M${middle} ${top}V${bottom}M${left} ${centre}H${right}`, class: "rule" }));
  for (const [x, y, words, anchor] of corners) {
    const [px, py] = place(x, y);
    svg.append(draw("text", { x: px, y: py, class: "corner", "text-anchor": anchor }, words));
  }
  for (const { x, y, k, words } of points) {
    const [px, py] = place(x, y);
    svg.append(draw("a", { href: `#dim=${k}`, tabindex: "-1", "aria-label": words },
      draw("circle", { cx: px, cy: py, r: 4 }, draw("title", {}, words))));
  }
  for (const [value, words] of [[0, "0"], [0.5, "50 %"], [1, "100 %"]]) {
    const [x] = place(value, 0);
    const [, y] = place(0, value);
    svg.append(draw("text", { x, y: bottom + 14, "text-anchor": "middle", class: "tick" }, words));
    svg.append(draw("text", { x: left - 5, y: y + 4, "text-anchor": "end", class: "tick" }, words));
  }
  svg.append(draw("text", { x: (left + right) / 2, y: side - 8, "text-anchor": "middle", class: "title" }, across));
  svg.append(draw("text", { x: 0, y: 0, transform: `translate(9 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "title" }, up));
  return svg;
}

// Colours of a share from 0 to 1 (cividis, by its published control points) and of a lift around 1.
const CIVIDIS = [[0, 34, 78], [34, 56, 111], [87, 93, 109], [124, 123, 120], [165, 156, 116], [210, 193, 92], [254, 232, 56]];
const DIVERGING = [[33, 102, 172], [146, 197, 222], [247, 247, 247], [244, 165, 96], [179, 88, 6]];

function blend(stops, part) {
  const at = Math.min(1, Math.max(0, part)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return `rgb(${stops[i].map((v, c) => Math.round(v + (stops[i + 1][c] - v) * (at - i))).join(" ")})`;
}
