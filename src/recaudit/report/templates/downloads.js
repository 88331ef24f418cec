// What a page holds, to take away: tables as CSV, charts as SVG and PNG. Nothing is fetched, and nothing leaves the page.

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

// A title may be made to look like a formula: an apostrophe keeps spreadsheets from running it. Numbers stay numbers.
function csvField(value) {
  const plain = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",;\t\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

const csv = (rows) => rows.map((row) => `${row.map(csvField).join(",")}\r\n`).join("");

const textOf = (element) => element.textContent.replace(/\s+/g, " ").trim();

// A cell by the endings of its columns' names: the number as it is, what belongs to it, and why there is none.
function fieldsOf(cell) {
  const { value, ...more } = cell.dataset;
  const absent = cell.querySelector(".absent");
  if (absent) return { "": "", missing: absent.title };
  return { "": value ?? textOf(cell), ...more };
}

function tableRows(table) {
  const lines = [...table.tBodies].flatMap((body) => [...body.rows]).map((row) => [...row.cells].map(fieldsOf));
  const heads = [...table.tHead.rows[0].cells];
  const columns = heads.flatMap((head, place) => {
    if (head.tagName === "TD") return []; // a drawing, not a column
    const found = new Set(lines.flatMap((line) => Object.keys(line[place])));
    const endings = found.delete("missing") ? [...found, "missing"] : [...found];
    const name = head.dataset.name ?? textOf(head);
    return endings.map((ending) => ({ place, ending, name: ending ? `${name}_${ending}` : name }));
  });
  const rows = lines.map((line) => columns.map(({ place, ending }) => line[place][ending] ?? ""));
  return [columns.map((column) => column.name), ...rows];
}

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// The legend of a chart stands beside it on the page; in a file of its own it must be in the picture.
function keysOf(figure) {
  const around = figure.parentElement;
  const legend = around.matches(".figures") ? around.nextElementSibling : around.querySelector(":scope > .legend");
  return legend?.matches(".legend") ? [...legend.querySelectorAll(".key")] : [];
}

function drawnKey(key, x, y) {
  const color = getComputedStyle(key).getPropertyValue("--key").trim() || "var(--ink)";
  const [middle, height] = [x + 8, y - 4];
  const box = (width, high, more = {}) =>
    drawn("rect", { x: middle - width / 2, y: height - high / 2, width, height: high, fill: color, ...more });
  const signs = {
    ".line": () => box(16, 3),
    ".square": () => box(10, 10),
    ".rival": () => box(7, 7, { transform: `rotate(45 ${middle} ${height})` }),
    ".ring": () => box(9, 9, { rx: 5, fill: "none", stroke: "var(--ink)" }),
    ".other": () => box(6, 6, { rx: 3, opacity: 0.55 }),
    ".key": () => box(10, 10, { rx: 5 }),
  };
  const sign = Object.entries(signs).find(([kind]) => key.matches(kind))[1]();
  const group = drawn("g", {});
  group.append(sign, drawn("text", { x: x + 22, y, fill: "var(--ink)" }, textOf(key)));
  return group;
}

const titleOf = (figure) => figure.dataset.title ?? textOf(figure.querySelector("h4"));

// The chart with its heading and its legend, in colours that need no style sheet.
function pictureOf(figure) {
  const chart = figure.querySelector(".canvas svg").cloneNode(true);
  const heading = titleOf(figure);
  const [wide, high] = ["width", "height"].map((name) => Number(chart.getAttribute(name)));
  const edge = 16, top = 40, line = 18, width = wide + 2 * edge;
  const whole = drawn("svg", { xmlns: SVG, width, "font-family": "system-ui, sans-serif", "font-size": 12 });
  whole.append(drawn("title", {}, heading));
  whole.append(drawn("desc", {}, figure.querySelector(".canvas").getAttribute("aria-label")));
  whole.append(drawn("rect", { width: "100%", height: "100%", fill: "var(--paper)" }));
  whole.append(drawn("text", { x: edge, y: 24, "font-size": 14, "font-weight": 600, fill: "var(--ink)" }, heading));
  for (const [name, value] of Object.entries({ x: edge, y: top, overflow: "visible" })) chart.setAttribute(name, value);
  whole.append(chart);
  let x = edge, y = top + high + 2 * line;
  const keys = keysOf(figure);
  for (const key of keys) {
    const room = 44 + 7 * textOf(key).length;
    if (x > edge && x + room > width) [x, y] = [edge, y + line];
    whole.append(drawnKey(key, x, y));
    x += room;
  }
  whole.setAttribute("height", keys.length ? y + edge : top + high + edge);
  const style = getComputedStyle(document.documentElement);
  const colored = (found, name) => style.getPropertyValue(name).trim() || found;
  return new XMLSerializer()
    .serializeToString(whole)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "") // not allowed in XML
    .replace(/var\((--[\w-]+)\)/g, colored);
}

async function rasterOf(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Buttons at the end of an element, a kind of file each.
function offer(element, title, kinds) {
  const words = `${element.closest("section")?.id ?? ""} ${title}`.toLowerCase();
  const file = words.match(/[\p{L}\p{N}]+/gu)?.join("-").slice(0, 80) ?? "recaudit";
  const row = document.createElement("p");
  row.className = "downloads";
  for (const [kind, made] of Object.entries(kinds)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.title = `Download as ${kind}: ${title}`;
    button.setAttribute("aria-label", button.title);
    button.addEventListener("click", async () => save(await made(), `${file}.${kind.toLowerCase()}`));
    row.append(button);
  }
  element.append(row);
}

function offerTable(frame) {
  const table = frame.querySelector("table");
  const title = frame.querySelector(".scroll").getAttribute("aria-label");
  offer(frame, title, { CSV: () => new Blob([csv(tableRows(table))], { type: "text/csv;charset=utf-8" }) });
}

function offerChart(figure) {
  offer(figure, titleOf(figure), {
    SVG: () => new Blob([pictureOf(figure)], { type: "image/svg+xml" }),
    PNG: () => rasterOf(pictureOf(figure)),
  });
}
