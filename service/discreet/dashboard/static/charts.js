// Draws charts. Every chart has its numbers in a table beside it, so that a page says the same without this file.
//
// plotly.js is asked for when the first chart comes near the window. The page's policy allows no inline styles; three
// things make that work with an unchanged plotly.js:
// - it adds rules to the sheet with the id plotly.js-style-global if there is one: charts.css has that id;
// - it writes some style attributes on SVG elements as text: they are set through the object model instead;
// - it carries a style element for street maps, which are never drawn here: that is left out while it loads.

const GLOBAL_SHEET = "plotly.js-style-global";
const narrow = matchMedia("(max-width: 40rem), (pointer: coarse)");
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const LONGEST_TITLES = { xaxis: 36, yaxis: 20, yaxis2: 20 }; // characters of a line on a phone
const drawn = new Map(); // element → its chart as the server sent it

let plotly;

function library(element) {
  if (globalThis.Plotly) return globalThis.Plotly; // the page carries it
  plotly ??= load(element.dataset.sheet, element.dataset.plotly).catch((error) => {
    plotly = undefined; // the next chart tries again
    throw error;
  });
  return plotly;
}

async function load(sheet, script) {
  await added("link", { id: GLOBAL_SHEET, rel: "stylesheet", href: sheet });
  const setAttribute = SVGElement.prototype.setAttribute;
  SVGElement.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
  const { head } = document;
  head.appendChild = (child) => (child.localName === "style" ? child : Node.prototype.appendChild.call(head, child));
  try {
    await added("script", { src: script });
  } finally {
    delete head.appendChild;
  }
  return globalThis.Plotly;
}

function added(name, properties) {
  return new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement(name), properties);
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${properties.src ?? properties.href} did not load`));
    document.head.append(element);
  });
}

// Colours ------------------------------------------------------------------------------------------------------------

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && darkSystem.matches);
}

function themed(value, colours) {
  if (typeof value === "string") return Object.hasOwn(colours, value) ? colours[value] : value;
  if (Array.isArray(value)) {
    // Most arrays of a chart are numbers, which have no colours.
    return typeof value[0] === "number" && typeof value.at(-1) === "number" ? value : value.map((one) => themed(one, colours));
  }
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, themed(one, colours)]));
}

function layoutOf(chart, colours, style, width) {
  const variable = (name) => style.getPropertyValue(name).trim();
  const axis = (given) => ({
    ...given,
    gridcolor: variable("--line"),
    zerolinecolor: variable("--soft"),
    linecolor: variable("--line"),
  });
  const layout = themed(chart.layout, colours);
  // A map keeps its shape, so that it has no empty bands on a phone.
  if (layout.meta) layout.height = Math.min(layout.height, Math.max(260, 110 + layout.meta.shape * width));
  for (const name of ["xaxis", "yaxis", "yaxis2"]) if (layout[name]) layout[name] = axis(layout[name]);
  return {
    ...layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: variable("--ink"), family: style.fontFamily, size: 13 },
    hoverlabel: {
      bgcolor: variable("--card"),
      bordercolor: variable("--soft"),
      font: { color: variable("--ink") },
      align: "left",
      namelength: -1,
    },
    // A finger that scrolls the page must not move the chart.
    dragmode: narrow.matches ? false : layout.xaxis?.visible === false ? "pan" : "zoom",
  };
}

// Breaks a title into lines of at most `most` characters: on one line it would be longer than an axis on a phone.
export function onLines(text, most) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.join("<br>");
}

async function show(element) {
  const chart = drawn.get(element);
  const style = getComputedStyle(document.body);
  const colours = { ...(isDark() ? chart.dark : {}), "paper-colour": style.getPropertyValue("--card").trim() };
  const data = themed(chart.data, colours);
  const place = element.dataset.frame;
  if (place !== undefined) Object.assign(data[0], chart.frames[Number(place)].data[0]);
  const layout = layoutOf(chart, colours, style, element.clientWidth);
  for (const [name, most] of narrow.matches ? Object.entries(LONGEST_TITLES) : []) {
    const title = layout[name]?.title;
    if (title?.text) layout[name].title = { ...title, text: onLines(title.text, most) };
  }
  if (narrow.matches && data[0]?.colorbar) {
    // The colour scale stands above the chart: beside it there is no room.
    data[0].colorbar = {
      ...data[0].colorbar,
      orientation: "h",
      y: 1.02,
      yanchor: "bottom",
      thickness: 10,
      title: { ...data[0].colorbar.title, side: "top" },
    };
    layout.margin = { ...layout.margin, t: 80 };
  }
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: narrow.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
    toImageButtonOptions: { format: "svg", filename: `discreet-${chart.name}` },
  };
  await globalThis.Plotly.react(element, data, layout, config);
}

// Charts -------------------------------------------------------------------------------------------------------------

// The data of a chart in the page itself, if that is an exported file without a server.
function carried(source) {
  return [...document.scripts].find((script) => script.dataset.source === source);
}

async function read(source) {
  const inside = carried(source);
  if (inside) return JSON.parse(inside.textContent);
  const answer = await fetch(source, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${source}: ${answer.status}`);
  return answer.json();
}

async function draw(element, source = element.dataset.chart) {
  element.setAttribute("aria-busy", "true");
  try {
    const [chart] = await Promise.all([read(source), library(element)]);
    const isFirst = !drawn.has(element);
    drawn.set(element, chart);
    if (isFirst) {
      element.replaceChildren();
      if (chart.frames) addSlider(element, chart);
    }
    await show(element);
    element.dataset.drawn = "";
  } catch (error) {
    console.warn(error);
    if (!drawn.has(element)) element.textContent = "This chart could not be drawn. Its numbers are below; reload to try again.";
  } finally {
    element.removeAttribute("aria-busy");
  }
}

function addSlider(element, chart) {
  const row = document.createElement("div");
  row.className = "plot-slider";
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), {
    type: "range",
    id: `${element.parentElement.id}-slider`,
    min: "0",
    max: String(chart.frames.length - 1),
    value: "0",
  });
  label.htmlFor = input.id;
  label.textContent = chart.control;
  const output = document.createElement("output");
  output.htmlFor.add(input.id);
  const tell = () => {
    output.textContent = chart.frames[Number(input.value)].name;
    input.setAttribute("aria-valuetext", `${chart.control} ${output.textContent}`);
  };
  input.addEventListener("input", () => {
    element.dataset.frame = input.value;
    tell();
    show(element);
  });
  tell();
  row.append(label, input, output);
  element.before(row);
}

const near = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      draw(entry.target);
    }
  },
  { rootMargin: "400px" },
);

function watch(root) {
  for (const element of root.querySelectorAll(".plot[data-chart]")) {
    if (carried(element.dataset.chart)) draw(element); // all of them, so that all are printed
    else near.observe(element);
  }
}

function redraw() {
  for (const element of drawn.keys()) {
    if (element.isConnected) show(element);
    else drawn.delete(element);
  }
}

watch(document);
darkSystem.addEventListener("change", redraw);
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
// What live.js adds to the page later may have charts too.
new MutationObserver((records) => {
  for (const record of records) {
    for (const node of record.addedNodes) if (node instanceof HTMLElement && !node.closest(".plot")) watch(node);
  }
}).observe(document.getElementById("main") ?? document.body, { childList: true, subtree: true });
// On paper colours are those of a light page.
addEventListener("beforeprint", () => {
  const { dataset } = document.documentElement;
  if (!isDark()) return;
  const before = dataset.theme;
  dataset.theme = "light";
  addEventListener("afterprint", () => (dataset.theme = before), { once: true });
});

// The policy of one pair of zones ------------------------------------------------------------------------------------

for (const form of document.querySelectorAll("form[data-explorer]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = new URLSearchParams(new FormData(form));
    const answer = document.getElementById(form.dataset.answer);
    try {
      const found = await fetch(`${form.action}?${chosen}&part=answer`, { headers: { Accept: "text/html" } });
      if (!found.ok) throw new Error(String(found.status));
      const page = new DOMParser().parseFromString(await found.text(), "text/html");
      answer.replaceChildren(...page.body.childNodes);
    } catch {
      form.submit(); // as without this script
      return;
    }
    const map = document.querySelector(`#${CSS.escape(form.dataset.explorer)} .plot`);
    if (map === null) return;
    const isPair = answer.querySelector("table") !== null;
    await draw(map, isPair ? `${map.dataset.chart}?${chosen}` : map.dataset.chart);
  });
}
