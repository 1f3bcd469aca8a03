// The field in the header: a number, a name that someone gave, a file, a class.

function findings(text) {
  const asked = text.trim().toLowerCase();
  if (asked === "") return [];
  const found = [];
  const k = whole(asked.match(/^(?:dim(?:ension)?\s*)?#?(\d+)$/)?.[1]);
  const numbered = store.row.get(whole(asked.match(/^(?:(?:img|image)\s*)?#?(\d+)$/)?.[1]));
  if (k < store.columns) found.push([`#dim=${k}`, "dimension", store.dimension(k)]);
  for (const [j, given] of store.names) if (j !== k && given.toLowerCase().includes(asked)) found.push([`#dim=${j}`, "dimension", `${j} ${given}`]);
  (store.tree.classes ?? []).forEach((text, c) => {
    if (text.toLowerCase().includes(asked)) found.push([`#images=class-${c}`, "class", text]);
  });
  if (numbered !== undefined) found.push([`#img=${store.image(numbered)}`, "image", store.file(numbered)]);
  for (let row = 0; row < store.rows && found.length < 12 && store.tree.files; row++) {
    if (row !== numbered && store.file(row).toLowerCase().includes(asked)) found.push([`#img=${store.image(row)}`, "image", store.file(row)]);
  }
  return found.slice(0, 12);
}

function watchSearch() {
  const field = document.getElementById("find");
  const list = document.getElementById("found");
  const close = () => (list.hidden = true);
  const open = () => {
    const found = findings(field.value);
    replace(list, found.map(([hash, kind, text]) =>
      make("li", {}, make("a", { href: hash, onclick: close }, make("span", { class: "kind" }, kind), name(text)))));
    if (field.value.trim() && !found.length) list.append(make("li", { class: "none" }, "nothing found"));
    list.hidden = list.children.length === 0;
    say(field.value.trim() ? `${plural(found.length, "result")}` : "");
  };
  field.addEventListener("input", open);
  field.addEventListener("keydown", (event) => {
    const first = list.querySelector("a");
    if (event.key === "Enter" && first) {
      location.hash = first.getAttribute("href");
      close();
    } else if (event.key === "ArrowDown" && first) {
      first.focus();
      event.preventDefault();
    } else if (event.key === "Escape") {
      field.value = "";
      close();
      event.stopPropagation();
    }
  });
  list.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const stops = [...list.querySelectorAll("a")];
      const to = stops[stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
      (to ?? field).focus();
      event.preventDefault();
    } else if (event.key === "Escape") {
      close();
      field.focus();
      event.stopPropagation();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".find")) close();
  });
}
