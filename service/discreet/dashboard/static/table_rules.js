// Rules that convert a file as people have it to the form of a dataset: zones by their names, times of the clock in
// place of periods, dates as spreadsheets write them. They are public choices, and the result for a row follows from it
// alone: neighbouring datasets stay neighbours. Only the result of the rules is sent.

import { element } from "./fields.js";
import { PlaceClock } from "./place_clock.js";
import { isMissing, number } from "./table_text.js";

export const LEFT_OUT = Symbol("left out");

const ENERGY = /(^|[^a-z])[km]?wh($|[^a-z])/i; // as `meters.is_energy` of the client has it
const MINUTE = 60_000;
const EVERY = { day: 1440 * MINUTE, weekday: 1440 * MINUTE, week: 7 * 1440 * MINUTE };
const DAY = /^\d{4}-\d\d-\d\d/;
const OFFSET = /^(Z|[+-]\d\d:?\d\d)$/;
const ZONED = /[T ]\d\d:\d\d\S{0,20} ?(Z|[+-]\d\d:?\d\d)$/;
const WRITTEN = /^(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(?: *([ap])m)?)?$/i;

// Milliseconds of a clock as if it were in UTC; null for a text that is not a time, or whose slashes leave the day ambiguous.
export function clock(text, dates) {
  const [, first, mark, second, third, hours = "0", minutes = "0", seconds = "0", half] = WRITTEN.exec(text) ?? [];
  if (!mark || (mark === "/" && !dates)) return null;
  const [year, month, day] =
    mark === "-" ? [first, second, third] : mark === "/" && dates === "month_first" ? [third, first, second] : [third, second, first];
  const hour = half ? (Number(hours) % 12) + (half.toLowerCase() === "p" ? 12 : 0) : Number(hours);
  if (year.length !== 4 || hour > 23 || Number(minutes) > 59 || Number(seconds) > 59) return null;
  const found = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day), hour, Number(minutes), Number(seconds)));
  return found.getUTCMonth() === Number(month) - 1 && found.getUTCDate() === Number(day) ? found.getTime() : null;
}

// Whether a name is never proposed for a column: by one of its words or, if longer than four letters, a part of it.
export function isNever(column, name) {
  const words = name.toLowerCase().split(/[^a-z0-9]+/);
  return column.never.some((word) => (word.length > 4 ? name.toLowerCase().includes(word) : words.includes(word)));
}

// Why a text is not a time, in words. `such`: an example.
export function noTime(text, dates, such) {
  return text.includes("/") && !dates
    ? "may begin with the day or the month: say above which"
    : `is not a ${such.includes(" ") ? "time" : "date"} such as ${such} or 21.11.2026 15:00`;
}

// {at, isZoned}: the time of a text in milliseconds since 1970, in UTC or by a clock without a time zone; or null.
export function instant(text, dates) {
  const zone = ZONED.exec(text)?.[1] ?? "";
  const time = clock(text.slice(0, text.length - zone.length).trim(), dates);
  const [, sign, hours = "0", minutes = "0"] = /^([+-])(\d\d):?(\d\d)$/.exec(zone) ?? [];
  const east = (Number(hours) * 60 + Number(minutes)) * MINUTE * (sign === "-" ? -1 : 1);
  return time === null ? null : { at: time - east, isZoned: zone !== "" };
}

export function labelled(text, control, note = "") {
  const help = note ? [element("p", { className: "note", id: `${control.id}-note` }, note)] : [];
  if (note) control.setAttribute("aria-describedby", `${control.id}-note`);
  return element("div", {}, element("label", { htmlFor: control.id }, text), control, ...help);
}

export function choice(id, options) {
  return element("select", { id }, ...options.map(([value, text]) => element("option", { value }, text)));
}

export class Rules {
  // `changed` is called after every change of a rule. `roads`: id and name of stored networks, whose nodes may name zones.
  constructor(changed, roads = []) {
    this.ways = new Map(); // by column: how its cells are read; no entry if they have the form of the dataset
    this.numbers = new Map(); // of zones, by name
    this.zones = element("textarea", { id: "rule-zones", rows: 6, spellcheck: false });
    this.roads = choice("rule-roads", [["", "choose …"], ...roads]);
    this.most = 0; // zones of the public part
    this.start = element("input", { id: "rule-start", type: "datetime-local" });
    this.every = choice("rule-every", [
      ["day", "each day at this time"],
      ["weekday", "each day from Monday to Friday"],
      ["week", "each week at this time"],
      ["", "one after the other"],
    ]);
    this.dates = choice("rule-dates", [
      ["", "choose …"],
      ["day_first", "1 February: the day first"],
      ["month_first", "January 2: the month first"],
    ]);
    this.offset = element("input", { id: "rule-offset", placeholder: "+01:00 or Europe/Berlin" });
    this.units = choice("rule-units", [
      ["", "choose …"],
      ["kW", "power, in kW"],
      ["kWh", "energy of one period each, in kWh"],
    ]);
    this.place = null; // the clock of a place that was named instead of an offset
    this.owner = ""; // the owner of the row that is being read, and its line
    this.line = 0;
    this.elsewhere = element("input", { id: "rule-elsewhere", type: "checkbox" });
    const length = "Zone 1 is the first, and the network’s first node. Paste a column of your list of zones.";
    this.lacking = element("input", { id: "rule-lacking", type: "checkbox", "aria-describedby": "rule-lacking-note" });
    this.gaps = ""; // the treatment of values that a column lacks; empty if none may be missing
    this.becomes = element("span", { className: "note", id: "rule-lacking-note" });
    this.parts = {
      zones: [
        ...(roads.length ? [labelled("Zones have the names of a stored network’s nodes", this.roads, "Fills the list with the names of its first nodes.")] : []),
        labelled("Your zones by name, one per line", this.zones, length),
      ],
      dates: [labelled("In your file 01/02/2026 is", this.dates)],
      clock: [labelled("Period 0 begins", this.start), labelled("The others begin", this.every)],
      offset: [labelled("Offset of your clocks from UTC", this.offset, "+01:00 is Berlin in winter, −05:00 New York. Where clocks change in between, name the place: Europe/Berlin.")],
      units: [labelled("The values are", this.units, "Energy is divided by the hours of a period, which then must be the time between two readings.")],
      elsewhere: [
        element("p", {}, this.elsewhere, " ", element("label", { htmlFor: "rule-elsewhere" }, "Leave out rows of other zones and other times")),
      ],
      gaps: [
        element("p", {}, this.lacking, " ", element("label", { htmlFor: "rule-lacking" }, "Leave out readings without a value"), this.becomes),
      ],
    };
    const note = "Choose these from public knowledge, without looking at the data.";
    this.element = element(
      "fieldset",
      { hidden: true },
      element("legend", {}, "How your file is to be read"),
      element("p", { className: "note" }, note),
      element("div", { className: "pair mapping" }, ...Object.values(this.parts).flat()),
    );
    this.roads.addEventListener("change", () => this.nameZones());
    for (const control of [this.zones, this.start, this.every, this.dates, this.offset, this.units, this.elsewhere, this.lacking]) {
      control.addEventListener(control.tagName === "SELECT" || control.type === "checkbox" ? "change" : "input", () => {
        const names = this.zones.value.split("\n").map((one) => one.trim());
        const place = this.offset.value.trim();
        if (place !== this.place?.place) this.place = new PlaceClock(place);
        this.numbers = new Map(names.filter(Boolean).map((name, place) => [name, place + 1]));
        changed();
      });
    }
  }

  async nameZones() {
    if (this.roads.value === "") return;
    const answer = await fetch(`/networks/${this.roads.value}/network.json`);
    if (!answer.ok) return;
    const { nodes, node_names: names } = await answer.json();
    const called = names ?? Array.from({ length: nodes }, (_, place) => String(place + 1));
    this.zones.value = called.slice(0, this.most).join("\n");
    this.zones.dispatchEvent(new Event("input"));
  }

  // Shows the rules that these columns need: `first` has the first cells of each, by its position in the file.
  suit(plan, first, isNumber) {
    this.ways.clear();
    let slashes = false;
    this.hours = plan.find(({ column }) => column.hours !== null)?.column.hours ?? null;
    this.most = plan.find(({ column }) => column.named)?.column.high ?? 0;
    const isDoubtful = plan.some(({ column, label }) => column.hours !== null && ENERGY.test(label));
    if (this.hours !== null && isDoubtful !== this.isDoubtful) this.units.value = isDoubtful ? "" : "kW"; // as long as the columns stay
    if (this.hours !== null) this.isDoubtful = isDoubtful;
    for (const one of plan) {
      const { column } = one;
      const cells = one.place === null ? [] : first(one);
      const areWords = cells.filter(isNumber).length < cells.length / 2; // one wrong number does not make names
      if (column.named && areWords) this.ways.set(column, "zones");
      else if (column.minutes !== null && areWords) this.ways.set(column, "clock");
      else if (column.holds === "times" && !cells.every((cell) => ZONED.test(cell))) this.ways.set(column, "offset");
      else if (column.holds === "moments" && areWords) this.ways.set(column, "moment");
      else if (column.holds === "days" && !cells.every((cell) => DAY.test(cell))) this.ways.set(column, "day");
      if (["clock", "offset", "moment", "day"].includes(this.ways.get(column))) slashes ||= cells.some((cell) => cell.includes("/"));
    }
    const ways = new Set(this.ways.values());
    const shown = { zones: ways.has("zones"), dates: slashes, clock: ways.has("clock"), offset: ways.has("offset"), units: this.hours !== null };
    shown.elsewhere = shown.zones || shown.clock;
    this.gaps = plan.find(({ column }) => column.gaps)?.column.gaps ?? "";
    this.becomes.textContent = ` ${this.gaps}`;
    shown.gaps = this.gaps !== "";
    for (const [name, elements] of Object.entries(this.parts)) for (const one of elements) one.hidden = !shown[name];
    this.element.hidden = Object.values(shown).every((one) => !one);
  }

  get isNeeded() {
    return this.ways.size > 0 || (this.gaps !== "" && this.lacking.checked) || this.isEnergy;
  }

  get isEnergy() {
    return this.hours !== null && this.units.value === "kWh";
  }

  // Before the first row of a file; each row has its owner and its line.
  begin() {
    this.place?.begin();
    this.between = new Map(); // by seconds between two readings of the first meter: how often
    this.before = null;
  }

  row(owner, line) {
    [this.owner, this.line] = [owner, line];
  }

  // Sentences about all rows together.
  conclude() {
    const found = this.hours !== null && this.units.value === "" ? ["Say whether the values are power or energy: the name of a column suggests energy (kWh)."] : [];
    const usual = [...this.between].reduce((best, one) => (one[1] > best[1] ? one : best), [null, 0])[0];
    if (this.isEnergy && usual !== null && usual !== this.hours * 3600) {
      found.push(`Most readings are ${usual.toLocaleString("en")} seconds apart, and a period of the public part has ${(this.hours * 3600).toLocaleString("en")}: values in kWh are of one period each.`);
    }
    return [...found, ...(this.place?.isKnown ? this.place.conclude() : [])];
  }

  // How far the readings of the first meter are apart.
  apart(text) {
    const at = this.isEnergy ? instant(text, "") : null;
    if (at === null) return;
    if (this.before === null) this.before = { owner: this.owner, at: at.at };
    if (this.before.owner !== this.owner || this.before.at === at.at) return;
    const seconds = (at.at - this.before.at) / 1000;
    this.between.set(seconds, (this.between.get(seconds) ?? 0) + 1);
    this.before.at = at.at;
  }

  // The value to send for a cell: a text, LEFT_OUT for its whole row, or {says} if a rule is missing or violated.
  value(column, text, separator) {
    const read = this.read(column, text, separator);
    if (column.holds === "times" && typeof read === "string") this.apart(read);
    return read;
  }

  read(column, text, separator) {
    if (column.gaps && this.lacking.checked && isMissing(text)) return LEFT_OUT;
    if (column.hours !== null && this.isEnergy) {
      const energy = number(text, separator);
      return Number.isNaN(energy) ? text : String(energy / column.hours);
    }
    if (text === "" || !this.ways.has(column) || this.ways.get(column) === "moment") return text;
    if (this.ways.get(column) === "zones") return this.zoneOf(text);
    const time = clock(text, this.dates.value);
    if (this.ways.get(column) === "day") {
      return time === null ? { says: noTime(text, this.dates.value, "2026-11-21") } : new Date(time).toISOString().slice(0, 10);
    }
    if (this.ways.get(column) === "offset") return this.momentOf(text, time);
    return this.periodOf(column, time, text);
  }

  zoneOf(name) {
    if (this.numbers.has(name)) return String(this.numbers.get(name));
    if (!this.numbers.size) return { says: "is a name: list your zones above, one per line" };
    return this.elsewhere.checked ? LEFT_OUT : { says: "is not one of the zones that you listed" };
  }

  momentOf(text, time) {
    if (ZONED.test(text)) return text;
    if (time === null) return { says: noTime(text, this.dates.value, "2026-11-21 15:00") };
    if (this.place?.isKnown) {
      const { says, text: zoned } = this.place.moment(time, this.owner, this.line);
      return says ? { says } : zoned;
    }
    const offset = this.offset.value.trim().replace("−", "-");
    if (offset === "") return { says: "has no time zone: give the offset of your clocks from UTC above" };
    if (!OFFSET.test(offset)) return { says: `has no time zone: “${offset.slice(0, 40)}” above is neither an offset, such as +01:00, nor a place, such as Europe/Berlin` };
    return `${new Date(time).toISOString().slice(0, 19)}${offset}`;
  }

  periodOf({ minutes, high }, time, text) {
    if (time === null) return { says: noTime(text, this.dates.value, "2026-11-21 15:00") };
    const begin = clock(this.start.value, "");
    if (begin === null) return { says: "is a time: say above when period 0 begins" };
    const every = EVERY[this.every.value] ?? minutes * MINUTE;
    let period = Math.floor((time - begin) / every);
    let isInside = time - begin - period * every < minutes * MINUTE;
    if (this.every.value === "weekday") {
      const first = (new Date(begin).getUTCDay() + 6) % 7; // 0 is Monday
      if (first > 4) return { says: "is a time: period 0 begins on a Saturday or Sunday above" };
      const weeks = Math.floor((first + period) / 7);
      const day = first + period - 7 * weeks;
      [period, isInside] = [5 * weeks + day - first, isInside && day < 5];
    }
    if (period >= 0 && period <= high && isInside) return String(period);
    return this.elsewhere.checked ? LEFT_OUT : { says: `is in none of the periods 0 to ${high}` };
  }
}
