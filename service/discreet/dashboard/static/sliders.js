// Sliders under the fields of numbers. The field keeps every digit that is typed; a slider sets two or three of them.

import { element, isRaw } from "./fields.js";

const STEPS = 200; // of a linear scale
const DECADE_STEPS = 25; // of a logarithmic scale, per factor of ten: each changes the second digit
const WIDE = 1000; // a range whose ends differ by a larger factor has a logarithmic scale
const AROUND = 100; // widest linear range; a logarithmic scale ends at this factor below and above the value
const TIMES = 10; // largest factor by which a whole list is scaled up or down

const rounded = (value, digits = 2) => Number(value.toPrecision(digits));
const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

// The scale of a slider for a number of this schema: `at` gives the number at a place between 0 and 1, `place` is its
// inverse, `step` the slider's step. Null if a logarithmic scale is needed and there is no positive number to begin
// with.
export function scale(schema, value) {
  const least = schema.minimum ?? schema.exclusiveMinimum ?? -Infinity;
  const most = schema.maximum ?? schema.exclusiveMaximum ?? Infinity;
  const whole = schema.type === "integer";
  const narrow = most - least <= AROUND && !(least > 0 && most / least > WIDE);
  if (narrow || (value < 0 && Number.isFinite(least) && Number.isFinite(most))) {
    const step = whole ? 1 : (most - least) / STEPS;
    const from = schema.minimum === undefined ? least + step : least;
    const to = schema.maximum === undefined ? most - step : most;
    const at = (place) => (whole ? Math.round : (one) => rounded(one, 3))(from + place * (to - from));
    return { at, place: (one) => (one - from) / (to - from), step: whole ? 1 / (to - from) : 1 / STEPS };
  }
  const middle = value > 0 ? value : least > 0 && Number.isFinite(most) ? Math.sqrt(least * most) : clamp(1, least, most);
  if (!(middle > 0)) return null;
  const from = Math.max(middle / AROUND, least > 0 ? least : 0);
  const to = Math.min(middle * AROUND, most);
  const at = (place) => clamp((whole ? Math.round : rounded)(from * (to / from) ** place), from, to);
  return { at, place: (one) => (one > 0 ? Math.log(one / from) / Math.log(to / from) : 0), step: 1 / Math.max(2, Math.round(DECADE_STEPS * Math.log10(to / from))) };
}

function range(context, attributes) {
  const slider = element("input", { type: "range", min: 0, max: 1, ...attributes });
  slider.setAttribute("aria-label", `${context.label}: slider`);
  slider.setAttribute("aria-describedby", context.describedby);
  return slider;
}

// What stands under a control: a slider if its value is a number, or a list that is scaled as a whole; else null.
export function beside(fields, context, input) {
  if (input.tagName !== "INPUT" && input.tagName !== "TEXTAREA") return null;
  const ways = fields.variants(context.schema);
  if (context.schema["x-scaled"]) return proportion(fields, context, input);
  const schema = ways.find((one) => fields.sort(one) === "number");
  if (schema === undefined || input.type !== "text") return null;
  const given = () => (input.value.trim() === "" ? (context.schema.default ?? null) : Number(input.value));
  const turned = scale(schema, given());
  if (turned === null) return null;
  const slider = range(context, { step: turned.step });
  const tell = () => {
    const value = given();
    const known = value !== null && Number.isFinite(value);
    slider.value = known ? clamp(turned.place(value), 0, 1) : 0.5;
    slider.setAttribute("aria-valuetext", known ? String(value) : "not given");
  };
  slider.addEventListener("input", () => {
    const value = turned.at(Number(slider.value));
    input.value = String(value);
    slider.setAttribute("aria-valuetext", String(value));
    input.dispatchEvent(new Event("input"));
  });
  input.addEventListener("input", (event) => event.isTrusted && tell());
  tell();
  return slider;
}

// A slider that multiplies all numbers of a list, or of its rows, by a factor.
function proportion(fields, context, input) {
  let first = context.holder[context.name];
  const isNumbers = (one) => Array.isArray(one) && one.every((part) => typeof part === "number" || isRaw(part) || isNumbers(part));
  if (!isNumbers(first)) return null;
  const slider = range(context, { min: -1, step: 1 / DECADE_STEPS, value: 0 });
  const output = element("output", {}, "");
  const tell = (factor) => {
    slider.setAttribute("aria-valuetext", `times ${factor}`);
    output.textContent = `All of them times ${factor}.`;
  };
  const times = (one, factor) => (Array.isArray(one) ? one.map((part) => times(part, factor)) : rounded(Number(isRaw(one) ? one.rawJSON : one) * factor, 6));
  slider.addEventListener("input", () => {
    const factor = rounded(TIMES ** Number(slider.value));
    const value = factor === 1 ? first : times(first, factor);
    input.value = isNumbers(value) && Array.isArray(value[0]) ? value.map((row) => row.join(", ")).join("\n") : value.join(", ");
    tell(factor);
    context.set(value);
  });
  input.addEventListener("input", () => {
    first = context.holder[context.name];
    slider.disabled = !isNumbers(first);
    slider.value = 0;
    tell(1);
  });
  tell(1);
  return element("div", { className: "proportion" }, slider, output);
}
