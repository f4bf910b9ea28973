// What-if questions beside an answer: fields that the release left free are changed, the question is asked at price 0,
// and its answer is shown beside the first. One question is under way at a time; of the changes made meanwhile the
// latest is asked next. Without this file the form of a job asks the same.

import { asText, element, Fields, fromText } from "./fields.js";
import { beside } from "./sliders.js";

const PAUSE = 600; // milliseconds after the last change before it is asked
const ENDED = ["succeeded", "failed", "cancelled"];

const panel = document.getElementById("what-if");
const status = panel.querySelector("[data-ask-status]");
const place = panel.querySelector("[data-ask-answer]");
const back = panel.querySelector("[data-ask-back]");
const own = panel.dataset.ask.split("/").at(-2);
const headers = { Accept: "application/json" };

let text; // what may be asked, as the server sent it
let free; // the same, parsed
let was; // the initial text of each value
let values;
let fields;
let timer = 0;
let busy = false;
let shown = "{}"; // the question whose answer is on the page

function draw() {
  values = fromText(text).values;
  fields = new Fields(free.schema.$defs, { changed: turned, choices: free.stored, several: free.several, beside });
  const field = (name) => fields.field(name, free.schema.properties[name], values, `/problem/${name}`, free.schema.required.includes(name));
  const more = free.more.map(field);
  panel.querySelector("[data-ask-fields]").replaceChildren(
    element("div", { className: "fields what-if" }, ...free.first.map(field)),
    ...(more.length ? [element("details", {}, element("summary", {}, "More that is free to ask"), element("div", { className: "fields what-if" }, ...more))] : []),
  );
}

// What differs from the job of this page, as JSON text.
function question() {
  const changed = Object.keys(free.schema.properties).filter((name) => textOf(name) !== was[name]);
  return asText(Object.fromEntries(changed.map((name) => [name, values[name] ?? null])));
}

const textOf = (name) => (values[name] === undefined ? "" : asText(values[name]));

function turned() {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE);
  back.disabled = false;
}

async function ask() {
  const asked = question();
  if (busy || asked === shown) return; // the end of the question under way checks again
  busy = true;
  try {
    if (asked === "{}") said("", "Original.");
    else await answer(asked);
  } catch {
    status.textContent = "The server did not answer. Change the value again to retry.";
  } finally {
    shown = asked;
    busy = false;
  }
  if (question() !== shown) turned();
}

async function answer(asked) {
  status.textContent = "Recomputing…";
  const body = new URLSearchParams({ csrf: document.body.dataset.csrf, changes: asked });
  const response = await fetch(panel.dataset.ask, { method: "POST", body, headers });
  const job = await response.json();
  const others = fields.refuse(job.issues ?? []);
  if (!response.ok) {
    const rest = job.issues?.length ? others.map((one) => one.detail).join("; ") : job.detail;
    status.textContent = rest ? `Not recomputed: ${rest}` : "Correct the marked fields.";
    return;
  }
  if (!ENDED.includes(job.state)) await ended(job.id);
  const found = await fetch(`/jobs/compare?${new URLSearchParams([["job", own], ["job", job.id], ["part", "answer"]])}`, { headers: { Accept: "text/html" } });
  if (!found.ok) throw new Error(String(found.status));
  if (job.id === own) said("", "Original.");
  else said(await found.text(), question() === asked ? "Updated. Price: 0." : "Recomputing…");
}

// Waits for the end of a job, and shows its progress.
function ended(id) {
  return new Promise((resolve) => {
    const source = new EventSource(`/jobs/${id}/events`);
    const close = () => {
      source.close();
      resolve();
    };
    source.addEventListener("progress", (event) => {
      const { step, total } = JSON.parse(event.data);
      status.textContent = `Recomputing: step ${step} of ${total}.`;
    });
    source.addEventListener("state", (event) => ENDED.includes(JSON.parse(event.data).state) && close());
    source.addEventListener("error", () => source.readyState === EventSource.CLOSED && close());
    addEventListener("pagehide", close, { once: true });
  });
}

function said(html, sentence) {
  const page = new DOMParser().parseFromString(html, "text/html"); // rendered and escaped by the server
  place.replaceChildren(...page.body.childNodes);
  status.textContent = sentence;
}

back.addEventListener("click", () => {
  draw();
  turned();
  back.disabled = true;
  panel.querySelector("input, select, textarea")?.focus();
});

const response = await fetch(panel.dataset.ask, { headers });
if (response.ok) {
  text = await response.text();
  free = fromText(text);
  values = free.values;
  was = Object.fromEntries(Object.keys(free.schema.properties).map((name) => [name, textOf(name)]));
  draw();
  back.disabled = true;
  panel.hidden = false;
}
