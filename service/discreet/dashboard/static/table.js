// The owner's file, checked only in this browser: which column is which, and every wrong cell, before anything
// is sent. The upload has the columns that the dataset needs, under their names, and no others; a file that is
// already right is sent unchanged. Without this script the form sends the chosen file.

import { halves, holdsTimes, isClock, isHalf, joined } from "./day_and_clock.js";
import { fromText } from "./fields.js";
import { isNever, LEFT_OUT, Rules } from "./table_rules.js";
import { batches, beginning, cells, inUtf8, isMissing, number, quoted, SHOWN_ROWS, unreadable } from "./table_text.js";
import { Visits } from "./visits.js";
import { Wide } from "./wide.js";

const SHOWN_FAULTS = 12;
const REMEMBERED = 100_000; // names of people, until one is repeated
const PIECE_CHARACTERS = 1 << 22; // of rewritten text
const ABSENT = "absent";
const FIXED = "fixed";
const EMPTY = "is empty";

// Values --------------------------------------------------------------------------------------------------------------

// The error of a value, in words; null if there is none.
function fault(column, value, separator, shift) {
  if (isMissing(value)) return EMPTY;
  if (column.holds === "names") return null;
  if (column.holds === "truths") return /^(true|false|0|1)$/i.test(value) ? null : "is not true or false";
  if (column.holds === "times") {
    return /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?( ?(Z|[+-]\d\d:?\d\d))?$/.test(value)
      ? null
      : "is not a time such as 2026-11-21T15:00:00+01:00";
  }
  if (column.holds === "days") return /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$/.test(value) ? null : "is not a day such as 2026-10-01";
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
  const letters = name.normalize("NFD").replaceAll(/\p{M}/gu, "").replaceAll("ß", "ss"); // Zähler is zahler
  return letters.toLowerCase().replaceAll(/[^a-z0-9]+/g, "_").replaceAll(/^_|_$/g, "");
}

// The likeliest column of a file for each needed one: by its exact name, by another word for it, by a part of it. A
// plain `id` is the last choice for a person: if it numbers the rows, each would be another person.
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
      const place = plains.findIndex((name, at) => !taken.has(at) && !isNever(column, names[at]) && fits(column, name));
      if (place < 0) continue;
      taken.add(place);
      chosen.set(column, String(place));
    }
  }
  const asked = (column) => doubted(column, names) !== null;
  return columns.map((column) => chosen.get(column) ?? (column.needed ? (column.usual ? FIXED : "") : asked(column) ? "" : ABSENT));
}

// A name in the file that may mean the column or something else; null if there is none. The user is asked.
function doubted(column, names) {
  return names.find((name) => plain(name).split("_").some((word) => column.doubtful.includes(word))) ?? null;
}

// The same guesses, but what would be the same in every row is asked for where a column of numbers is left that may be it:
// trips that are all counted as one would look right. Numbers of rows, one after the other, are no such column.
function asking(guesses, columns, { names, rows, separator }) {
  const records = rows.map((row) => cells(row, separator));
  const isLeft = names.some((_, at) => {
    const own = records.map((row) => (row[at] ?? "").trim()).filter((one) => !isMissing(one)).map((one) => number(one, separator));
    const isRunning = own.length > 1 && own.every((one, row) => row === 0 || one === own[row - 1] + 1);
    return !guesses.includes(String(at)) && own.length > 0 && !isRunning && !own.some(Number.isNaN);
  });
  return guesses.map((one, at) => (isLeft && one === FIXED && columns[at].usual ? "" : one));
}

// What `discreet_client.tables` says of a column that tells whose a row is, and something else too: the first such one.
function shared(plan) {
  const owner = plan.find(({ column }) => column.owner);
  const other = owner && plan.find((one) => one !== owner && [one.place, one.clock].includes(owner.place));
  if (!other) return [];
  return [`The column ${owner.label} is named for ${owner.column.name} and for ${other.column.name}: whose a row is stands in a column of its own.`];
}

// The layout with most of its needed columns found by name; the first of equals.
function likeliest(layouts, { names, rows, separator }) {
  const isFigure = (text) => isMissing(text.trim()) || !Number.isNaN(number(text.trim(), separator));
  const share = ({ columns, reads }) => {
    if (reads === "wide" && !isWide(cells(rows[0] ?? "", separator), isFigure)) return -1;
    const guesses = guess(columns, names);
    const needed = (reads === "wide" ? columns.slice(0, -1) : columns).flatMap((column, at) => (column.needed ? [guesses[at]] : []));
    return needed.filter((one) => one !== "").length / needed.length;
  };
  return layouts.reduce((best, one) => (share(one) > share(best) ? one : best));
}

// More columns than one reading has, and figures in all but one of them, or but a day and its clock.
const isWide = (first, isFigure) => first.length > 3 && first.filter((one) => !isFigure(one) && !isClock(one.trim())).length <= 1;
const shifted = (text, shift) => (shift ? String(Number(text) + shift) : text);
const shortened = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value));

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
    this.layouts = JSON.parse(panel.dataset.layouts);
    this.form = panel.closest("form");
    this.input = this.form.querySelector("input[type=file]");
    this.input.accept += ",.tsv,.txt";
    this.turn = 0; // number of the current check; earlier ones stop
    this.ready = null; // what is sent instead of the file
    this.names = null; // of the columns in the panel
    this.input.addEventListener("change", () => this.open());
    this.form.addEventListener("submit", (event) => this.send(event), { capture: true });
    this.form.addEventListener("formdata", (event) => {
      const sent = this.ready ?? (this.file === this.input.files[0] ? null : this.file);
      if (sent) event.formData.set("content", sent, this.file.name.replace(/\.[^.]*$/, ".csv"));
    });
    this.form.placeOf = (row, name) => this.placeOf(row, name);
    if (this.input.files.length) this.open();
  }

  async open() {
    const turn = ++this.turn;
    const before = { names: this.names, shown: [...this.panel.childNodes] };
    [this.file] = this.input.files;
    this.ready = null;
    this.head = null;
    this.names = null;
    this.panel.replaceChildren();
    this.panel.hidden = true;
    if (!this.file || !/\.(csv|tsv|txt)$/i.test(this.file.name)) return;
    this.panel.hidden = false;
    let written = "";
    try {
      const read = await inUtf8(this.file);
      const head = await beginning(read.file);
      if (turn !== this.turn) return;
      this.head = head;
      this.file = read.file;
      written = read.written;
    } catch (error) {
      this.panel.append(made("p", { className: "notice refused" }, unreadable(error)));
      return;
    }
    if (before.names?.join("\n") === this.head.names.join("\n")) {
      this.names = before.names; // the same file, corrected: the choices stay
      this.panel.replaceChildren(...before.shown);
    } else {
      this.build(likeliest(this.layouts, this.head));
    }
    this.panel.querySelector(".written")?.remove();
    if (written) this.panel.prepend(made("p", { className: "note written" }, `This file is written in ${written}; it is sent in UTF-8.`));
    this.check();
  }

  build(layout) {
    this.names = this.head.names;
    const isWide = layout.reads === "wide";
    const columns = isWide ? layout.columns.slice(0, -1) : layout.columns;
    const guesses = asking(guess(columns, this.head.names), columns, this.head);
    this.wide = isWide ? new Wide(layout, this.head.names, () => this.check()) : null;
    this.controls = columns.map((column, place) => this.control(column, place, guesses[place]));
    this.halve();
    this.rules = new Rules(() => this.check(), JSON.parse(panel.dataset.roads ?? "[]"));
    this.reader = layout.reads === "visits" ? new Visits(layout, this.head.names, () => this.check()) : null;
    const shape = made("select", { id: "layout" }, ...this.layouts.map(({ row }, at) => made("option", { value: String(at), textContent: row })));
    shape.value = String(this.layouts.indexOf(layout));
    shape.addEventListener("change", () => {
      this.build(this.layouts[Number(shape.value)]);
      this.panel.querySelector("#layout").focus();
      this.check();
    });
    this.status = made("p", { role: "status" });
    this.status.setAttribute("aria-live", "polite");
    this.faults = made("ul", { className: "faults" });
    this.sent = made("p", { className: "note" });
    this.shown = made("div", { className: "scroll", tabIndex: 0, role: "region" });
    this.shown.setAttribute("aria-label", "Rows of your file");
    this.preview = made("div", { className: "scroll", tabIndex: 0, role: "region", hidden: true });
    this.preview.setAttribute("aria-label", "What will be sent");
    this.panel.replaceChildren(
      made("h3", {}, "Your file, as only this browser sees it"),
      made("p", { className: "note" }, "Nothing has been sent yet. Say which of its columns is which."),
      ...(this.layouts.length > 1 ? [made("label", { htmlFor: "layout" }, "A row of it is"), shape] : []),
      made("div", { className: "pair mapping" }, ...this.controls.map((one) => one.element)),
      this.rules.element,
      ...[this.reader, this.wide].filter(Boolean).map((one) => one.element),
      this.status,
      this.faults,
      this.sent,
      this.preview,
      this.shown,
    );
  }

  control(column, place, guessed) {
    const id = `column-${place}`;
    const option = (value, text) => made("option", { value, textContent: text });
    const select = made(
      "select",
      { id, required: column.needed || guessed === "" },
      option("", "choose …"),
      ...this.head.names.map((name, at) => option(String(at), name)),
      ...(column.owner ? [] : [option(FIXED, "the same in every row")]), // all rows would be one person
      ...(column.needed ? [] : [option(ABSENT, "not in my file")]),
    );
    select.value = guessed;
    const fixed = made("input", { id: `${id}-fixed`, value: column.usual, hidden: guessed !== FIXED });
    fixed.setAttribute("aria-label", `${column.name} of every row`);
    const add = made("input", { type: "checkbox", id: `${id}-add` });
    const shift = made("p", { hidden: true }, add, " ", made("label", { htmlFor: add.id }, "Add 1 to each of them in what is sent"));
    const clock = holdsTimes(column)
      ? made("select", { id: `${id}-clock` }, option("", "in the same column"), ...this.head.names.map((name, at) => option(String(at), name)))
      : null;
    const day = made("div", { hidden: true }, ...(clock ? [made("label", { htmlFor: clock.id }, "Its time of day"), clock] : []));
    const limits = column.low === null && column.high === null ? "" : `; ${range(column)}`;
    const note = made("p", { className: "note", id: `${id}-note` }, `${column.says}${limits}.`);
    select.setAttribute("aria-describedby", note.id);
    const changed = () => {
      fixed.hidden = select.value !== FIXED;
      if (select.value === "" || select.value === FIXED) [add.checked, shift.hidden] = [false, true];
      this.check();
    };
    select.addEventListener("change", () => {
      this.halve();
      changed();
    });
    clock?.addEventListener("change", changed);
    fixed.addEventListener("input", changed);
    add.addEventListener("change", () => this.check());
    const label = made("label", { htmlFor: id }, made("code", {}, column.name), column.needed ? "" : " (optional)");
    return { column, select, fixed, add, shift, clock, day, element: made("div", {}, label, select, fixed, day, note, shift) };
  }

  // Shows the choice of a column for times of day, proposed if days and times seem to be in two columns.
  halve() {
    const rows = this.head.rows.map((row) => cells(row, this.head.separator));
    const isPlace = ({ value }) => value !== "" && value !== ABSENT && value !== FIXED;
    for (const one of this.controls) {
      if (one.clock === null) continue;
      const chosen = isPlace(one.select) ? Number(one.select.value) : null;
      if (chosen === one.halved) continue; // unchanged: the choice of its clock stays
      const others = new Set(this.controls.filter((other) => other !== one && isPlace(other.select)).map(({ select }) => Number(select.value)));
      const found = chosen === null ? null : halves(rows, this.head.names.length, chosen, others);
      if (found) [one.select.value, one.clock.value] = found.map(String);
      else one.clock.value = "";
      one.halved = found ? found[0] : chosen;
      const own = chosen === null ? [] : rows.map((row) => (row[chosen] ?? "").trim());
      one.day.hidden = !found && !own.some(isHalf);
      one.isDay = own.some((text) => isHalf(text) && !isClock(text));
    }
  }

  // The values of the controls: for each column that is sent its position in the file or its fixed value, and the addend.
  plan() {
    const chosen = this.controls
      .filter(({ select }) => select.value !== ABSENT && select.value !== "")
      .map(({ column, select, fixed, add, shift, clock }) => ({
        column,
        box: shift,
        place: select.value === FIXED ? null : Number(select.value),
        clock: select.value === FIXED || !clock?.value || clock.value === select.value ? null : Number(clock.value),
        value: fixed.value.trim(),
        shift: add.checked ? 1 : 0,
        label: select.value === FIXED ? "what you typed" : this.head.names[Number(select.value)],
      }));
    return this.wide ? this.wide.plan(chosen) : chosen;
  }

  async check() {
    const turn = ++this.turn;
    const isStale = () => turn !== this.turn;
    this.ready = null;
    const plan = this.plan();
    this.rules.suit(
      plan,
      (one) => this.head.rows.map((row) => joined(cells(row, this.head.separator), one)).filter(Boolean),
      (text) => !Number.isNaN(number(text, this.head.separator)),
    );
    this.reader?.suit(plan, this.rules.dates.value);
    this.rules.begin();
    const whose = plan.find(({ column }) => column.owner)?.place ?? null;
    const lacking = this.controls.filter(({ select }) => select.value === "" && select.required);
    const wrong = new Map(plan.map((one) => [one, { count: 0, zeros: 0, high: -Infinity, first: null }]));
    const owners = new Map(plan.filter(({ column }) => column.owner).map((one) => [one, new Set()])); // until a name comes again
    const marked = []; // [line, cells, faults by place, what is sent by place] of the rows that are shown
    const ragged = { count: 0, line: 0, found: 0 };
    const width = this.head.names.length;
    let rows = 0;
    let leftOut = 0;
    let isWhole = !lacking.length; // so far: a reader needs every column that is needed
    this.tell(plan, lacking);
    this.show([], plan);
    for (const one of plan.filter(({ place }) => place === null)) {
      const says = this.faultOf(one, one.value);
      if (says) Object.assign(wrong.get(one), { count: 1, first: [null, one.value, says] });
    }
    const looked = plan.filter(({ place }) => place !== null);
    const fixed = plan.filter(({ place }) => place === null).map(({ column, value }) => [column.name, value]);
    let said = performance.now();
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
          this.rules.row(whose === null ? "" : (values[whose] ?? "").trim(), line);
          const all = looked.map((one) => [one, this.rules.value(one.column, joined(values, one), this.head.separator)]);
          const read = all.filter(([, value]) => value !== LEFT_OUT);
          if (this.wide) leftOut += all.length - read.length;
          else if (read.length < all.length) {
            leftOut += 1;
            continue;
          }
          for (const [one, found] of read) {
            const value = found.says ? joined(values, one) : found;
            const figure = Number(value);
            const state = wrong.get(one);
            const seen = owners.get(one);
            if (seen?.has(value)) owners.delete(one);
            else if (seen?.size < REMEMBERED) seen.add(value);
            if (figure > state.high) state.high = figure;
            const says = found.says ?? this.faultOf(one, value);
            if (says === null) continue;
            if (figure === 0 && value !== "") state.zeros += 1;
            state.count += 1;
            state.first ??= [line, value, says];
            faults.set(one.place, says);
          }
          if (faults.size || values.length !== width) isWhole = false;
          else if (isWhole) this.reader?.add(line, new Map([...fixed, ...read.map(([{ column, shift }, text]) => [column.name, shifted(text, shift)])]), this.head.separator, values);
          const isFirst = (this.wide ? rows : rows - leftOut) <= SHOWN_ROWS;
          const isWrong = faults.size > 0 || values.length !== width;
          if (isFirst || (isWrong && marked.length < SHOWN_ROWS + SHOWN_FAULTS)) {
            marked.push([line, values, faults, new Map(read.map(([one, found]) => [one.place, this.becomes(one, joined(values, one), found)]))]);
          }
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
    const found = this.reader && isWhole && !lacking.length ? this.reader.conclude() : { sentences: (this.reader ?? this.wide)?.wrong ?? [], notes: [] };
    found.sentences = [...found.sentences, ...this.rules.conclude()];
    this.conclude(plan, wrong, ragged, lacking, rows, leftOut, [...owners.keys()], found);
    this.show(marked, plan);
  }

  faultOf({ column, shift }, value) {
    const own = this.reader?.fault(column, value);
    return own === undefined ? fault(column, value, this.head.separator, shift) : own;
  }

  conclude(plan, wrong, ragged, lacking, rows, leftOut, alone, found) {
    const asks = ({ column }) =>
      column.needed
        ? `Choose the column that holds ${column.name}.`
        : `Say whether “${doubted(column, this.head.names)}” is the column that holds ${column.name}, or that it is not in your file.`;
    const twice = shared(plan);
    const sentences = [...lacking.map(asks), ...twice, ...found.sentences];
    const isOften = this.rules.hours !== null && this.rules.hours < 24; // readings are several a day
    for (const { halved } of this.controls.filter(({ clock, isDay }) => isOften && isDay && clock.value === ""))
      sentences.push(`“${this.head.names[halved]}” says the day and no time: choose the column with its time of day.`);
    const units = this.wide ? rows * plan.filter(({ box }) => box === null).length : rows; // that may be left out
    if (rows > 0 && leftOut === units) sentences.push("Every row is left out by your rules.");
    for (const [one, { count, zeros, high, first }] of wrong) {
      const { column } = one;
      const based = column.low === 1 && zeros > 0 && (column.high === null || high < column.high);
      if (one.box) one.box.hidden = !based && one.shift === 0;
      if (count === 0) continue;
      const [line, value, says] = first;
      const quoted = value === "" ? "a cell" : `“${value.slice(0, 40)}”`;
      const where = line === null ? "what you typed" : `line ${line.toLocaleString("en")}`;
      const others = (count - 1).toLocaleString("en");
      const more = count === 1 ? "" : count === 2 ? "; one more is wrong" : `; ${others} more are wrong`;
      sentences.push(
        `${one.box ? column.name : one.label}: ${quoted} in ${where} ${says}${more}.` +
          (based ? " It is counted from 1 here; yours looks counted from 0: tick the box above, or change the file." : "") +
          (column.gaps && says === EMPTY ? " Readings without a value may be left out: tick the box above." : ""),
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
      ? `${size}; ${twice.length ? "it cannot be sent so" : "the server would refuse this file"}. Nothing has been sent.`
      : `${size}, and every cell is of the right form.` +
        (leftOut
          ? ` ${leftOut.toLocaleString("en")} of ${units.toLocaleString("en")} ${this.wide ? "readings" : "rows"} ${leftOut === 1 ? "is" : "are"} left out by your rules; only you can see this.`
          : "") +
        found.notes.map((note) => ` ${note.slice(0, 1).toUpperCase()}${note.slice(1)}.`).join("");
    this.status.className = sentences.length ? "notice refused" : "notice done";
    this.faults.replaceChildren(...sentences.map((text) => made("li", {}, text)));
    for (const { column, label } of rows > 1 ? alone : []) {
      const says =
        `Every row has another ${column.name} in ${label}. If people have several rows, another column identifies the people: ` +
        "by this one each row would be protected separately, and not all rows of a person together.";
      this.faults.append(made("li", {}, says));
    }
    this.panel.dataset.checked = sentences.length ? "wrong" : "right";
    if (this.reader) this.foresee(sentences.length > 0);
  }

  // The first rows of the reader's output.
  foresee(isWrong) {
    this.preview.hidden = isWrong;
    if (isWrong) return;
    const rows = [];
    for (const one of this.reader.written()) {
      if (rows.push(one) === SHOWN_ROWS) break;
    }
    this.sent.textContent = `What will be sent is ${this.reader.steps.length.toLocaleString("en")} rows of ${this.reader.header.join(", ")}; your own columns stay on this machine.${this.publishes()}`;
    this.preview.replaceChildren(
      made(
        "table",
        { className: "dense" },
        made("caption", {}, "The first rows of what will be sent"),
        made("thead", {}, made("tr", {}, ...this.reader.header.map((name) => made("th", { scope: "col", className: "number" }, name)))),
        made("tbody", {}, ...rows.map(([, row]) => made("tr", {}, ...row.map((one) => made("td", { className: "number" }, shortened(one)))))),
      ),
    );
  }

  tell(plan, lacking) {
    delete this.panel.dataset.checked;
    this.preview.hidden = true;
    this.status.className = "";
    this.status.textContent = "Looking at your file …";
    this.faults.replaceChildren();
    const names = (this.wide ? this.wide.header(plan) : plan.map(({ column }) => column.name)).join(", ");
    const used = new Set(plan.flatMap(({ place, clock }) => [place, clock]));
    const left = this.head.names.filter((_, place) => !used.has(place));
    this.sent.textContent = lacking.length || this.reader
      ? ""
      : this.isRight(plan)
        ? "The file will be sent as it is."
        : `What will be sent is ${names}, as columns of these names` +
          (left.length ? `; ${left.join(", ")} ${left.length === 1 ? "stays" : "stay"} on this machine.` : ".");
  }

  // Whether the server accepts the file unchanged.
  isRight(plan) {
    const { names, headless, separator } = this.head;
    return (
      !headless &&
      separator === "," &&
      !this.rules.isNeeded &&
      !this.reader &&
      !this.wide &&
      plan.length === names.length &&
      plan.every(({ column, place, clock, shift }) => place !== null && clock === null && shift === 0 && names[place] === column.name)
    );
  }

  // In words, the value sent for a cell that a rule changes; none if it is sent as written.
  becomes({ column, shift }, text, found) {
    if (found.says || (found === text && shift === 0)) return "";
    const sent = shifted(found, shift);
    return column.hours !== null && this.rules.isEnergy ? `${shortened(Number(sent))} kW` : sent;
  }

  show(rows, plan) {
    const { names } = this.head;
    const called = new Map(plan.flatMap(({ column, place, clock }) => [place, clock].filter((one) => one != null).map((one) => [one, column.name])));
    const heads = names.map((name, place) =>
      made("th", { scope: "col" }, name, ...(called.has(place) ? [made("br"), made("span", { className: "tag good" }, called.get(place))] : [])),
    );
    const body = rows.map(([line, values, faults, sent]) =>
      made(
        "tr",
        {},
        made("th", { scope: "row", className: "number" }, String(line)),
        ...names.map((_, place) => {
          const value = (values[place] ?? "").slice(0, 60);
          return faults.has(place)
            ? made("td", { className: "wrong" }, made("b", {}, value || "–"), made("br"), made("small", {}, faults.get(place)))
            : made("td", {}, value, ...(sent.get(place) ? [made("br"), made("small", { className: "note" }, `sent as ${sent.get(place)}`)] : []));
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
    const { submitter } = event;
    if (this.reader ? this.panel.dataset.checked !== "right" : shared(this.plan()).length) {
      this.status.scrollIntoView({ block: "center" }); // there is nothing to send
      return;
    }
    if (this.reader) {
      this.publish();
      this.ready = this.made();
      setTimeout(() => this.form.requestSubmit(submitter)); // not during the current submit event
      return;
    }
    const turn = ++this.turn;
    const before = this.status.textContent;
    this.status.textContent = "Putting the columns in order …";
    try {
      const ready = await this.written(this.plan(), () => turn !== this.turn);
      if (turn !== this.turn) return;
      this.ready = ready;
      this.status.textContent = before; // the server's message is next to it
    } catch (error) {
      this.status.textContent = unreadable(error);
      return;
    }
    this.form.requestSubmit(submitter);
  }

  publishes() {
    const said = Object.entries(this.reader.published ?? {}).map(([name, value]) => `${name} ${value}`);
    return said.length ? ` Also published, since it follows from the rules: ${said.join(", ")}.` : "";
  }

  // If the public part has the same value, its text is kept.
  publish() {
    const { metadata } = this.form.elements;
    this.metadata ??= metadata.value;
    const told = fromText(this.metadata);
    metadata.value = JSON.stringify({ ...told, public: { ...this.reader.published, ...told.public } });
  }

  // The output of the reader, as a file.
  made() {
    const parts = [];
    let text = `${this.reader.header.join(",")}\n`;
    for (const [, row] of this.reader.written()) {
      text += `${row.join(",")}\n`;
      if (text.length > PIECE_CHARACTERS) {
        parts.push(new Blob([text]));
        text = "";
      }
    }
    return new Blob([...parts, text], { type: "text/csv" });
  }

  async written(plan, isStale) {
    const parts = [];
    const header = this.wide ? this.wide.header(plan) : plan.map(({ column }) => column.name);
    let text = `${header.join(",")}\n`;
    for await (const rows of this.rows(plan, isStale)) {
      for (const { found } of rows) text += `${found.join(",")}\n`;
      if (text.length > PIECE_CHARACTERS) {
        parts.push(new Blob([text]));
        text = "";
      }
    }
    return new Blob([...parts, text], { type: "text/csv" });
  }

  // The rows that are sent, in batches, with the line of the file that each comes from and, in a wide one, its column.
  async *rows(plan, isStale) {
    const { separator, headless } = this.head;
    const whose = plan.find(({ column }) => column.owner)?.place ?? null;
    this.rules.begin();
    let skipped = headless;
    for await (const batch of batches(this.file, isStale)) {
      const rows = [];
      for (const [line, record] of batch) {
        if (!skipped) {
          skipped = true;
          continue;
        }
        const values = cells(record, separator);
        this.rules.row(whose === null ? "" : (values[whose] ?? "").trim(), line);
        const found = plan.map((one) => cell(one, values, separator, this.rules));
        if (this.wide) {
          for (const [row, label] of this.wide.rows(plan, found, (one) => one === LEFT_OUT)) rows.push({ line, found: row, label });
        } else if (!found.includes(LEFT_OUT)) rows.push({ line, found });
      }
      yield rows;
    }
  }

  // The position of a refused row in the owner's file, which `live.js` shows instead of the row's number.
  async placeOf(row, name) {
    if (!this.head) return null;
    const plan = this.plan();
    const told = (line, label) => `line ${line.toLocaleString("en")}${label ? `, column ${label}` : ""}`;
    const own = plan.find(({ column, box }) => column.name === name && box)?.label;
    let before = 0;
    if (this.reader) {
      for (const [line] of this.reader.written()) if (before++ === row) return told(line, own);
      return null;
    }
    for await (const rows of this.rows(plan, () => false)) {
      if (row < before + rows.length) return told(rows[row - before].line, rows[row - before].label ?? own);
      before += rows.length;
    }
    return null;
  }
}

function cell({ column, place, clock, value, shift }, values, separator, rules) {
  const own = place === null ? value : joined(values, { place, clock });
  const read = place === null ? own : rules.value(column, own, separator);
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

const panel = document.querySelector("[data-layouts]");
if (panel) new Table(panel);
