// The owner's own file, looked at in this browser alone: which column is which, and every wrong cell, before anything
// is sent. What is uploaded has the columns that the dataset needs, under their names, and no others; a file that is
// right already goes as it is. Without this file the form sends what was chosen.

import { LEFT_OUT, MISSING, Rules } from "./table_rules.js";

const FIRST_BYTES = 1 << 18; // enough to show the first rows
const SHOWN_ROWS = 6;
const SHOWN_FAULTS = 12;
const LONGEST_RECORD = 1 << 20;
const REMEMBERED = 100_000; // names of people, until one comes again
const MOST_COLUMNS = 1000; // as the server reads them
const PIECE_CHARACTERS = 1 << 22; // of what is written anew
const ABSENT = "absent";
const FIXED = "fixed";

// Records of a CSV text -----------------------------------------------------------------------------------------------

function isOpen(record) {
  let open = false;
  for (let at = record.indexOf('"'); at >= 0; at = record.indexOf('"', at + 1)) open = !open;
  return open;
}

// Cuts text into records; the rest is the beginning of the next one.
function cut(text, isLast) {
  const lines = text.split("\n");
  const tail = isLast ? null : lines.pop();
  const records = [];
  let parts = []; // lines of a record that is open; each is looked at once
  let length = 0;
  for (const line of lines) {
    const open = (parts.length > 0) !== isOpen(line);
    parts.push(line);
    length += line.length + 1;
    if (open && length > LONGEST_RECORD) throw new Error("a quotation mark is never closed");
    if (open) continue;
    const whole = parts.join("\n");
    records.push(whole.endsWith("\r") ? whole.slice(0, -1) : whole);
    parts = [];
    length = 0;
  }
  if (isLast && parts.length) throw new Error("a quotation mark is never closed");
  return [records, parts.length ? `${parts.join("\n")}\n${tail ?? ""}` : (tail ?? "")];
}

function cells(record, separator) {
  if (!record.includes('"')) return record.split(separator);
  const found = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < record.length; at += 1) {
    const letter = record[at];
    if (quoted && letter === '"' && record[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (letter === '"') quoted = !quoted;
    else if (letter === separator && !quoted) {
      found.push(cell);
      cell = "";
    } else cell += letter;
  }
  return [...found, cell];
}

// All records of a file, in batches: [line of the first one, records]. Empty lines count, and are left out.
async function* batches(file, isStale) {
  const reader = file.stream().pipeThrough(new TextDecoderStream("utf-8", { fatal: true })).getReader();
  let rest = "";
  let line = 1;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (isStale()) return;
      const [records, left] = cut(done ? rest : rest + value, done);
      rest = left;
      const numbered = [];
      for (const record of records) {
        if (record !== "") numbered.push([line, record]);
        line += record.includes("\n") ? record.split("\n").length : 1;
      }
      if (numbered.length) yield numbered;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// What the beginning of a file tells: separator, names of the columns, first rows.
async function beginning(file) {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.slice(0, FIRST_BYTES).arrayBuffer(), {
    stream: file.size > FIRST_BYTES,
  });
  const [records] = cut(text, file.size <= FIRST_BYTES);
  const [header, ...rows] = records.filter((record) => record !== "");
  if (header === undefined) throw new Error("it has no rows");
  const separator = [",", ";", "\t", "|"]
    .map((one) => [cells(header, one).length, one])
    .reduce((best, one) => (one[0] > best[0] ? one : best))[1];
  const names = cells(header, separator).map((name) => name.trim());
  if (names.length > MOST_COLUMNS) throw new Error(`it has ${names.length} columns, at most ${MOST_COLUMNS} are read`);
  const headless = names.every((name) => name !== "" && !Number.isNaN(number(name, separator)));
  return {
    separator,
    headless,
    names: headless ? names.map((_, place) => `column ${place + 1}`) : names,
    rows: (headless ? [header, ...rows] : rows).slice(0, SHOWN_ROWS),
  };
}

// Values --------------------------------------------------------------------------------------------------------------

// A number as it is written where columns are parted by commas, or with a decimal comma where they are not.
function number(text, separator) {
  const plain = separator === "," ? text : text.replace(/^([+-]?\d*),(\d+)$/, "$1.$2");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

// What is wrong with a value, in words; null where nothing is.
function fault(column, value, separator, shift) {
  if (MISSING.has(value.toLowerCase())) return "is empty";
  if (column.holds === "names") return null;
  if (column.holds === "truths") return /^(true|false|0|1)$/i.test(value) ? null : "is not true or false";
  if (column.holds === "times") {
    return /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?( ?(Z|[+-]\d\d:?\d\d))?$/.test(value)
      ? null
      : "is not a time such as 2026-11-21T15:00:00+01:00";
  }
  const figure = number(value, separator) + shift;
  if (Number.isNaN(figure)) return "is not a number";
  if (column.holds === "integers" && !Number.isInteger(figure)) return "is not a whole number";
  if ((column.low !== null && figure < column.low) || (column.high !== null && figure > column.high)) {
    return `is outside of ${range(column)}`;
  }
  return null;
}

function range({ low, high }) {
  if (high === null) return `${low.toLocaleString("en")} and more`;
  if (low === null) return `at most ${high.toLocaleString("en")}`;
  return `${low.toLocaleString("en")} to ${high.toLocaleString("en")}`;
}

function plain(name) {
  return name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "_").replaceAll(/^_|_$/g, "");
}

// The likeliest column of a file for each that is needed: by its very name, by another word for it, by a part of it. A
// plain `id` is taken for a person's last of all: where rows have numbers of their own, each would be another person.
function guess(columns, names) {
  const plains = names.map(plain);
  const taken = new Set();
  const chosen = new Map();
  const rounds = [
    (column, name) => name === plain(column.name),
    (column, name) => name !== "id" && column.words.includes(name),
    (column, name) => [plain(column.name), ...column.words].some((word) => word.length > 1 && word !== "id" && name.split("_").includes(word)),
    (column, name) => column.words.includes(name),
    (column, name) => column.words.includes("id") && name.split("_").includes("id"),
  ];
  for (const fits of rounds) {
    for (const column of columns) {
      if (chosen.has(column)) continue;
      const place = plains.findIndex((name, at) => !taken.has(at) && fits(column, name));
      if (place < 0) continue;
      taken.add(place);
      chosen.set(column, String(place));
    }
  }
  return columns.map((column) => chosen.get(column) ?? (column.needed ? (column.usual ? FIXED : "") : ABSENT));
}

// The page ------------------------------------------------------------------------------------------------------------

function made(name, properties = {}, ...children) {
  const { dataset, ...others } = properties;
  const element = Object.assign(document.createElement(name), others);
  Object.assign(element.dataset, dataset);
  element.append(...children);
  return element;
}

class Table {
  constructor(panel) {
    this.panel = panel;
    this.columns = JSON.parse(panel.dataset.columns);
    this.form = panel.closest("form");
    this.input = this.form.querySelector("input[type=file]");
    this.input.accept += ",.tsv,.txt";
    this.turn = 0; // of what is being looked at: what belongs to an earlier one stops
    this.ready = null; // what is sent instead of the file
    this.input.addEventListener("change", () => this.open());
    this.form.addEventListener("submit", (event) => this.send(event), { capture: true });
    this.form.addEventListener("formdata", (event) => {
      if (this.ready) event.formData.set("content", this.ready, this.file.name.replace(/\.[^.]*$/, ".csv"));
    });
    if (this.input.files.length) this.open();
  }

  async open() {
    const turn = ++this.turn;
    [this.file] = this.input.files;
    this.ready = null;
    this.head = null;
    this.panel.replaceChildren();
    this.panel.hidden = true;
    if (!this.file || !/\.(csv|tsv|txt)$/i.test(this.file.name)) return;
    this.panel.hidden = false;
    try {
      const head = await beginning(this.file);
      if (turn !== this.turn) return;
      this.head = head;
    } catch (error) {
      this.panel.append(made("p", { className: "notice refused" }, unreadable(error)));
      return;
    }
    this.build();
    this.check();
  }

  build() {
    const { head } = this;
    const guesses = guess(this.columns, head.names);
    this.controls = this.columns.map((column, place) => this.control(column, place, guesses[place]));
    this.rules = new Rules(() => this.check());
    this.status = made("p", { role: "status" });
    this.status.setAttribute("aria-live", "polite");
    this.faults = made("ul", { className: "faults" });
    this.sent = made("p", { className: "note" });
    this.shown = made("div", { className: "scroll", tabIndex: 0, role: "region" });
    this.shown.setAttribute("aria-label", "Rows of your file");
    this.panel.append(
      made("h3", {}, "Your file, as only this browser sees it"),
      made("p", { className: "note" }, "Nothing has been sent yet. Say which of its columns is which."),
      made("div", { className: "pair mapping" }, ...this.controls.map((one) => one.element)),
      this.rules.element,
      this.status,
      this.faults,
      this.sent,
      this.shown,
    );
  }

  control(column, place, guessed) {
    const id = `column-${place}`;
    const option = (value, text) => made("option", { value, textContent: text });
    const select = made(
      "select",
      { id, required: column.needed },
      option("", "choose …"),
      ...this.head.names.map((name, at) => option(String(at), name)),
      ...(column.owner ? [] : [option(FIXED, "the same in every row")]), // all would be one person
      ...(column.needed ? [] : [option(ABSENT, "not in my file")]),
    );
    select.value = guessed;
    const fixed = made("input", { id: `${id}-fixed`, value: column.usual, hidden: guessed !== FIXED });
    fixed.setAttribute("aria-label", `${column.name} of every row`);
    const add = made("input", { type: "checkbox", id: `${id}-add` });
    const shift = made("p", { hidden: true }, add, " ", made("label", { htmlFor: add.id }, "Add 1 to each of them in what is sent"));
    const limits = column.low === null && column.high === null ? "" : `; ${range(column)}`;
    const note = made("p", { className: "note", id: `${id}-note` }, `${column.says}${limits}.`);
    select.setAttribute("aria-describedby", note.id);
    const changed = () => {
      fixed.hidden = select.value !== FIXED;
      if (select.value === "" || select.value === FIXED) [add.checked, shift.hidden] = [false, true];
      this.check();
    };
    select.addEventListener("change", changed);
    fixed.addEventListener("input", changed);
    add.addEventListener("change", () => this.check());
    const label = made("label", { htmlFor: id }, made("code", {}, column.name), column.needed ? "" : " (optional)");
    return { column, select, fixed, add, shift, element: made("div", {}, label, select, fixed, note, shift) };
  }

  // What the controls say: of each column that is sent its place in the file or its fixed value, and what is added.
  plan() {
    return this.controls
      .filter(({ select }) => select.value !== ABSENT && select.value !== "")
      .map(({ column, select, fixed, add, shift }) => ({
        column,
        box: shift,
        place: select.value === FIXED ? null : Number(select.value),
        value: fixed.value.trim(),
        shift: add.checked ? 1 : 0,
        label: select.value === FIXED ? "what you typed" : this.head.names[Number(select.value)],
      }));
  }

  async check() {
    const turn = ++this.turn;
    const isStale = () => turn !== this.turn;
    this.ready = null;
    const plan = this.plan();
    this.rules.suit(
      plan,
      (place) => this.head.rows.map((row) => (cells(row, this.head.separator)[place] ?? "").trim()).filter(Boolean),
      (text) => !Number.isNaN(number(text, this.head.separator)),
    );
    const lacking = this.controls.filter(({ select, column }) => column.needed && select.value === "");
    const wrong = new Map(plan.map((one) => [one, { count: 0, zeros: 0, high: -Infinity, first: null }]));
    const owners = new Map(plan.filter(({ column }) => column.owner).map((one) => [one, new Set()])); // until a name comes again
    const marked = []; // [line, cells, faults by place] of the rows that are shown
    const ragged = { count: 0, line: 0, found: 0 };
    const width = this.head.names.length;
    let rows = 0;
    let leftOut = 0;
    this.tell(plan, lacking);
    this.show([], plan);
    for (const one of plan.filter(({ place }) => place === null)) {
      const says = fault(one.column, one.value, ",", 0);
      if (says) Object.assign(wrong.get(one), { count: 1, first: [null, one.value, says] });
    }
    const looked = plan.filter(({ place }) => place !== null);
    const started = performance.now();
    let said = started;
    try {
      let skipped = this.head.headless;
      for await (const batch of batches(this.file, isStale)) {
        for (const [line, record] of batch) {
          if (!skipped) {
            skipped = true;
            continue;
          }
          rows += 1;
          const values = cells(record, this.head.separator);
          const faults = new Map();
          if (values.length !== width) {
            if (ragged.count === 0) Object.assign(ragged, { line, found: values.length });
            ragged.count += 1;
          }
          const read = looked.map((one) => [one, this.rules.value(one.column, (values[one.place] ?? "").trim())]);
          if (read.some(([, value]) => value === LEFT_OUT)) {
            leftOut += 1;
            continue;
          }
          for (const [one, found] of read) {
            const value = found.says ? (values[one.place] ?? "").trim() : found;
            const figure = Number(value);
            const state = wrong.get(one);
            const seen = owners.get(one);
            if (seen?.has(value)) owners.delete(one);
            else if (seen?.size < REMEMBERED) seen.add(value);
            if (figure > state.high) state.high = figure;
            const says = found.says ?? fault(one.column, value, this.head.separator, one.shift);
            if (says === null) continue;
            if (figure === 0 && value !== "") state.zeros += 1;
            state.count += 1;
            state.first ??= [line, value, says];
            faults.set(one.place, says);
          }
          if (rows - leftOut <= SHOWN_ROWS) marked.push([line, values, faults]);
          else if ((faults.size || values.length !== width) && marked.length < SHOWN_ROWS + SHOWN_FAULTS) marked.push([line, values, faults]);
        }
        if (isStale()) return;
        if (performance.now() - said > 500) {
          said = performance.now();
          this.status.textContent = `Looking at your file: ${rows.toLocaleString("en")} rows so far.`;
        }
      }
    } catch (error) {
      if (!isStale()) this.status.textContent = unreadable(error);
      return;
    }
    if (isStale()) return;
    this.conclude(plan, wrong, ragged, lacking, rows, leftOut, [...owners.keys()]);
    this.show(marked, plan);
  }

  conclude(plan, wrong, ragged, lacking, rows, leftOut, alone) {
    const sentences = lacking.map(({ column }) => `Choose the column that holds ${column.name}.`);
    if (rows > 0 && leftOut === rows) sentences.push("Every row is left out by your rules.");
    for (const [one, { count, zeros, high, first }] of wrong) {
      const { column } = one;
      const based = column.low === 1 && zeros > 0 && (column.high === null || high < column.high);
      one.box.hidden = !based && one.shift === 0;
      if (count === 0) continue;
      const [line, value, says] = first;
      const quoted = value === "" ? "a cell" : `“${value.slice(0, 40)}”`;
      const where = line === null ? "what you typed" : `line ${line.toLocaleString("en")}`;
      const others = (count - 1).toLocaleString("en");
      const more = count === 1 ? "" : count === 2 ? "; one more is wrong" : `; ${others} more are wrong`;
      sentences.push(
        `${column.name}: ${quoted} in ${where} ${says}${more}.` +
          (based ? " It is counted from 1 here; yours looks counted from 0: tick the box above, or change the file." : ""),
      );
    }
    if (ragged.count) {
      sentences.push(
        `Line ${ragged.line.toLocaleString("en")} has ${ragged.found} cells, and the first line ${this.head.names.length}` +
          (ragged.count === 1 ? "." : `; so have ${(ragged.count - 1).toLocaleString("en")} more lines another number than the first.`),
      );
    }
    const size = `${rows.toLocaleString("en")} row${rows === 1 ? "" : "s"}`;
    this.status.textContent = sentences.length
      ? `${size}; the server would refuse this file. Nothing has been sent.`
      : `${size}, and every cell is of the right form.` +
        (leftOut ? ` ${leftOut.toLocaleString("en")} of them ${leftOut === 1 ? "is" : "are"} left out by your rules; only you are told so.` : "");
    this.status.className = sentences.length ? "notice refused" : "notice done";
    this.faults.replaceChildren(...sentences.map((text) => made("li", {}, text)));
    for (const { column, label } of rows > 1 ? alone : []) {
      const says =
        `Every row has another ${column.name} in ${label}. Where people have several rows, another column says whose they are: ` +
        "by this one each row would be hidden for itself, and nobody’s rows together.";
      this.faults.append(made("li", {}, says));
    }
    this.panel.dataset.checked = sentences.length ? "wrong" : "right";
  }

  tell(plan, lacking) {
    delete this.panel.dataset.checked;
    this.status.className = "";
    this.status.textContent = "Looking at your file …";
    this.faults.replaceChildren();
    const names = plan.map(({ column }) => column.name).join(", ");
    const used = new Set(plan.map(({ place }) => place));
    const left = this.head.names.filter((_, place) => !used.has(place));
    this.sent.textContent = lacking.length
      ? ""
      : this.isRight(plan)
        ? "The file will be sent as it is."
        : `What will be sent is ${names}, as columns of these names` +
          (left.length ? `; ${left.join(", ")} ${left.length === 1 ? "stays" : "stay"} on this machine.` : ".");
  }

  // Whether the file is what the server takes, without a change.
  isRight(plan) {
    const { names, headless, separator } = this.head;
    return (
      !headless &&
      separator === "," &&
      !this.rules.isNeeded &&
      plan.length === names.length &&
      plan.every(({ column, place, shift }) => place !== null && shift === 0 && names[place] === column.name)
    );
  }

  show(rows, plan) {
    const { names } = this.head;
    const called = new Map(plan.filter(({ place }) => place !== null).map(({ column, place }) => [place, column.name]));
    const heads = names.map((name, place) =>
      made("th", { scope: "col" }, name, ...(called.has(place) ? [made("br"), made("span", { className: "tag good" }, called.get(place))] : [])),
    );
    const body = rows.map(([line, values, faults]) =>
      made(
        "tr",
        {},
        made("th", { scope: "row", className: "number" }, String(line)),
        ...names.map((_, place) => {
          const value = (values[place] ?? "").slice(0, 60);
          return faults.has(place)
            ? made("td", { className: "wrong" }, made("b", {}, value || "–"), made("br"), made("small", {}, faults.get(place)))
            : made("td", {}, value);
        }),
      ),
    );
    this.shown.replaceChildren(
      made(
        "table",
        { className: "dense" },
        made("caption", {}, "The first rows, then those in which something is wrong"),
        made("thead", {}, made("tr", {}, made("th", { scope: "col" }, "Line"), ...heads)),
        made("tbody", {}, ...body),
      ),
    );
  }

  // Before the form is sent: the file with the columns that were chosen, unless it is right as it is.
  async send(event) {
    if (!this.head || this.ready || this.isRight(this.plan())) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const turn = ++this.turn;
    const { submitter } = event;
    this.status.textContent = "Putting the columns in order …";
    try {
      const ready = await this.written(this.plan(), () => turn !== this.turn);
      if (turn !== this.turn) return;
      this.ready = ready;
    } catch (error) {
      this.status.textContent = unreadable(error);
      return;
    }
    this.form.requestSubmit(submitter);
  }

  async written(plan, isStale) {
    const { separator, headless } = this.head;
    const parts = [];
    let text = `${plan.map(({ column }) => column.name).join(",")}\n`;
    let skipped = headless;
    for await (const batch of batches(this.file, isStale)) {
      for (const [, record] of batch) {
        if (!skipped) {
          skipped = true;
          continue;
        }
        const values = cells(record, separator);
        const found = plan.map((one) => cell(one, values, separator, this.rules));
        if (!found.includes(LEFT_OUT)) text += `${found.join(",")}\n`;
      }
      if (text.length > PIECE_CHARACTERS) {
        parts.push(new Blob([text]));
        text = "";
      }
    }
    return new Blob([...parts, text], { type: "text/csv" });
  }
}

function cell({ column, place, value, shift }, values, separator, rules) {
  const own = place === null ? value : (values[place] ?? "").trim();
  const read = place === null ? own : rules.value(column, own);
  if (read === LEFT_OUT) return LEFT_OUT;
  const text = read.says ? own : read;
  if (column.holds === "integers" || column.holds === "numbers") {
    const figure = number(text, separator);
    if (Number.isNaN(figure)) return quoted(text);
    if (shift) return String(figure + shift);
    return separator === "," ? text : text.replace(",", ".");
  }
  return quoted(text);
}

function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function unreadable(error) {
  const why = error instanceof TypeError ? "it is not text in UTF-8; save it again as “CSV UTF-8”" : error.message;
  return `This file cannot be read as CSV: ${why}.`;
}

const panel = document.querySelector("[data-columns]");
if (panel) new Table(panel);
