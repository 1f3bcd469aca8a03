"""The page as one would write it in an afternoon: an `<img>` an image, activations as JSON."""

import base64
import html
import json
from pathlib import Path

import torch

from pellucid.explore.thumbnails import encode
from pellucid.representation.representation import Representation

SCRIPT = """
const z = JSON.parse(document.getElementById("z").textContent);
function neighbours(row, most) {
  const cosine = (a, b) => {
    let product = 0, first = 0, second = 0;
    for (let k = 0; k < a.length; k++) {
      product += a[k] * b[k]; first += a[k] * a[k]; second += b[k] * b[k];
    }
    return product / Math.sqrt(first * second);
  };
  const found = z.map((other, i) => [cosine(z[row], other), i]).filter(([c, i]) => i !== row);
  return found.sort((a, b) => b[0] - a[0]).slice(0, most);
}
addEventListener("load", () => (document.body.dataset.ready = ""));
"""


def write_naive(representation: Representation, out: Path, side: int) -> dict[str, int]:
    """All images and activations, in the same thumbnails as the other page; bytes by part."""
    assert representation.thumbnails is not None
    pixels = representation.thumbnails()
    found, at, tags = encode(pixels, torch.arange(len(pixels)), side), 0, []
    for name, length in zip(representation.names, found.lengths, strict=True):
        picture = base64.b64encode(found.data[at : at + length]).decode()
        tags.append(f'<img alt="{html.escape(name)}" src="data:image/webp;base64,{picture}">')
        at += length
    images, numbers = "\n".join(tags), json.dumps(representation.z.tolist())
    out.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>naive</title><body>\n'
        f'{images}\n<script type="application/json" id="z">{numbers}</script>\n'
        f"<script>{SCRIPT}</script></body></html>\n",
        encoding="utf-8",
    )
    return {"thumbnails": len(images), "activations": len(numbers), "code and style": len(SCRIPT)}
