const theme = JSON.parse(document.getElementById("chart-theme").textContent);

// A label that was cut to fit tells the whole name when it is pointed at.
function wholeNames(spec) {
  const rows = (spec.scales ?? []).filter((scale) => scale.type === "band" || scale.type === "point");
  for (const axis of spec.axes ?? []) {
    if (rows.some((scale) => scale.name === axis.scale)) {
      axis.encode = { ...axis.encode, labels: { interactive: true, update: { tooltip: { field: "value" } } } };
    }
  }
  return spec;
}

// `ast` interprets expressions instead of compiling them: the page allows no code but its own.
const options = {
  actions: false, renderer: "svg", ast: true, config: theme, tooltip: { theme: "page" }, patch: wholeNames,
};
for (const figure of document.querySelectorAll("figure.chart")) {
  const canvas = figure.querySelector(".canvas");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  vegaEmbed(canvas, spec, options).then(() => offerChart(figure)).catch((error) => {
    canvas.textContent = `This chart could not be drawn: ${error.message}`;
  });
}
document.querySelectorAll(".table").forEach(offerTable);

// On paper what is folded stays folded, but for what is marked to be printed.
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details[data-print]:not([open])")];
  opened.forEach((element) => { element.open = true; });
});
window.addEventListener("afterprint", () => opened.forEach((element) => { element.open = false; }));
