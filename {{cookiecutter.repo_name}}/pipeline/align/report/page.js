"use strict";
// A row stays when it holds every word of the box above its table.
for (const box of document.querySelectorAll(".filter")) {
  const input = box.querySelector("input");
  const count = box.querySelector("output");
  const rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = `${shown} / ${rows.length}`;
  };
  input.addEventListener("input", filter);
  box.hidden = false;
  filter();
}
// Paper cannot be unfolded.
const opened = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) {
    part.open = true;
    opened.push(part);
  }
});
addEventListener("afterprint", () => {
  for (const part of opened.splice(0)) part.open = false;
});
