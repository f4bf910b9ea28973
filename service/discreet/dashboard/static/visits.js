// Visits of patients, one a row, become steps from one visit to the next, here in the owner's browser: no names of
// patients, no dates and no features in their own units are sent. The rules are public, and what becomes of a patient
// follows from them and from that patient's rows alone, as where `discreet_client.patients` reads the same file; a test
// holds the two together.

import { Rule } from "./feature_rules.js";
import { element } from "./fields.js";
import { choice, instant, labelled, noTime } from "./table_rules.js";
import { isMissing, number } from "./table_text.js";

const MOST_VISITS = 2_000_000; // in the memory of a browser
const DAY = 86_400_000;
const TOTAL = /^(sum|summe|total|gesamt|insgesamt|mean|mittel|mittelwert|average|durchschnitt)$/i; // as `discreet_client.names`
const SUM_TOLERANCE = 1e-9;
const LONGEST_WORDS = 200;
const POLICIES = [["behaviour", "probability", "policy that was followed"], ["target", "target", "policy to be evaluated"]];

const TRUE = /^(true|yes|ja|wahr|oui)$/i;
const FALSE = /^(false|no|nein|falsch|non)$/i;
// A probability: a number, or a fraction such as 2/3, as a trial that drew 2 to 1 knows it.
const chanceOf = (text) => {
  const parts = /^([0-9]{1,6})\/([0-9]{1,6})$/.exec(text);
  return parts ? Number(parts[1]) / Number(parts[2]) : number(text, ";");
};

// 1 or 0 of a word for true or false; undefined of any other text.
const truth = (text) => (TRUE.test(text) ? 1 : FALSE.test(text) ? 0 : undefined);

const counted = (count, all, what) => `${count.toLocaleString("en")} of ${all.toLocaleString("en")} ${what}${all === 1 ? "" : "s"}`;

// One name is one person: spaces around it, the form of its accents and the `.0` of integers do not belong to it.
const nameOf = (text) => text.normalize("NFC").trim().replace(/^([+-]?[0-9]+)\.0*$/, "$1");

const lacking = (name, rule) =>
  rule === "carry"
    ? `has no ${name}, and neither has this patient’s visit before: choose above to leave such patients out`
    : `has no ${name}: choose above what becomes of a missing value`;

// `max_ratio` of two policies that are public rules; nothing where a column says one of them.
const largestRatio = (followed, target, rule) => {
  if (followed && rule) return { max_ratio: Math.max(...rule.actions.map((action) => 1 / followed.get(action))) };
  if (!followed || !target) return {};
  const ratios = [...followed].filter(([, chance]) => chance > 0).map(([action, chance]) => (target.get(action) ?? 0) / chance);
  return { max_ratio: Math.max(...ratios) };
};

// The target policy if it is a public rule; a rule by actions only if it is short enough to be read.
const inWords = (target, rule) => {
  if (rule) return { target_policy: rule.text };
  if (!target) return {};
  const certain = [...target].find(([, chance]) => chance === 1);
  const parts = [...target].map(([action, chance]) => `${action} ${Number(chance.toPrecision(6))}`);
  const words = certain ? `always ${certain[0]}` : parts.join(", ");
  return words.length <= LONGEST_WORDS ? { target_policy: words } : {};
};

// 0 if every outcome is a word and none counts less.
const leastReward = (counts) => (counts && [...counts.values()].every((one) => one >= 0) ? { least_reward: 0 } : {});

export class Visits {
  // `changed` is called after every change of a rule.
  constructor({ columns, facts }, names, changed) {
    this.facts = facts;
    this.names = names; // of all columns of the file: a rule may use any
    this.reserved = columns.filter((one) => one.scale === null && one.name !== "state").map((one) => one.name);
    this.features = columns.filter((one) => one.scale !== null);
    this.actions = element("textarea", { id: "visits-actions", rows: 3, className: "low", spellcheck: false, placeholder: "treat 2/3 1\nwait 1/3 0" });
    this.rule = element("input", { id: "visits-rule", spellcheck: false, placeholder: "age >= 65 and pressure > 140 -> treat, else wait" });
    this.outcomes = element("textarea", { id: "visits-outcomes", rows: 2, className: "low", spellcheck: false, placeholder: "improved 1\nworse 0" });
    const last = [["terminal", "ends the episode"], ["next_state", "only shows the state that the patient reached"]];
    this.last = choice("visits-last", facts.continuing ? last.reverse() : last);
    this.interval = element("input", { id: "visits-interval", inputMode: "decimal" });
    this.gaps = choice("visits-gaps", [["refuse", "is refused"], ["end", "leaves out this patient’s later visits"]]);
    this.missing = choice("visits-missing", [
      ["refuse", "is refused"],
      ["carry", "of a feature is taken from the visit before"],
      ["leave_out", "leaves out the patient, with all visits"],
    ]);
    this.parts = {
      actions: labelled("Treatments and their known probabilities, one treatment per line", this.actions,
        "Its name, the probability with which it was chosen, and its probability under the policy to be evaluated: numbers, or fractions such as 2/3. " +
        "Leave out a probability that a column or the rule below gives. If this stays empty, the policy that was followed is evaluated."),
      rule: labelled("Or the policy to be evaluated as a rule on features", this.rule,
        "Use the names of your columns; put names with punctuation in quotes: \"Blood pressure (mmHg)\" > 140. " +
        "The rule may use only what was known before the treatment was chosen. It is published as you write it."),
      outcomes: labelled("Values of outcomes that are words, one outcome per line", this.outcomes, "Yes and no, true and false are 1 and 0 without being listed."),
      last: labelled("A patient’s last visit", this.last),
      interval: labelled("Time between visits", this.interval, "In days where times are dates. If it is empty, visits follow each other whatever the time between them."),
      gaps: labelled("A missing visit", this.gaps),
      missing: labelled("A missing value", this.missing),
    };
    for (const part of [this.parts.actions, this.parts.rule]) part.classList.add("whole"); // lines of sixty signs
    this.element = element("fieldset", {}, element("legend", {}, "How visits become steps"),
      element("p", { className: "note" }, "Choose these rules without looking at the data, and tell them to those who read the answers."),
      element("div", { className: "pair mapping" }, ...Object.values(this.parts)));
    for (const control of [this.actions, this.rule, this.outcomes, this.last, this.interval, this.gaps, this.missing]) {
      control.addEventListener(control.tagName === "SELECT" ? "change" : "input", changed);
    }
  }

  // Shows the rules that these columns need, and reads them again.
  suit(plan, dates) {
    this.dates = dates;
    this.taken = new Map(plan.filter(({ column }) => this.reserved.includes(column.name)).flatMap(({ column, place, clock }) => [[place, column.name], [clock, column.name]]));
    this.has = new Set(plan.map(({ column }) => column.name));
    this.wrong = [];
    this.told = this.readRule();
    this.chances = this.readActions();
    this.counts = this.readOutcomes();
    this.parts.rule.hidden = !this.has.has("action") || this.has.has("target");
    this.parts.actions.hidden = !this.has.has("action") || POLICIES.every(([, column]) => this.has.has(column));
    this.parts.last.hidden = this.has.has("terminal");
    this.parts.gaps.hidden = this.interval.value.trim() === "";
    this.owners = new Map();
    this.rows = [];
    this.isNumbered = null; // whether times are numbers: the first one tells
    this.isZoned = null;
  }

  // {behaviour, target}: the probability of each action; null for a policy that the lines do not give.
  readActions() {
    const isSaid = ([policy, column]) => this.has.has(column) || (policy === "target" && this.rule.value.trim());
    const said = POLICIES.filter((one) => !isSaid(one)).map(([policy]) => policy);
    const lines = this.has.has("action") ? this.actions.value.split("\n").filter((one) => one.trim()) : [];
    const found = { behaviour: null, target: null };
    if (!lines.length || !said.length) return found;
    for (const policy of said) found[policy] = new Map();
    for (const line of lines) {
      const parts = line.trim().split(/[\s;|]+/);
      const figures = parts.splice(-said.length).map(chanceOf);
      if (!parts.length || !figures.every((one) => one >= 0 && one <= 1)) {
        const needed = said.length === 2 ? "two probabilities, from 0 to 1" : "one probability, from 0 to 1";
        const example = said.length === 2 ? "treat 2/3 1" : "treat 2/3";
        const instead = said.length === 2 && !this.parts.rule.hidden ? " One is enough where a rule below gives the policy to be evaluated." : "";
        this.wrong.push(`Treatments: a line is a name and ${needed}, such as ${example}, not “${line.trim().slice(0, 40)}”.${instead}`);
        return { behaviour: null, target: null }; // no cell is to blame
      }
      const name = nameOf(parts.join(" "));
      said.forEach((policy, place) => found[policy].set(name, figures[place]));
    }
    for (const [policy, , called] of POLICIES) {
      if (!found[policy]) continue;
      const sum = [...found[policy].values()].reduce((all, one) => all + one, 0);
      if (Math.abs(sum - 1) > SUM_TOLERANCE) this.wrong.push(`Treatments: the probabilities under the ${called} sum to 1, not ${Number(sum.toPrecision(6))}.`);
    }
    return found;
  }

  // The target policy as a rule on features, with the position of each in the file; null if there is none.
  readRule() {
    const text = this.rule.value.trim();
    if (!text || !this.has.has("action") || this.has.has("target")) return null;
    try {
      const rule = new Rule(text, nameOf);
      const reserved = rule.features.find((one) => this.reserved.includes(one));
      if (reserved) throw new Error(`a rule is on features that are known before it is decided, and ${reserved} is none`);
      rule.places = new Map(rule.features.map((one) => [one, this.placeOf(one)]));
      for (const [feature, place] of rule.places) {
        const role = place === null ? undefined : this.taken.get(place);
        if (role) throw new Error(`a rule is on features that are known before it is decided, and ${feature}, which is the ${role}, is none`);
      }
      return rule;
    } catch (error) {
      this.wrong.push(`The rule${error.message.startsWith("at ") ? "," : ":"} ${error.message}.`);
      return null;
    }
  }

  placeOf(feature) {
    if (this.has.has(feature)) return null; // it is read as the column of that name is
    const place = this.names.indexOf(feature);
    if (place < 0) throw new Error(`your file has no column ${feature}: it has ${this.names.slice(0, 20).join(", ")}`);
    return place;
  }

  // The values of words, {name: number}; null if no line gives one.
  readOutcomes() {
    const lines = this.outcomes.value.split("\n").filter((one) => one.trim());
    if (!lines.length) return null;
    const found = new Map();
    for (const line of lines) {
      const parts = line.trim().split(/[\s;|]+/);
      const figure = number(parts.pop(), ";");
      if (!parts.length || !Number.isFinite(figure)) this.wrong.push(`Outcomes: a line is a text and a number, such as improved 1, not “${line.trim().slice(0, 40)}”.`);
      found.set(nameOf(parts.join(" ")), figure);
    }
    return found;
  }

  // The value of an outcome; NaN if it is not one.
  rewardOf(text, separator) {
    return this.counts ? (this.counts.get(nameOf(text)) ?? NaN) : (truth(text) ?? number(text, separator));
  }

  // The error of a cell with rules of its own; undefined if only those of its column apply.
  fault(column, text) {
    if (isMissing(text)) {
      const spared = this.missing.value === "leave_out" ? column.name !== "patient" : column.scale !== null && this.missing.value === "carry";
      return spared ? null : undefined;
    }
    if (column.name === "patient" && TOTAL.test(text.trim())) return "is named like a total, not like a patient";
    if (column.name === "terminal") return truth(text) !== undefined || /^[01]$/.test(text) ? null : "is not true or false";
    if (column.name === "reward" && this.counts) {
      const counts = this.rewardOf(text, ";");
      if (Number.isNaN(counts)) return "is an outcome without a value: list it above, or leave that list empty";
      return counts < column.low || counts > column.high ? `counts ${counts}, and is to be ${column.low} to ${column.high}` : null;
    }
    if (column.name === "reward" && truth(text) !== undefined) return null;
    if (column.name === "reward" && Number.isNaN(number(text, ";"))) return "is not a number: give its value above";
    if (column.name === "probability" && number(text, ";") === 0) return "is 0, of an action that was taken";
    if (column.name === "time") return this.timeOf(text)?.says ?? null;
    if (column.name !== "action") return undefined;
    const name = nameOf(text);
    for (const [policy] of POLICIES) {
      const known = this.chances[policy];
      if (known && !known.has(name)) return "is a treatment without probabilities: list it above";
      if (known && policy === "behaviour" && known.get(name) === 0) return "has probability 0 above, and it was chosen";
    }
    return null;
  }

  timeOf(text) {
    const figure = number(text, ";");
    this.isNumbered ??= !Number.isNaN(figure);
    if (this.isNumbered) return Number.isNaN(figure) ? { says: "is not a number, and the first time is one" } : { at: figure };
    const found = instant(text, this.dates);
    if (found === null) return { says: noTime(text, this.dates, "2026-11-21") };
    this.isZoned ??= found.isZoned;
    return this.isZoned === found.isZoned ? { at: found.at / DAY } : { says: `has ${found.isZoned ? "a" : "no"} time zone, unlike the first` };
  }

  // A row without a fault: texts by the names of columns.
  add(line, texts, separator, values) {
    if (this.rows.length === MOST_VISITS) throw new Error(`it has more than ${MOST_VISITS.toLocaleString("en")} visits: let \`discreet dataset add\` read it`);
    const name = nameOf(texts.get("patient"));
    if (!this.owners.has(name)) this.owners.set(name, this.owners.size);
    const figure = (column) => number(texts.get(column), separator);
    const told = this.told?.features.map((one) => {
      const place = this.told.places.get(one);
      const text = (place === null ? texts.get(one) : (values[place] ?? "")).trim();
      if (isMissing(text)) return null;
      return this.told.ofTexts.has(one) ? nameOf(text) : number(text, separator);
    });
    const lacks = [...this.has].some((column) => isMissing(texts.get(column))) || Boolean(told?.includes(null));
    const action = this.has.has("action") ? nameOf(texts.get("action")) : "";
    const chance = ([policy, column]) => (this.has.has(column) ? figure(column) : this.chances[policy]?.get(action));
    this.rows.push({
      line,
      owner: this.owners.get(name),
      lacks,
      time: lacks && isMissing(texts.get("time")) ? NaN : this.timeOf(texts.get("time")).at,
      state: this.features.length
        ? this.features.map((one) => (isMissing(texts.get(one.name)) ? NaN : number(texts.get(one.name), separator)))
        : [this.has.has("state") ? figure("state") : 0],
      reward: this.rewardOf(texts.get("reward"), separator),
      action,
      told,
      ended: this.has.has("terminal") && (texts.get("terminal") === "1" || TRUE.test(texts.get("terminal"))),
      chances: POLICIES.map(chance),
    });
  }

  // {sentences, notes} about errors that prevent steps, and about omissions; the steps are stored.
  conclude() {
    this.steps = [];
    const sentences = [...this.wrong, ...this.lacking()];
    const notes = [];
    const patients = this.owners.size;
    let rows = this.rows;
    if (this.missing.value === "leave_out") {
      const lacks = new Set(rows.filter(({ lacks }) => lacks).map(({ owner }) => owner));
      rows = rows.filter(({ owner }) => !lacks.has(owner));
      if (lacks.size) notes.push(`left out: ${counted(lacks.size, patients, "patient")} with a value that is missing`);
    }
    rows = rows.toSorted((one, other) => one.owner - other.owner || one.time - other.time);
    const faults = new Map(); // by sentence: [first line, count]
    const refuse = (row, says) => {
      const [line, count] = faults.get(says) ?? [Infinity, 0];
      faults.set(says, [Math.min(line, row.line), count + 1]);
    };
    const told = { gone: 0, alone: 0, seen: 0 };
    for (let begin = 0; begin < rows.length; ) {
      let end = begin + 1;
      while (end < rows.length && rows[end].owner === rows[begin].owner) end += 1;
      this.walk(rows.slice(begin, end), refuse, told);
      begin = end;
    }
    for (const [says, [line, count]] of faults) {
      const more = count === 1 ? "" : `; ${(count - 1).toLocaleString("en")} more like this`;
      sentences.push(`The visit in line ${line.toLocaleString("en")} ${says}${more}.`);
    }
    if (rows.length && !this.steps.length && !sentences.length) sentences.push("No patient has two visits, so there is no step.");
    if (told.gone) notes.push(`left out: ${counted(told.gone, this.rows.length, "visit")} after a gap`);
    if (told.alone) notes.push(`left out: ${counted(told.alone, patients, "patient")} with a single visit, which has no next state`);
    if (told.seen) notes.push(`the last visit of ${counted(told.seen, patients, "patient")} is a next state only: no end is known`);
    if (!this.isOffPolicy) notes.push("nothing is said of another policy: what is evaluated is the policy that was followed");
    return { sentences, notes };
  }

  get isOffPolicy() {
    return POLICIES.every((one) => this.isKnown(one));
  }

  isKnown([policy, column]) {
    return Boolean(this.has.has(column) || this.chances[policy] || (policy === "target" && this.told));
  }

  // The policy without probabilities, if the other has some or the public part asks for both.
  lacking() {
    const never = this.chances.behaviour && this.told?.actions.find((one) => !(this.chances.behaviour.get(one) > 0));
    if (never) return [`The rule takes “${never}”, which was never done by the probabilities above: what nobody was given cannot be evaluated.`];
    const without = POLICIES.filter((one) => !this.isKnown(one));
    if (this.wrong.length || !without.length || (without.length === 2 && !this.facts.off_policy)) return [];
    return without.map(([, , called]) => `The probability of the action under the ${called} is needed: a column, or the column action and a line above for each treatment.`);
  }

  // One patient's visits in the order of their times.
  walk(rows, refuse, told) {
    const interval = this.interval.value.trim() === "" ? null : number(this.interval.value.trim(), ";");
    if (interval !== null && !(interval > 0)) {
      refuse(rows[0], "has no place: the interval is a number above 0");
      return;
    }
    let kept = rows.length;
    for (let place = 1; place < rows.length; place += 1) {
      const between = rows[place].time - rows[place - 1].time;
      if (between === 0) refuse(rows[place], "is at a time at which this patient has a visit already");
      else if (interval !== null && between / interval <= 0.5) refuse(rows[place], "is less than an interval after this patient’s visit before");
      else if (interval !== null && between / interval >= 1.5) {
        if (this.gaps.value === "refuse") refuse(rows[place], "is more than an interval after this patient’s visit before: choose above what becomes of a missing visit");
        kept = Math.min(kept, place);
      }
      if (rows[place - 1].ended) refuse(rows[place - 1], "ended the episode, and this patient has visits after it");
    }
    told.gone += rows.length - kept;
    const states = this.scaled(rows, refuse);
    if (this.told) this.follow(rows, refuse);
    const ends = this.has.has("terminal") ? rows.at(-1).ended : this.last.value === "terminal";
    let step = 0;
    for (let place = 0; place < kept; place += 1) {
      const terminal = ends && place === rows.length - 1;
      if (place === kept - 1 && !terminal) break;
      if (step === this.facts.horizon) refuse(rows[place], `is one more than the public horizon, ${this.facts.horizon}`);
      this.steps.push([rows[place], step, states[place], states[terminal ? place : place + 1], terminal]);
      step += 1;
    }
    if (step === 0) told.alone += 1;
    else if (!(ends && kept === rows.length)) told.seen += 1;
  }

  // The state of each row: a number, or coordinates from 0 to 1.
  scaled(rows, refuse) {
    if (!this.features.length) return rows.map(({ state }) => state);
    const before = this.features.map(() => NaN);
    return rows.map((row) =>
      this.features.map(({ name, scale: [low, high] }, axis) => {
        const value = Number.isNaN(row.state[axis]) ? before[axis] : row.state[axis];
        if (Number.isNaN(value)) refuse(row, lacking(name, "carry"));
        before[axis] = value;
        return Math.min(1, Math.max(0, (value - low) / (high - low)));
      }),
    );
  }

  // The target probability of each row: 1 if the rule chooses the action that was taken, else 0.
  follow(rows, refuse) {
    const before = this.told.features.map(() => null);
    for (const row of rows) {
      const values = new Map();
      this.told.features.forEach((name, axis) => {
        const value = row.told[axis] ?? (this.missing.value === "carry" ? before[axis] : null);
        if (value === null) refuse(row, lacking(name, this.missing.value));
        else if (Number.isNaN(value)) refuse(row, `has no number as ${name}, which the rule compares with one`);
        before[axis] = value;
        values.set(name, value);
      });
      row.chances[1] = row.action === this.told.chosen(values) ? 1 : 0;
    }
  }

  // What is published in addition, since it follows from rules: the largest ratio of two policies, the target in
  // words, and the least reward.
  get published() {
    const [followed, target] = POLICIES.map(([policy]) => this.chances[policy]);
    return { ...largestRatio(followed, target, this.told), ...inWords(target, this.told), ...leastReward(this.counts) };
  }

  get header() {
    const axes = this.features.length ? this.features.map((_, axis) => `_${axis}`) : null;
    const places = axes ? ["x", "x_next"].flatMap((name) => axes.map((axis) => name + axis)) : ["state", "next_state"];
    return ["trajectory", "step", ...places, "reward", "terminal", ...(this.isOffPolicy ? ["behaviour", "target"] : [])];
  }

  // The rows to send, each with its line in the file.
  *written() {
    for (const [row, step, here, there, terminal] of this.steps) {
      yield [row.line, [row.owner, step, ...here, ...there, row.reward, terminal, ...(this.isOffPolicy ? row.chances : [])]];
    }
  }
}
