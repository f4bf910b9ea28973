// The data of a job: a dataset, or blocks of a source (`source` instead of `dataset`), chosen from those that exist.

import { element } from "./fields.js";

const NEWEST = "newest";
const RANGE = "range";
const OTHERS = "others"; // a list of blocks that is not a range, as the JSON gives it

let made = 0;

function select(label, options, value, picked) {
  const id = `source-${++made}`;
  const control = element("select", { id }, ...options.map(([one, text]) => element("option", { value: one }, text)));
  control.value = value;
  control.addEventListener("change", () => picked(control.value));
  return element("div", { className: "field" }, element("label", { htmlFor: id }, label), control);
}

// The blocks that `problem.source` names: [way, first, last].
function said({ blocks, last }, names) {
  if (blocks == null) return [NEWEST, "", String(last ?? 1)];
  const ends = typeof blocks === "string" ? blocks.split("/") : [blocks[0], blocks.at(-1)];
  const [first, final] = [ends[0], ends.at(-1)].map((one) => names.indexOf(one));
  const isRange = typeof blocks === "string" || blocks.join("\n") === names.slice(first, final + 1).join("\n");
  return isRange && first >= 0 && final >= first ? [RANGE, names[first], names[final]] : [OTHERS, "", ""];
}

// Controls for the blocks that are read; `write` is called after every change, `again` if other controls are needed.
function blocksOf(source, problem, write, again) {
  const names = source.blocks;
  if (!names.length) return [element("p", { className: "note" }, "It has no block yet: register one first.")];
  const [way, first, last] = said(problem.source, names);
  const set = (chosen) => {
    problem.source = { id: source.value, ...chosen };
    write();
  };
  const range = (from, to) => {
    if (from === to) return { blocks: from };
    return { blocks: source.by === "label" ? names.slice(names.indexOf(from), names.indexOf(to) + 1) : `${from}/${to}` };
  };
  const ways = [[NEWEST, "the newest"], [RANGE, "from one to another"], ...(way === OTHERS ? [[OTHERS, "as the JSON says"]] : [])];
  const parts = [
    select("Which blocks", ways, way, (picked) => {
      set(picked === NEWEST ? { last: 1 } : range(names.at(-1), names.at(-1)));
      again("Which blocks");
    }),
  ];
  if (way === NEWEST) {
    const id = `source-${++made}`;
    const count = element("input", { id, type: "number", min: 1, max: names.length, value: last });
    count.addEventListener("input", () => Number.isInteger(count.valueAsNumber) && count.valueAsNumber > 0 && set({ last: count.valueAsNumber }));
    parts.push(element("div", { className: "field" }, element("label", { htmlFor: id }, `How many of ${names.length}`), count));
  } else if (way === RANGE) {
    const options = names.map((one) => [one, one]);
    parts.push(
      select("First block", options, first, (picked) => {
        set(range(picked, names.indexOf(picked) > names.indexOf(last) ? picked : last));
        again("First block");
      }),
      select("Last block", options.slice(names.indexOf(first)), last, (picked) => {
        set(range(first, picked));
        again("Last block");
      }),
    );
  }
  return parts;
}

// The field. `again` draws the form anew and puts the focus into the field with the given label.
export function dataField(fields, choices, problem, write, again) {
  const { datasets, sources } = choices;
  const value = problem.source?.id ?? problem.dataset ?? "";
  const id = `source-${++made}`;
  const group = (label, known) => (known.length ? [element("optgroup", { label }, ...known.map((one) => element("option", { value: one.value }, one.label)))] : []);
  const isKnown = [...datasets, ...sources].some((one) => one.value === value);
  const control = element("select", { id }, ...(isKnown ? [] : [element("option", { value }, value === "" ? "Choose one" : value)]), ...group("Datasets", datasets), ...group("Sources, read in blocks", sources));
  control.value = value;
  const error = element("p", { id: `${id}-error`, className: "error", hidden: true });
  control.setAttribute("aria-describedby", error.id);
  control.addEventListener("change", () => {
    const isSource = sources.some((one) => one.value === control.value);
    for (const name of ["dataset", "source"]) delete problem[name];
    Object.assign(problem, isSource ? { source: { id: control.value, last: 1 } } : { dataset: control.value });
    write();
    again("Dataset or source");
  });
  const source = sources.find((one) => one.value === problem.source?.id);
  const box = element("div", { className: "field" }, element("label", { htmlFor: id }, "Dataset or source"), control, ...(source ? blocksOf(source, problem, write, again) : []), error);
  for (const path of ["/problem/dataset", "/problem/source"]) fields.places.set(path, { box, error, input: control });
  return box;
}
