// Form fields from a JSON schema. Nothing here depends on a kind of problem: all that is known of one is in its schema.
//
// A field writes what was typed into its object at once, even text that is not a number, so that form and JSON are
// never out of step; the server reports what is wrong, and `Fields.refuse` shows it beside the field.

const ABSENT = undefined;
const MOST_ROWS = 2000; // of a table that can be edited here; a longer one is only counted
const MOST_PARTS = 20; // objects of a list for which fields are shown
const IN_CELLS = ["const", "enum", "number", "string"]; // what fits into a cell of a table, as does a list of numbers instead of one
const SCALARS = ["number", "integer", "string", "boolean"];

let made = 0;

// An element with children. Names of its properties are set as such, all others as attributes; `on…` adds a listener.
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === ABSENT || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && key !== "list") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((one) => one !== null && one !== ABSENT));
  return node;
}

// Text with code between backticks.
const withCode = (text) => text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
const words = (name) => name.replaceAll("_", " ");
// A sentence in which names of fields and choices are words, as in labels and lists; code stays as it is.
const inPlainWords = (text) => text.split("`").map((part, place) => (place % 2 ? part : part.replaceAll(/(?<![\w/.])[a-z]+(_[a-z]+)+(?![\w/.])/g, words))).join("`");
const firstUp = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !isRaw(value);
export const isRaw = (value) => JSON.isRawJSON?.(value) === true; // a number with more digits than a double has
const typed = (value) => (isRaw(value) ? value.rawJSON : String(value));

// JSON as the server writes it: a value that fits on one line stays there.
export function asText(value, indent = 0) {
  const flat = oneLine(value);
  if (flat.length + indent <= 88 || typeof value !== "object" || isRaw(value) || flat.length <= 2) return flat;
  const inner = " ".repeat(indent + 2);
  const parts = Array.isArray(value)
    ? value.map((one) => asText(one, indent + 2))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${asText(one, indent + 2)}`);
  const [opening, closing] = Array.isArray(value) ? "[]" : "{}";
  return `${opening}\n${inner}${parts.join(`,\n${inner}`)}\n${" ".repeat(indent)}${closing}`;
}

function oneLine(value) {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(", ")}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${oneLine(one)}`).join(", ")}}`;
}

// JSON whose numbers keep every digit that was written.
export function fromText(text) {
  return JSON.parse(text, (key, value, context) => {
    const source = context?.source;
    const exact = typeof value !== "number" || source === ABSENT || source.replace(/[^0-9]/g, "").length <= 15;
    return exact || !JSON.rawJSON ? value : JSON.rawJSON(source);
  });
}

function numberOf(text) {
  const number = Number(text);
  return text.trim() === "" || !Number.isFinite(number) ? text : number;
}

// What is wrong with a number by its own schema; empty if nothing is.
function wrong(schema, value) {
  if (value === ABSENT || isRaw(value)) return "";
  if (typeof value !== "number") return /^\s*[+-]?\d*,\d+\s*$/.test(value) ? `a number is needed, with a point: ${value.trim().replace(",", ".")}` : "a number is needed";
  if (schema.type === "integer" && !Number.isInteger(value)) return "a whole number is needed";
  if (value < schema.minimum) return `at least ${schema.minimum}`;
  if (value <= schema.exclusiveMinimum) return `more than ${schema.exclusiveMinimum}`;
  if (value > schema.maximum) return `at most ${schema.maximum}`;
  if (value >= schema.exclusiveMaximum) return `less than ${schema.exclusiveMaximum}`;
  return "";
}

function bounds(schema) {
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const most = schema.maximum ?? schema.exclusiveMaximum;
  const told = [];
  if (least !== ABSENT) told.push(`${schema.minimum === ABSENT ? "above" : "from"} ${least}`);
  if (most !== ABSENT && most < 1e6) told.push(`${schema.maximum === ABSENT ? "below" : "to"} ${most}`);
  return told.join(" ");
}

export class Fields {
  // `changed` is called after every change. By the name of a field, `choices` has the values to choose from, `stored`
  // the stored objects that it may name instead of holding one, and `several` the values that a list is chosen from.
  // `beside(fields, context, input)` makes what stands under a control, or null.
  constructor(definitions, { changed, choices = {}, stored = {}, several = {}, jobs = [], fetchProblem = null, beside = () => null }) {
    Object.assign(this, { definitions, changed, choices, stored, several, jobs, fetchProblem, beside, places: new Map() });
  }

  resolve(schema) {
    let found = schema;
    while (found.$ref) {
      const { $ref, ...rest } = found;
      found = { ...this.definitions[$ref.split("/").at(-1)], ...rest };
    }
    return found;
  }

  // The ways in which a value may be given, without null: `[schema, …]`.
  variants(schema) {
    const whole = this.resolve(schema);
    const several = whole.anyOf ?? whole.oneOf;
    if (!several) return whole.type === "null" ? [] : this.asTable(whole);
    return several.flatMap((one) => this.variants(one));
  }

  // A list of objects can be edited as a table if all required members fit into cells. If others do not, it can also be
  // edited as fields for each object.
  asTable(schema) {
    const item = schema.type === "array" && !schema["x-as"] ? this.item(schema) : null;
    if (item === null || this.sort(item) !== "object") return [schema];
    const cells = this.cells(item);
    const few = (item.required ?? []).every((name) => cells.includes(name)) && cells.length < Object.keys(item.properties).length;
    return few ? ["table", "parts"].map((way) => ({ ...schema, "x-as": way })) : [schema];
  }

  // The names of the properties of an object that fit into a cell.
  cells(item) {
    return Object.keys(item.properties).filter((name) => {
      const sorts = this.variants(item.properties[name]).map((way) => this.sort(way));
      return sorts.every((sort) => IN_CELLS.includes(sort) || (sort === "numbers" && sorts.includes("number")));
    });
  }

  // The sort of control for a schema without alternatives.
  sort(schema) {
    if ("const" in schema) return "const";
    if (schema.enum) return "enum";
    if (SCALARS.includes(schema.type)) return schema.type === "integer" ? "number" : schema.type;
    if (schema.type === "object" && schema.properties) return "object";
    if (schema.type !== "array") return "json";
    const item = this.item(schema);
    if (item === null) return this.kinds(schema).length ? "parts" : "json";
    const inner = this.sort(item);
    if (inner === "number") return "numbers";
    if (inner === "numbers") return "rows";
    if (inner === "string") return "lines";
    if (inner !== "object") return "json";
    return schema["x-as"] ?? (this.cells(item).length === Object.keys(item.properties).length ? "table" : "parts");
  }

  item(schema) {
    const ways = schema.items ? this.variants(schema.items) : (schema.prefixItems ?? []).slice(0, 1);
    return ways.length === 1 ? ways[0] : null;
  }

  // The schemas of the objects that a list may hold, if there are several, each with a constant that tells it; else
  // none.
  kinds(schema) {
    const ways = schema.items ? this.variants(schema.items) : [];
    const told = (way) => this.sort(way) === "object" && Object.values(way.properties).some((one) => "const" in this.resolve(one));
    return ways.length > 1 && ways.every(told) ? ways : [];
  }

  // Whether a value can be shown by the control of this schema.
  fits(schema, value) {
    const sort = this.sort(schema);
    const all = (test) => Array.isArray(value) && value.every(test);
    if (sort === "const") return value === schema.const;
    if (sort === "enum") return schema.enum.includes(value);
    if (sort === "boolean") return typeof value === "boolean";
    if (sort === "number") return typeof value === "number" || isRaw(value);
    if (sort === "string") return typeof value === "string";
    if (sort === "numbers") return all((one) => ["number", "string"].includes(typeof one));
    if (sort === "rows") return all((row) => Array.isArray(row) && row.every((one) => ["number", "string"].includes(typeof one)));
    if (sort === "lines") return all((one) => typeof one === "string" && !one.includes("\n"));
    if (sort === "table") {
      const known = this.cells(this.item(schema));
      const isList = (one) => Array.isArray(one) && one.length > 1 && one.every((part) => typeof part === "number" || isRaw(part));
      return all((row) => isObject(row) && Object.entries(row).every(([name, one]) => known.includes(name) && !isObject(one) && (!Array.isArray(one) || isList(one))));
    }
    if (sort === "parts") {
      const kinds = this.kinds(schema);
      return all((one) => isObject(one) && (!kinds.length || kinds.some((kind) => this.fits(kind, one)))) && value.length <= MOST_PARTS;
    }
    if (sort !== "object" || !isObject(value)) return false;
    return Object.entries(schema.properties).every(([name, one]) => {
      const whole = this.resolve(one);
      return !("const" in whole) || whole.const === value[name];
    });
  }

  // A name for one of several ways to give a value.
  way(schema) {
    const sort = this.sort(schema);
    if (sort === "const") return firstUp(words(String(schema.const)));
    if (sort === "object") {
      const kind = Object.values(schema.properties).map((one) => this.resolve(one)).find((one) => "const" in one);
      const title = (schema.title ?? "fields").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
      return firstUp(kind ? words(String(kind.const)) : title);
    }
    const one = sort === "parts" ? this.item(schema) : null;
    const item = one ? this.way(one).toLowerCase() : "fields";
    return {
      number: "A number", numbers: "Numbers", rows: "Rows of numbers", lines: "Lines", table: "A table",
      string: "A name or an id", parts: `One by one: ${item}`, boolean: "Yes or no", enum: "One of",
    }[sort] ?? "As JSON";
  }

  // The label of a field: its title, unless that is only its name with capital letters; symbols stay as they are.
  label(name, schema) {
    const plain = words(name);
    const title = schema.title ?? plain;
    if (title.toLowerCase() !== plain.toLowerCase()) return title;
    return /^[A-Za-z](_[a-z])?$/.test(name) ? name : firstUp(plain);
  }

  // The fields of an object: first those that are needed, given or usual (`usual`), all others under "More".
  object(schema, holder, path, { hidden = [], controls = {}, usual = [] } = {}) {
    const first = element("div", { className: "fields" });
    const rest = element("div", { className: "fields" });
    for (const [name, one] of Object.entries(schema.properties)) {
      if (hidden.includes(name) || "const" in this.resolve(one)) continue;
      const needed = (schema.required ?? []).includes(name) || name in controls;
      const field = controls[name]?.() ?? this.field(name, one, holder, `${path}/${name}`, needed);
      (needed || holder[name] != null || usual.includes(name) ? first : rest).append(field);
    }
    if (!rest.childElementCount) return first;
    return element("div", { className: "fields" }, ...first.children, element("details", {}, element("summary", {}, "More"), rest));
  }

  // One field: its label, its meaning, its control, and room for its errors.
  field(name, schema, holder, path, needed) {
    const id = `field-${++made}`;
    const whole = this.resolve(schema);
    const ways = this.variants(schema);
    const single = ways.length === 1 ? ways[0] : null;
    const notes = [this.choices[name] || this.several[name] ? "" : (whole.description ?? single?.description)];
    if (single && this.sort(single) === "number") notes.push(bounds(single) && `${firstUp(bounds(single))}.`);
    if (whole.default != null && single && ["number", "string"].includes(this.sort(single))) notes.push(`Default: ${whole.default}.`);
    const note = inPlainWords(notes.filter(Boolean).map((one) => one.replace(/[.\s]*$/, ".")).join(" "));
    const error = element("p", { id: `${id}-error`, className: "error", hidden: true });
    const context = {
      id, name, path, needed, holder, error, schema: whole,
      describedby: [note && `${id}-note`, `${id}-error`].filter(Boolean).join(" "),
      label: this.label(name, schema),
      set: (value, wrongness = "") => {
        if (value === ABSENT) delete holder[name];
        else holder[name] = value;
        if (this.places.has(path)) this.places.get(path).wrongness = wrongness;
        this.say(path, wrongness);
        this.changed();
      },
    };
    const help = note ? element("p", { id: `${id}-note`, className: "note" }, ...withCode(note)) : null;
    const group = !single || ["object", "parts", "table", "json"].includes(this.sort(single));
    let box;
    if (this.several[name]) box = this.list(context, this.several[name]);
    else if (this.choices[name]) box = this.one(context, this.chosen(context, this.choices[name]), help);
    else if (whole["x-choices"] && inWords(whole, holder[name]) >= 0) box = this.words(ways, context, help);
    else if (single && !group && (holder[name] == null || this.fits(single, holder[name]) || typeof holder[name] === "string"))
      box = this.one(context, this.control(single, context), help);
    else if (ways.every((one) => ["const", "enum", "boolean"].includes(this.sort(one))) && this.known(ways, holder[name]))
      box = this.one(context, this.select(ways, context), help);
    else box = this.alternatives(ways, context, help);
    box.append(error);
    // A value whose form was chosen but not typed yet is an empty text.
    const begun = () => holder[name] === "";
    this.places.set(path, { box, error, begun, input: box.querySelector("input, select, textarea") });
    return box;
  }

  one(context, input, help) {
    const label = element("label", { htmlFor: context.id }, context.label);
    if (input.type === "checkbox") return element("div", { className: "field tick" }, element("div", {}, input, label), help);
    return element("div", { className: "field" }, label, help, input, this.beside(this, context, input));
  }

  known(ways, value) {
    return value == null || ways.some((one) => this.fits(one, value));
  }

  base(context, extra = {}) {
    return { id: context.id, "aria-describedby": context.describedby, autocomplete: "off", spellcheck: false, ...extra };
  }

  control(schema, context) {
    const { holder, name } = context;
    const value = holder[name];
    const sort = this.sort(schema);
    if (["const", "enum"].includes(sort)) return this.select([schema], context);
    if (sort === "boolean") {
      const usual = context.schema.default;
      return element("input", {
        ...this.base(context), type: "checkbox", checked: value ?? usual ?? false,
        onchange: (event) => context.set(event.target.checked === usual ? ABSENT : event.target.checked),
      });
    }
    if (["rows", "lines"].includes(sort)) return this.area(schema, context, sort);
    const read = (text) => {
      if (text.trim() === "") return [ABSENT, context.needed ? "needed" : ""];
      if (sort === "string") return [text, ""];
      if (sort === "number") return [numberOf(text), wrong(schema, numberOf(text))];
      const numbers = listOf(text);
      const bad = numbers.findIndex((one) => wrong(this.item(schema), one));
      return [numbers, bad < 0 ? "" : `number ${bad + 1}: ${wrong(this.item(schema), numbers[bad])}`];
    };
    return element("input", {
      ...this.base(context, { inputmode: sort === "number" ? "decimal" : null }),
      type: "text",
      placeholder: context.schema.default != null && !Array.isArray(context.schema.default) ? String(context.schema.default) : "",
      value: value == null ? "" : Array.isArray(value) ? value.map(typed).join(", ") : typed(value),
      oninput: (event) => context.set(...read(event.target.value)),
    });
  }

  area(schema, context, sort) {
    const value = context.holder[context.name] ?? [];
    const shown = sort === "rows" ? value.map((row) => row.map(typed).join(", ")) : value;
    return element("textarea", {
      ...this.base(context), className: "low", rows: Math.min(12, shown.length + 1), value: shown.join("\n"), placeholder: sort === "rows" ? "one row per line" : "one per line",
      oninput: (event) => {
        const lines = event.target.value.split("\n").filter((one) => one.trim() !== "");
        const read = sort === "rows" ? lines.map(listOf) : lines;
        const bad = sort === "rows" ? read.findIndex((row) => row.some((one) => typeof one !== "number")) : -1;
        context.set(read.length ? read : ABSENT, bad < 0 ? "" : `line ${bad + 1}: numbers are needed`);
      },
    });
  }

  // A choice among values.
  select(ways, context) {
    const values = ways.flatMap((one) => ("const" in one ? [one.const] : one.enum ?? [true, false]));
    const usual = context.schema.default;
    const text = (value) => (typeof value === "boolean" ? (value ? "Yes" : "No") : firstUp(words(String(value))));
    const options = values.filter((one) => one !== usual).map((one) => [JSON.stringify(one), text(one)]);
    if (usual != null && values.includes(usual)) options.unshift(["", `${text(usual)} (default)`]);
    else if (!context.needed || context.holder[context.name] == null) options.unshift(["", context.needed ? "Choose one" : "Not given"]);
    const value = context.holder[context.name];
    const chosen = value == null || value === usual ? "" : JSON.stringify(value);
    return this.options(context, options, chosen, (picked) => context.set(picked === "" ? ABSENT : JSON.parse(picked)));
  }

  options(context, options, chosen, picked) {
    return element(
      "select",
      { ...this.base(context), onchange: (event) => picked(event.target.value) },
      ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)),
    );
  }

  // A value from a list that the page has, chosen by its label.
  chosen(context, known) {
    const value = context.holder[context.name] ?? "";
    const options = known.map((one) => [one.value, one.label]);
    if (!options.some(([known]) => known === value)) options.unshift([value, value === "" ? "Choose one" : value]);
    return this.options(context, options, value, (picked) => context.set(picked === "" ? ABSENT : picked));
  }

  // Several values from a list that the page has, by their labels: a control for each, and one more below the last.
  // Controls are kept when others change, so that the focus stays where somebody types.
  list(context, known) {
    const box = element("fieldset", { className: "field list" }, element("legend", {}, context.label));
    const place = (value) => String(known.findIndex((one) => one.value === value));
    const selects = [];
    const add = (chosen) => {
      const select = this.options(
        { ...context, id: `${context.id}-${selects.length}` },
        [["", selects.length ? "And …" : "None"], ...known.map((one, at) => [String(at), one.label])],
        chosen,
        () => {
          if (selects.at(-1).value !== "") add("");
          const values = [...new Set(selects.map((one) => one.value).filter(Boolean))].map((at) => known[Number(at)].value);
          context.set(values.length ? values : ABSENT);
        },
      );
      select.setAttribute("aria-label", `${context.label}: ${selects.length + 1}`);
      selects.push(select);
      box.insertBefore(select, context.error.parentNode === box ? context.error : null);
    };
    for (const value of context.holder[context.name] ?? []) add(place(value));
    add("");
    return box;
  }

  // A choice among the whole values that the schema describes (`x-choices`); any other value has its ordinary control.
  words(ways, context, help) {
    const known = context.schema["x-choices"];
    const options = [...known.map((one, place) => [String(place), firstUp(one.says)]), ["other", "Another value"]];
    const chosen = String(inWords(context.schema, context.holder[context.name]));
    const box = this.one(context, this.options(context, options, chosen, (picked) => {
      if (picked !== "other") {
        context.set(structuredClone(known[Number(picked)].value));
        return;
      }
      context.holder[context.name] ??= structuredClone(context.schema.default);
      const own = this.alternatives(ways, { ...context, needed: true }, help);
      box.replaceChildren(own, context.error);
      own.querySelector("select, input")?.focus();
    }), help);
    return box;
  }

  // A value that can be given in several ways, or has fields of its own.
  alternatives(ways, context, help) {
    const { holder, name, path } = context;
    const inside = element("div", { className: "fields" });
    const present = holder[name] != null;
    let current = present ? ways.findIndex((one) => this.fits(one, holder[name])) : -1;
    const asJson = present && current < 0;
    const fill = () => {
      inside.replaceChildren();
      if (holder[name] == null) return;
      if (current < 0) inside.append(this.json(context));
      else inside.append(...this.inner(ways[current], context));
    };
    const box = element("fieldset", { className: "field" }, element("legend", {}, context.label), help);
    const usual = context.schema.default;
    if (ways.length > 1 || !context.needed || asJson) {
      const called = (one) => (this.isStored(one, name) ? "A stored one" : this.way(one));
      const options = ways.map((one, place) => [String(place), ways.length > 1 ? called(one) : "Given"]);
      if (!context.needed || !present) {
        const none = Array.isArray(usual) && usual.length === 0;
        const named = usual == null ? "" : `: ${none ? "none" : isObject(usual) ? (usual.type ?? oneLine(usual)) : usual}`;
        options.unshift(["", usual == null ? (context.needed ? "Choose one" : "Not given") : `Default${named}`]);
      }
      if (asJson) options.push(["json", "As JSON"]);
      const select = this.options(context, options, asJson ? "json" : current < 0 ? "" : String(current), (picked) => {
        this.forget(path);
        current = picked === "" || picked === "json" ? -1 : Number(picked);
        if (picked === "") context.set(ABSENT);
        else if (current >= 0 && !this.fits(ways[current], holder[name])) context.set(this.begun(ways[current], usual));
        fill();
      });
      select.setAttribute("aria-label", `${context.label}: how`);
      box.append(select);
    } else if (!present) {
      current = 0;
      holder[name] = this.begun(ways[0], usual);
    }
    box.append(inside);
    fill();
    return box;
  }

  // The initial value of this schema.
  begun(schema, usual) {
    const sort = this.sort(schema);
    if (sort === "const") return schema.const;
    if (usual != null && (sort === "json" || this.fits(schema, usual))) return structuredClone(usual);
    if (sort === "object") {
      const known = Object.entries(schema.properties).map(([name, one]) => [name, this.resolve(one)]);
      return Object.fromEntries(known.filter(([, one]) => "const" in one).map(([name, one]) => [name, one.const]));
    }
    return { numbers: [], rows: [], lines: [], table: [], parts: [], boolean: false, enum: schema.enum?.[0] }[sort] ?? "";
  }

  inner(schema, context) {
    const { holder, name, path } = context;
    const sort = this.sort(schema);
    if (sort === "const") return [];
    if (sort === "object") {
      const body = element("div", { className: "fields" });
      const draw = () => {
        this.forget(path);
        body.replaceChildren(this.object(schema, holder[name], path));
      };
      draw();
      return [...this.sources(context, draw), body];
    }
    if (sort === "table") return [this.table(schema, context)];
    if (sort === "parts") return [this.parts(schema, context)];
    if (sort === "json") return [this.json(context)];
    const own = { ...context, needed: true, id: `${context.id}-value` };
    const input = this.isStored(schema, name) ? this.chosen(own, this.stored[name]) : this.control(schema, own);
    input.setAttribute("aria-label", context.label);
    return [input, this.beside(this, own, input)].filter(Boolean);
  }

  // Whether a value of this schema is the id of a stored object, if there are any to choose from.
  isStored(schema, name) {
    return this.sort(schema) === "string" && (this.stored[name] ?? []).length > 0;
  }

  // Rows of a table as comma separated values under the names of their columns.
  table(schema, context) {
    const item = this.item(schema);
    const rows = context.holder[context.name] ?? [];
    const needed = item.required ?? [];
    const given = new Set(rows.flatMap((row) => Object.keys(row)));
    const names = this.cells(item);
    const isText = (name) => this.variants(item.properties[name]).every((way) => this.sort(way) === "string");
    const first = needed.filter((name) => names.includes(name)).sort((one, other) => isText(other) - isText(one)); // names first
    const columns = [...first, ...names.filter((name) => given.has(name) && !needed.includes(name))];
    const count = element("p", { className: "note" }, `${rows.length} rows.`);
    if (rows.length > MOST_ROWS) {
      count.textContent = `${rows.length} rows: too many to edit here.`;
      return count;
    }
    const cell = (value) => (value == null ? "" : Array.isArray(value) ? value.map(typed).join(" ") : typed(value));
    const csv = [columns.join(","), ...rows.map((row) => columns.map((one) => cell(row[one])).join(","))];
    const others = names.filter((name) => !columns.includes(name));
    const several = names.filter((name) => this.variants(item.properties[name]).some((way) => this.sort(way) === "numbers"));
    const hint = element("p", { className: "note" }, "One row per line, below the names of the columns; rows can be pasted from a spreadsheet.");
    if (others.length) hint.append(` Columns that may be added: ${others.join(", ")}.`);
    if (several.length) hint.append(` ${several.join(" and ")}: one number for all coordinates, or one for each, separated by spaces.`);
    const area = element("textarea", {
      ...this.base(context, { "aria-label": `${context.label}: one row per line, below the names of the columns` }),
      id: `${context.id}-value`, className: "low", rows: Math.min(12, csv.length + 1), value: csv.join("\n"),
      oninput: (event) => {
        const [read, problem] = fromCsv(event.target.value, item.properties, (one) => this.numeric(one), several);
        count.textContent = `${read.length} rows.`;
        context.set(read, problem);
      },
    });
    return element("div", { className: "field" }, hint, area, count);
  }

  numeric(schema) {
    return this.variants(schema).some((one) => this.sort(one) === "number");
  }

  // The objects of a list, each with its fields and, if the list may hold several kinds, with its kind.
  parts(schema, context) {
    const list = context.holder[context.name];
    const kinds = this.kinds(schema);
    const ways = kinds.length ? kinds : [this.item(schema)];
    const called = (way) => (kinds.length ? `, ${this.way(way).toLowerCase()}` : "");
    const shown = (way) => (kinds.length ? { usual: Object.keys(way.properties) } : {}); // all fields of the kind that was chosen
    const box = element("div", { className: "fields" });
    const draw = () => {
      this.forget(context.path);
      box.replaceChildren(
        ...list.map((one, place) => {
          const button = element("button", { type: "button", className: "second", onclick: () => { list.splice(place, 1); context.set(list); draw(); } }, `Leave out ${place + 1}`);
          const way = ways.find((known) => this.fits(known, one));
          const means = kinds.length && way.description ? element("p", { className: "note" }, ...withCode(inPlainWords(way.description))) : null;
          return element("fieldset", {}, element("legend", {}, `${context.label}: ${place + 1}${called(way)}`), means, this.object(way, one, `${context.path}/${place}`, shown(way)), button);
        }),
        ...ways.map((way) =>
          element("button", { type: "button", className: "second", onclick: () => { list.push(this.begun(way)); context.set(list); draw(); } }, `One more${called(way)}`),
        ),
      );
    };
    draw();
    return box;
  }

  // Text, for a value that no other control can show.
  json(context) {
    const { holder, name } = context;
    return element("textarea", {
      ...this.base(context, { "aria-label": `${context.label} as JSON` }), id: `${context.id}-json`, className: "low", value: asText(holder[name]),
      oninput: (event) => {
        try {
          context.set(fromText(event.target.value));
        } catch {
          this.say(context.path, "this is not JSON; the previous value is kept");
        }
      },
    });
  }

  // The controls that take an object that can be stored, such as a road network, from files or from an earlier job. The
  // server reads the files, and answers with the same form.
  sources(context, draw) {
    const { holder, name } = context;
    if (!Object.hasOwn(this.stored, name)) return [];
    const status = element("p", { className: "note", role: "status" });
    const files = element("button", { className: "second", formAction: `/jobs/new/${name}`, formNoValidate: true }, "Read it from files");
    const note = element("p", { className: "note" }, "On a page of its own. The server reads the files; the job stays as it is.");
    const sources = element("div", { className: "pair" }, element("div", {}, note, files));
    if (this.jobs.length) {
      const pick = element(
        "select",
        {
          id: `${context.id}-job`,
          onchange: async (event) => {
            if (event.target.value === "") return;
            const problem = await this.fetchProblem(event.target.value);
            const value = context.path.split("/").slice(2).reduce((one, key) => one?.[key], problem);
            if (!isObject(value)) {
              status.textContent = value == null ? "That job does not set it." : `That job names one by its id: ${value}`;
              return;
            }
            for (const key of Object.keys(holder[name])) delete holder[name][key];
            Object.assign(holder[name], value);
            draw();
            context.set(holder[name]);
            status.textContent = "Taken from that job.";
          },
        },
        element("option", { value: "" }, "As it is"),
        ...this.jobs.map((one) => element("option", { value: one.value }, one.label)),
      );
      sources.append(element("div", {}, element("label", { htmlFor: pick.id }, "Take it from an earlier job"), pick));
    }
    return [sources, status];
  }

  // Errors --------------------------------------------------------------------------------------------------------

  forget(path) {
    for (const known of [...this.places.keys()]) if (known.startsWith(`${path}/`)) this.places.delete(known);
  }

  say(path, text) {
    const place = this.places.get(path);
    if (!place) return;
    place.error.textContent = text && firstUp(text);
    place.error.hidden = !text;
    const input = place.box.querySelector("input, select, textarea");
    if (text) input?.setAttribute("aria-invalid", "true");
    else input?.removeAttribute("aria-invalid");
  }

  // Shows each issue beside the field that its pointer names, or beside the nearest field that holds it; returns the
  // others. With `typed`, fields whose form was chosen but that are still empty are not marked.
  refuse(issues, { typed = false } = {}) {
    const said = new Map();
    const others = [];
    for (const { pointer, detail } of issues) {
      let path = pointer;
      while (path && !this.places.has(path)) path = path.slice(0, path.lastIndexOf("/"));
      if (!path) others.push({ pointer, detail });
      else {
        const rest = pointer.slice(path.length + 1).split("/").filter(Boolean);
        const where = rest.map((one) => (/^\d+$/.test(one) ? `row ${Number(one) + 1}` : words(one))).join(", ");
        said.set(path, [...(said.get(path) ?? []), where ? `${where}: ${detail}` : detail]);
      }
    }
    for (const path of this.places.keys()) this.say(path, ""); // all first, since two paths may share one field
    for (const [path, texts] of said) {
      if (typed && this.places.get(path).begun?.()) continue;
      this.say(path, this.places.get(path).wrongness || texts.join("; ")); // only this page knows what was typed
      this.places.get(path).box.closest("details")?.setAttribute("open", "");
    }
    return others;
  }
}

// The index in `x-choices` of this value, or of the default if there is none; -1 for any other value.
function inWords(schema, value) {
  const given = value ?? schema.default;
  const same = (one, other) => isObject(one) && isObject(other)
    ? Object.keys({ ...one, ...other }).every((key) => same(one[key], other[key]))
    : one === other;
  return schema["x-choices"].findIndex((one) => same(one.value, given));
}

// Numbers separated by commas or spaces. They may have decimal commas if semicolons separate them, or spaces alone, as
// in a column of a spreadsheet, where whole numbers have no comma: "0,2 1 0,2" are three numbers.
export function listOf(text) {
  const parts = text.trim().split(text.includes(";") ? /[\s;]+/ : /\s+/).filter(Boolean);
  const whole = (figure) => parts.every((one) => figure.test(one));
  const commas = text.includes(";") ||
    (parts.length > 1 && (whole(/^[+-]?\d+,\d+,?$/) || (/,\d/.test(text) && whole(/^[+-]?\d+(,\d+)?$/))));
  return (commas ? parts.map((one) => one.replace(/,$/, "").replace(",", ".")) : text.split(/[\s,]+/).filter(Boolean)).map(numberOf);
}

// [rows, what is wrong with them, or an empty text]. The first line names the columns. Cells are separated by commas
// or, as spreadsheets copy and write them, by tabs or semicolons, with which numbers may have decimal commas. Each line
// may have another separator, since rows are pasted below others. A cell without a column stays in its row under a name
// that is not a field, so that the server refuses the row. `several`: columns whose cells may hold numbers separated by
// spaces.
export function fromCsv(text, properties, numeric, several = []) {
  const lines = text.split(/\r?\n/).filter((one) => one.trim() !== "");
  const split = (line, width) => {
    const isParted = line.includes(";") && (!line.includes(",") || !width || line.split(";").length === width);
    const separator = line.includes("\t") ? "\t" : isParted ? ";" : ",";
    return [line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")), separator];
  };
  if (!lines.length) return [[], `the first line names the columns: ${Object.keys(properties).join(", ")}`];
  const [named] = split(lines.shift(), 0);
  const columns = named.map((one, at) => (one === "" ? `column ${at + 1}` : named.indexOf(one) < at ? `${one} again` : one));
  const unknown = columns.filter((one, at) => named[at] !== "" && !Object.hasOwn(properties, one));
  let long = 0;
  const rows = lines.map((line, place) => {
    const [cells, separator] = split(line, columns.length);
    if (cells.length > columns.length && !long) long = place + 2;
    const figure = (cell) => numberOf(separator === "," ? cell : cell.replace(/^([+-]?\d*),(\d+)$/, "$1.$2"));
    const value = (name, cell) => {
      if (!Object.hasOwn(properties, name) || !numeric(properties[name])) return cell;
      const parts = several.includes(name) ? cell.split(/\s+/) : [cell];
      return parts.length > 1 ? parts.map(figure) : figure(cell);
    };
    const given = cells.map((cell, at) => [columns[at] ?? `column ${at + 1}`, cell]).filter(([, cell]) => cell !== "");
    unknown.push(...given.map(([name]) => name).filter((name) => columns.includes(name) && !Object.hasOwn(properties, name) && !unknown.includes(name)));
    return Object.fromEntries(given.map(([name, cell]) => [name, value(name, cell)]));
  });
  if (unknown.length) return [rows, `no column is called ${unknown.join(", ")}; the columns are ${Object.keys(properties).join(", ")}`];
  return [rows, long ? `line ${long} has more cells than there are columns` : ""];
}
