// A table of public figures from a file of its field: comma separated values, or rows under `<NAME> value` lines. Which
// columns are which stands in the schema (`x-file`).

import { Places } from "./place_files.js";
import { cells, isMissing, number } from "./table_text.js";

const FIRST_LETTERS = 1 << 16;

// What the file alone does not tell, and its owner is asked for: `asks` names the controls to show.
class Asked extends Error {
  constructor(says, asks) {
    super(says);
    this.asks = asks;
  }
}

// The object of the schema: its table from the rows, its other fields from what the file says or the rows tell. Where
// `minutes` are given, columns that are of an hour in the file (`hourly`) become those of a period of so many minutes.
// What stands twice in a file of comma separated values (`doubled`) is refused, taken once, or made one row. `units` are
// of lengths and speeds that make times (`measured`), `weight` is that of a column that counts by it (`weighed`). `beside`
// is the text of a file of nodes (`nodes`), or null.
export function read(text, { schema, table, item, numeric, minutes = "", twice = "refuse", units = {}, weight = "", nodes = null }) {
  const layout = schema["x-file"] ?? {};
  const places = nodes === null ? null : new Places(recordsOf(nodes), layout.nodes);
  const said = {};
  for (const [, name, value] of text.matchAll(/^\s*<([^<>]+)>\s*(\S*)/gm)) said[name.trim().toUpperCase()] = Number(value);
  const [rows, note, names = [], beside = {}] = Object.keys(said).length
    ? marked(text, layout, item, said)
    : once(separated(text, layout, item, numeric, { units, weight, places }), layout.doubled, twice);
  if (!rows.length) throw new Error("it has no rows");
  const missing = (item.required ?? []).filter((name) => !(name in rows[0]));
  if (missing.length) throw new Error(`no column is ${missing.join(", ")}`);
  places?.check(rows);
  const object = { ...beside, ...named(rows, names, layout.named) };
  if (places) Object.assign(object, places.number(rows));
  else for (const [name, columns] of Object.entries(layout.largest ?? {})) {
    object[name] = rows.reduce((most, row) => columns.reduce((found, one) => Math.max(found, row[one] ?? 0), most), 0);
  }
  for (const [heading, name] of Object.entries(layout.headings ?? {})) if (Number.isFinite(said[heading])) object[name] = said[heading];
  const { field, columns } = layout.hourly ?? {};
  const told = [note, places?.note].filter(Boolean).join(" ");
  if (!layout.hourly || (minutes === "" && !(field in beside))) return { object: { ...object, [table]: rows }, note: told };
  const length = minutes === "" ? beside[field] : Number(minutes);
  if (!(length > 0)) throw new Error("minutes of a period are a number above 0");
  for (const row of rows) for (const name of columns) if (typeof row[name] === "number") row[name] = (row[name] * length) / 60;
  return { object: { ...object, [field]: length, [table]: rows }, note: `${told} The file’s ${columns.join(", ")}, of an hour, is of ${length} minutes here.`.trim() };
}

// The records of a file with the names of its columns in the first line, each a map of the cells that hold something.
function recordsOf(text, meant = (one) => one) {
  const [first, ...lines] = text.replace(/^\uFEFF/, "").split(/\r?\n/).filter((one) => one.trim());
  const separator = [",", ";", "\t"].reduce((best, one) => (cells(first ?? "", one).length > cells(first ?? "", best).length ? one : best));
  const split = (line) => cells(line, separator).map((one) => one.trim());
  const columns = split(first ?? "").map(meant);
  const records = lines.map((line, place) => {
    const found = split(line);
    if (found.length > columns.length) throw new Error(`line ${place + 2} has more cells than there are columns`);
    return new Map(columns.flatMap((name, at) => ((found[at] ?? "") === "" ? [] : [[name, found[at]]])));
  });
  return { columns, records, figure: (record, name, place) => figureOf(record, name, place, separator), separator };
}

// Whether a file is of nodes, by the first of its lines.
export function isOfNodes(text, rule) {
  const { columns } = recordsOf(text.slice(0, FIRST_LETTERS).split(/\r?\n/, 1)[0]);
  return Boolean(rule) && columns.some((one) => rule.told_by.includes(one));
}

// Rows by the names of their columns, what is to be said of them, what each is called, and fields beside them.
function separated(text, layout, item, numeric, said) {
  const other = layout.columns ?? {};
  const meant = (one) => (Object.hasOwn(item.properties, one) || !Object.hasOwn(other, one.toLowerCase()) ? one : other[one.toLowerCase()]);
  const { columns, records, figure, separator } = recordsOf(text, meant);
  const value = (name, cell) => {
    if (said.places && layout.nodes.ends.includes(name)) return said.places.called(cell);
    const found = numeric(item.properties[name]) ? number(cell, separator) : NaN;
    return Number.isNaN(found) ? cell : found;
  };
  const rows = records.map((record) => Object.fromEntries([...record].filter(([name]) => Object.hasOwn(item.properties, name)).map(([name, cell]) => [name, value(name, cell)])));
  const file = { columns, records, rows, figure };
  const used = new Set(Object.keys(item.properties));
  const beside = {};
  const asked = [];
  const notes = [
    () => measured(file, layout.measured, said.units, used, beside),
    () => byLane(file, layout.by_lane, layout.hourly, used, beside),
    () => weighed(file, layout.weighed, said.weight, used),
  ].map((step) => {
    try {
      return step();
    } catch (problem) {
      if (!(problem instanceof Asked)) throw problem;
      asked.push(problem);
      return "";
    }
  });
  if (asked.length) throw new Asked(asked.map((one) => one.message).join("; and "), asked.flatMap((one) => one.asks));
  lacking(rows, columns, item);
  const names = records.map((record) => record.get("name") ?? record.get("street") ?? "");
  if (layout.named) used.add("name").add("street");
  const [all, called, told] = bothWays(file, names, layout.both_ways, used);
  const left = columns.filter((one) => !used.has(one));
  notes.push(told, left.length ? `Columns left out: ${left.join(", ")}.` : "");
  return [all, notes.filter(Boolean).join(" "), called, beside];
}

// Refuses a file without a column that each row needs, with the page that takes columns of any name.
function lacking(rows, columns, item) {
  const missing = (item.required ?? []).filter((name) => rows.length && !rows.some((row) => name in row));
  if (!missing.length) return;
  const error = new Error(`it has no column ${missing.join(", ")}; its columns are ${columns.join(", ")}. Name them so in its first line; or add it as a network, where columns may have any name and GeoJSON is read too, and choose it here as a stored one.`);
  throw Object.assign(error, { instead: { href: "/networks/new", name: "Add a network" } });
}

function figureOf(record, name, place, separator) {
  const figure = number(record.get(name) ?? "", separator);
  if (Number.isNaN(figure)) throw new Error(`line ${place + 2}, ${name}: “${record.get(name) ?? ""}” is not a number`);
  return figure;
}

// Times of lengths and speeds, where the file has no times of its own.
function measured({ columns, records, rows, figure }, rule, units, used, beside) {
  const has = (names) => names.find((one) => columns.includes(one));
  if (!rule || columns.includes(rule.field) || !has(rule.length) || !has(rule.speed)) return "";
  if (!Object.hasOwn(rule.lengths, units.length) || !Object.hasOwn(rule.speeds, units.speed)) {
    throw new Asked(`its ${rule.field} follows from ${has(rule.length)} and ${has(rule.speed)}: say above in which units they are`, ["units"]);
  }
  records.forEach((record, place) => {
    const [length, speed] = [figure(record, has(rule.length), place), figure(record, has(rule.speed), place)];
    if (length < 0 || !(speed > 0)) throw new Error(`line ${place + 2}: a length of 0 or more is needed, and a speed above 0`);
    rows[place][rule.field] = ((length * rule.lengths[units.length]) / (speed * rule.speeds[units.speed])) * rule.times;
  });
  used.add(has(rule.length)).add(has(rule.speed));
  Object.assign(beside, rule.says);
  return `${rule.field} is length / speed, in ${Object.values(rule.says).join()}.`;
}

// Figures of a lane and an hour, in files that a column tells.
function byLane({ columns, records, rows, figure }, rule, hourly, used, beside) {
  if (!rule || !columns.includes(rule.told_by)) return "";
  if (columns.includes(rule.lanes)) records.forEach((record, place) => { rows[place][rule.column] *= figure(record, rule.lanes, place); });
  used.add(rule.lanes).add("link_id");
  if (hourly) beside[hourly.field] = rule.minutes;
  return "";
}

// What counts by a weight that the file does not say, such as tolls in money.
function weighed({ columns, records, rows, figure }, rule, weight, used) {
  if (!rule || !columns.includes(rule.column)) return "";
  used.add(rule.column);
  const amounts = records.map((record, place) => (isMissing(record.get(rule.column) ?? "") ? 0 : figure(record, rule.column, place)));
  if (!amounts.some(Boolean)) return "";
  if (!(Number(weight) >= 0) || weight === "") throw new Asked(`it has a column ${rule.column}: say above how much time a unit of it is worth; 0 leaves it out`, ["weight"]);
  amounts.forEach((amount, place) => { if (amount * Number(weight)) rows[place][rule.field] = (rows[place][rule.field] ?? 0) + amount * Number(weight); });
  return "";
}

// A row that leads both ways as two, where a column says so.
function bothWays({ columns, records, rows }, names, rule, used) {
  if (!rule || !columns.includes(rule.column)) return [rows, names, ""];
  used.add(rule.column);
  const [from, to] = rule.ends;
  const all = rows.flatMap((row, place) => (rule.no.includes((records[place].get(rule.column) ?? "").toLowerCase()) ? [[row, names[place]], [{ ...row, [from]: row[to], [to]: row[from] }, names[place]]] : [[row, names[place]]]));
  const more = all.length - rows.length;
  return [all.map(([row]) => row), all.map(([, name]) => name), more ? `${more} rows that lead in both directions became two each.` : ""];
}

// A name for each row, all different: those that share one are told apart by their ends.
function named(rows, names, rule) {
  if (!rule || names.length !== rows.length || names.every((name) => !name)) return {};
  const often = new Map();
  for (const name of names) often.set(name, (often.get(name) ?? 0) + 1);
  const seen = new Map();
  const labels = rows.map((row, place) => {
    const name = names[place];
    const whole = name && often.get(name) === 1 ? name : `${name} (${rule.ends.map((end) => row[end]).join(" → ")})`.trim();
    const before = seen.get(whole) ?? 0;
    seen.set(whole, before + 1);
    return before ? `${whole} ${before + 1}` : whole;
  });
  return { [rule.field]: labels };
}

const MOST_NAMED = 20;

// Each row once, as `twice` says, with what that changed in the note.
function once([rows, note, names = [], beside = {}], doubled, twice) {
  if (!doubled) return [rows, note, names, beside];
  const alike = new Map();
  rows.forEach((row, place) => {
    const key = JSON.stringify([Object.entries(row).sort(), names[place] ?? ""]);
    alike.set(key, [...(alike.get(key) ?? []), place]);
  });
  const more = [...alike.values()].filter((places) => places.length > 1);
  if (!more.length) return [rows, note, names, beside];
  const called = (place) => doubled.ends.map((end) => rows[place][end]).join(" to ") + (names[place] ? `, ${names[place]}` : "");
  const listed = more.slice(0, MOST_NAMED).map(([place]) => called(place)).join("; ") + (more.length > MOST_NAMED ? `; and ${more.length - MOST_NAMED} more` : "");
  const says = `${more.length === 1 ? "1 row stands" : `${more.length} rows stand`} more than once`;
  if (twice === "refuse") throw new Error(`${says} with the same figures: ${listed}. Say above what is made of them, and choose the file again`);
  const kept = [...alike.values()].map((places) => {
    const row = { ...rows[places[0]] };
    if (twice === "sum" && typeof row[doubled.sum] === "number") row[doubled.sum] *= places.length;
    return row;
  });
  const told = `${note} ${says}, ${twice === "sum" ? `made one each with ${doubled.sum} together` : "taken once each"}: ${listed}.`.trim();
  return [kept, told, [...alike.values()].map(([place]) => names[place] ?? ""), beside];
}

// Rows by position, of which weighted columns add up to one of ours.
function marked(text, layout, item, said) {
  const body = text.split(/<END OF METADATA>.*/i).at(-1);
  const lines = body.split(/\r?\n/).map((one) => one.split("~")[0].split(";")[0].trim()).filter((one) => one && !one.startsWith("<"));
  let unweighted = false;
  const rows = lines.map((line, place) => {
    const cells = line.split(/\s+/).map(Number);
    if (cells.some((one) => !Number.isFinite(one))) throw new Error(`row ${place + 1} holds what is no number`);
    const all = Object.fromEntries((layout.positions ?? []).map((name, column) => [name, cells[column]]));
    const row = Object.fromEntries(Object.entries(all).filter(([name, value]) => Object.hasOwn(item.properties, name) && value !== undefined));
    for (const [name, weights] of Object.entries(layout.sums ?? {})) {
      let sum = 0;
      for (const [column, heading] of Object.entries(weights)) {
        if (Number.isFinite(said[heading])) sum += said[heading] * (all[column] ?? 0);
        else if (all[column]) unweighted = true;
      }
      if (sum) row[name] = sum;
    }
    return row;
  });
  return [rows, unweighted ? "Lengths and tolls are ignored: the file has no factors for them." : ""];
}
