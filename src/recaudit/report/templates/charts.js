const theme = JSON.parse(document.getElementById("chart-theme").textContent);
// `ast` interprets expressions instead of compiling them: the page allows no code but its own.
const options = { actions: false, renderer: "svg", ast: true, config: theme, tooltip: { theme: "page" } };
for (const figure of document.querySelectorAll("figure.chart")) {
  const canvas = figure.querySelector(".canvas");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  vegaEmbed(canvas, spec, options).catch((error) => {
    canvas.textContent = `This chart could not be drawn: ${error.message}`;
  });
}
const closed = () => [...document.querySelectorAll("details:not([open])")];
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = closed();
  opened.forEach((element) => { element.open = true; });
});
window.addEventListener("afterprint", () => opened.forEach((element) => { element.open = false; }));
