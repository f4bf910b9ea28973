// The form of a job, made from the schema of its kind, beside its JSON; and its price, asked for while it is written.
// The JSON is what is sent: without this file it is written by hand.

import { asText, element, Fields, fromText } from "./fields.js";
import { dataField } from "./source_field.js";

const PAUSE = 400; // milliseconds after the last change before the price is asked for
const LEAST = -2; // the slider's ends and its steps, in powers of ten
const MOST = 1.2;
const STEP = 0.02;

const form = document.getElementById("job-form");
const area = document.getElementById("body");
const panel = document.getElementById("panel-form");
const raw = document.getElementById("panel-json");
const privacy = document.getElementById("privacy");
const quote = document.getElementById("quote");
const actions = document.getElementById("actions");
const status = document.getElementById("quote-status");
const schema = JSON.parse(form.dataset.schema);
const choices = JSON.parse(form.dataset.choices);
const tabs = [document.getElementById("tab-form"), document.getElementById("tab-json")];

let job = null; // the parsed text; null if the form cannot show it
let fields = null;

// The text and the form --------------------------------------------------------------------------------------------

function read() {
  try {
    const found = fromText(area.value);
    return found?.problem?.kind === choices.kind ? found : null;
  } catch {
    return null;
  }
}

function write() {
  area.value = asText(job);
  ask();
}

// Draws the form anew after a choice on which other fields depend; the focus returns to where it was made.
function redraw(label) {
  draw();
  [...panel.querySelectorAll("label")].find((one) => one.textContent === label)?.control.focus();
}

function draw() {
  job = read();
  privacy.replaceChildren();
  if (job === null) {
    panel.replaceChildren(element("p", {}, "This text is not a job of this form’s kind. Correct it as JSON, or begin with an example."));
    return;
  }
  fields = new Fields(schema.problem.$defs ?? {}, {
    changed: write,
    choices: { dataset: choices.datasets },
    stored: choices.stored,
    jobs: choices.jobs,
    fetchProblem: async (id) => (await fetch(`/jobs/${id}/problem.json`, { headers: { Accept: "application/json" } })).json(),
  });
  const problem = job.problem;
  // Of two fields that exclude each other the form shows only the one that is given.
  const asked = "dataset" in problem || "source" in problem || problem.release == null;
  const hasSources = choices.sources.length > 0;
  const hidden = asked ? ["release", ...(hasSources ? ["source"] : [])] : ["dataset", ...choices.fixed];
  const top = Object.keys(schema.problem.properties).includes("dataset") && !hidden.includes("dataset");
  const data = () =>
    hasSources
      ? dataField(fields, choices, problem, write, redraw)
      : fields.field("dataset", schema.problem.properties.dataset, problem, "/problem/dataset", true);
  const controls = top ? { dataset: data } : {};
  panel.replaceChildren(
    fields.object(schema.problem, problem, "/problem", { hidden, controls }),
    element("details", {}, element("summary", {}, "Name and seed"), fields.object({ properties: schema.beside, required: Object.keys(schema.beside) }, job, "")),
  );
  drawPrivacy();
  if (choices.issues.length) fields.refuse(choices.issues.splice(0));
}

// Privacy ------------------------------------------------------------------------------------------------------------

const rounded = (epsilon) => Number(epsilon.toPrecision(2));

function drawPrivacy() {
  const given = job.privacy;
  const box = element("fieldset", { className: "field" }, element("legend", {}, "Privacy"));
  box.append(element("p", { className: "note", id: "privacy-note" }, "Epsilon limits how much an answer can reveal about any one unit of the dataset (a trip, a person, a meter; the price names it): the smaller, the more noise."));
  const epsilon = given == null ? null : given.preset ? choices.presets[given.preset] : given.epsilon;
  const slider = element("input", { type: "range", id: "epsilon-slider", min: LEAST, max: MOST, step: STEP, value: Math.log10(Number(epsilon ?? 1)) });
  slider.setAttribute("aria-label", "Epsilon, from strict to loose");
  const tell = (value) => slider.setAttribute("aria-valuetext", `epsilon ${value}`);
  tell(epsilon ?? "not given");
  const exact = element("input", { type: "text", id: "epsilon", inputMode: "decimal", autocomplete: "off", value: epsilon == null ? "" : String(epsilon), "aria-describedby": "privacy-note epsilon-error" });
  const error = element("p", { className: "error", id: "epsilon-error", hidden: true });
  const near = element("input", { type: "text", id: "within", autocomplete: "off", value: given?.accuracy?.within ?? "", placeholder: "5%", "aria-describedby": "within-note within-error" });
  const nearError = element("p", { className: "error", id: "within-error", hidden: true });
  const kept = () => Object.fromEntries(Object.entries(job.privacy ?? {}).filter(([name]) => ["delta", "unit"].includes(name)));
  const ways = element("div", { className: "ways", role: "radiogroup" });
  ways.setAttribute("aria-label", "How much privacy");
  const radio = (value, text, checked, picked) => {
    const id = `privacy-${value}`;
    const input = element("input", { type: "radio", name: "way", id, value, checked, onchange: picked });
    ways.append(element("div", {}, input, element("label", { htmlFor: id }, text)));
    return input;
  };
  const holder = given ?? {};
  const set = (value) => {
    for (const name of Object.keys(holder)) delete holder[name];
    Object.assign(holder, value);
    if (value === undefined) delete job.privacy;
    else job.privacy = holder;
    write();
  };
  const show = (value) => {
    slider.value = Math.log10(value);
    exact.value = String(value);
    tell(value);
  };
  if (given == null) radio("none", "No budget", true, () => set(undefined));
  for (const [name, value] of Object.entries(choices.presets)) {
    radio(name, `${name[0].toUpperCase()}${name.slice(1)} (epsilon ${value})`, given?.preset === name, () => {
      const { delta, ...rest } = kept();
      show(value);
      set({ preset: name, ...(delta === undefined || delta === "auto" ? {} : { delta }), ...rest });
    });
  }
  const own = radio("own", "An epsilon of my own", given?.epsilon != null, () => figure(Number(exact.value) || 1));
  const figure = (value) => {
    own.checked = true;
    set({ epsilon: value, delta: "auto", ...kept() });
  };
  slider.addEventListener("input", () => {
    const value = rounded(10 ** Number(slider.value));
    exact.value = String(value);
    tell(value);
    figure(value);
  });
  exact.addEventListener("input", () => {
    const value = Number(exact.value);
    if (value > 0) {
      slider.value = Math.log10(value);
      tell(value);
    }
    figure(exact.value.trim() === "" || Number.isNaN(value) ? exact.value : value);
  });
  const asNear = () => {
    nearer.checked = true;
    const within = Number(near.value) > 0 ? Number(near.value) : near.value || "5%";
    set({ accuracy: { ...job.privacy?.accuracy, within }, ...kept() });
  };
  const nearer = radio("near", "As much as a target accuracy needs", given?.accuracy != null, asNear);
  near.addEventListener("input", asNear);
  if (given?.rho != null) radio("rho", `rho ${given.rho}, as the JSON says`, true, () => {});
  box.append(
    ways,
    element("div", { className: "field" }, element("label", { htmlFor: "epsilon" }, "Epsilon"), slider, exact, error),
    element("details", { open: given?.accuracy != null }, element("summary", {}, "Or say how accurate the answer must be"),
      element("div", { className: "field" }, element("label", { htmlFor: "within" }, "Within"), element("p", { className: "note", id: "within-note" }, "In per cent, such as 5%, or in the unit of the answer. The smallest epsilon that is expected to reach it is then computed."), near, nearError)),
  );
  box.append(element("details", {}, element("summary", {}, "Delta"), fields.field("delta", schema.delta, holder, "/privacy/delta", false)));
  privacy.replaceChildren(box);
  for (const [path, input, place] of [["/privacy/epsilon", exact, error], ["/privacy/preset", exact, error], ["/privacy", exact, error], ["/privacy/accuracy", near, nearError], ["/privacy/accuracy/within", near, nearError]]) {
    fields.places.set(path, { box: { querySelector: () => input, closest: () => input.closest("details") }, error: place, input });
  }
}

// The price ----------------------------------------------------------------------------------------------------------

let timer = 0;
let asking = null; // the request that is under way
let drawn = null; // the actions on the page, as the server sent them
let answered = null; // the text whose price is on the page

function ask() {
  clearTimeout(timer);
  timer = setTimeout(price, PAUSE);
  status.textContent = "Asking what it would cost …";
}

async function price() {
  if (asking) return; // its end asks again
  const text = area.value;
  const body = new URLSearchParams({ csrf: form.elements.csrf.value, body: text, around: form.elements.around?.value ?? "", units: form.elements.units?.value ?? "" });
  asking = fetch("/jobs/new/price", { method: "POST", body, headers: { Accept: "application/json" } });
  try {
    const response = await asking;
    const answer = await response.json();
    if (text === area.value) show(text, answer, response);
  } catch {
    status.textContent = "The server did not answer; ask with the button.";
  } finally {
    asking = null;
    if (text !== area.value) ask();
  }
}

function show(text, answer, response) {
  answered = text;
  const others = fields && job !== null && answer.issues ? fields.refuse(answer.issues, { typed: true }) : [];
  if (answer.price) quote.innerHTML = answer.price; // rendered and escaped by the server
  form.elements.priced.value = answer.priced ?? "";
  if (answer.actions && answer.actions !== drawn) {
    drawn = answer.actions;
    const inside = actions.contains(document.activeElement) ? document.activeElement : null;
    actions.innerHTML = answer.actions;
    const again = inside && [...actions.querySelectorAll("button, input")].find((one) => one.name === inside.name && one.value === inside.value);
    again?.focus();
  }
  const submit = actions.querySelector("[value=submit]");
  if (!response.ok && submit) {
    submit.remove();
    drawn = null;
  }
  const named = quote.querySelector(".big")?.textContent.trim().replace(/\s+/g, " ");
  status.textContent = response.ok ? `It would cost ${named}.` : answer.detail ?? "Refused as it stands; nothing was spent.";
  if (others.length && !raw.hidden) area.setAttribute("aria-invalid", "true");
  if (answer.privacy && job?.privacy?.accuracy) {
    const figures = answer.privacy;
    quote.prepend(element("button", { type: "button", onclick: () => { job.privacy = figures; write(); draw(); document.getElementById("epsilon").focus(); } }, `Take epsilon ${figures.epsilon}`));
  }
}

form.addEventListener("submit", (event) => {
  if (event.submitter?.value !== "submit" || answered === null || answered === area.value) return;
  event.preventDefault();
  status.textContent = "The price is being asked anew, since the job was changed; then submit again.";
});

// Tabs ---------------------------------------------------------------------------------------------------------------

function choose(tab) {
  for (const one of tabs) {
    one.setAttribute("aria-selected", String(one === tab));
    one.tabIndex = one === tab ? 0 : -1;
  }
  const asForm = tab === tabs[0];
  if (asForm) draw();
  panel.hidden = !asForm;
  raw.hidden = asForm;
}

for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const other = tabs[tab === tabs[0] ? 1 : 0];
    choose(other);
    other.focus();
  });
}
area.addEventListener("input", () => {
  const found = read();
  if (found !== null) {
    job = found;
    drawPrivacy();
  }
  ask();
});
form.querySelector(".tabs").hidden = false;
raw.setAttribute("role", "tabpanel");
raw.setAttribute("aria-labelledby", "tab-json");
choose(read() === null ? tabs[1] : tabs[0]);
price();
