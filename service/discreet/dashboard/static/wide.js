// Wide tables, with a row for each time and a column for each meter: every column without another role is a meter's,
// except those that the owner lists as not meters, such as a total or the temperature.

import { element } from "./fields.js";
import { isNever, labelled } from "./table_rules.js";
import { quoted } from "./table_text.js";

const OWNER = "participant";

export class Wide {
  // `changed` is called after every change; `names` are those of the file's columns.
  constructor({ columns }, names, changed) {
    this.names = names;
    this.column = columns.at(-1);
    const proposed = names.filter((name) => isNever(this.column, name));
    const note = proposed.length
      ? "Proposed by their names, which are like those of a total, the weather or a price. All others are meters."
      : "A total or the temperature, for example. All others are meters.";
    this.others = element("textarea", { id: "wide-others", rows: 3, className: "low", spellcheck: false, value: proposed.join("\n") });
    this.others.addEventListener("input", changed);
    this.element = element("fieldset", {}, element("legend", {}, "Columns of meters"), labelled("Columns that are not meters, one per line", this.others, note));
  }

  // The chosen columns, and a meter for each column that is left; `wrong` has what is wrong with the list, in
  // sentences.
  plan(chosen) {
    const listed = this.others.value.split("\n").map((one) => one.trim()).filter(Boolean);
    const others = new Set(listed);
    const used = new Set(chosen.flatMap(({ place, clock }) => [place, clock]));
    const meters = this.names.flatMap((name, place) => (used.has(place) || others.has(name) ? [] : [[name, place]]));
    this.wrong = listed.filter((name) => !this.names.includes(name)).map((name) => `“${name.slice(0, 40)}” is listed as not a meter, but no column is called that.`);
    if (!meters.length) this.wrong.push("No column is left for a meter.");
    return [...chosen, ...meters.map(([name, place]) => ({ column: this.column, box: null, place, clock: null, value: "", shift: 0, label: name }))];
  }

  header(plan) {
    return [OWNER, ...plan.filter(({ box }) => box).map(({ column }) => column.name), this.column.name];
  }

  // A row for each meter that has a value: [cells, meter].
  *rows(plan, found, isLeftOut) {
    const shared = found.filter((_, at) => plan[at].box);
    for (const [at, one] of plan.entries()) {
      if (one.box === null && !isLeftOut(found[at])) yield [[quoted(one.label), ...shared, found[at]], one.label];
    }
  }
}
