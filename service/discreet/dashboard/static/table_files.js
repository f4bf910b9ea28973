// A table of public figures from a file of its field: comma separated values, or rows under `<NAME> value` lines. Which
// columns are which stands in the schema (`x-file`).

import { fromCsv } from "./fields.js";

// The object of the schema: its table from the rows, its other fields from what the file says or the rows tell. Where
// `minutes` are given, columns that are of an hour in the file (`hourly`) become those of a period of so many minutes.
// What stands twice in a file of comma separated values (`doubled`) is refused, taken once, or made one row.
export function read(text, { schema, table, item, numeric, minutes = "", twice = "refuse" }) {
  const layout = schema["x-file"] ?? {};
  const said = {};
  for (const [, name, value] of text.matchAll(/^\s*<([^<>]+)>\s*(\S*)/gm)) said[name.trim().toUpperCase()] = Number(value);
  const [rows, note] = Object.keys(said).length ? marked(text, layout, item, said) : once(separated(text, layout, item, numeric), layout.doubled, twice);
  if (!rows.length) throw new Error("it has no rows");
  const missing = (item.required ?? []).filter((name) => !(name in rows[0]));
  if (missing.length) throw new Error(`no column is ${missing.join(", ")}`);
  const object = {};
  for (const [name, columns] of Object.entries(layout.largest ?? {})) {
    object[name] = rows.reduce((most, row) => columns.reduce((found, one) => Math.max(found, row[one] ?? 0), most), 0);
  }
  for (const [heading, name] of Object.entries(layout.headings ?? {})) if (Number.isFinite(said[heading])) object[name] = said[heading];
  if (!layout.hourly || minutes === "") return { object: { ...object, [table]: rows }, note };
  const { field, columns } = layout.hourly;
  const length = Number(minutes);
  if (!(length > 0)) throw new Error("minutes of a period are a number above 0");
  for (const row of rows) for (const name of columns) if (typeof row[name] === "number") row[name] = (row[name] * length) / 60;
  return { object: { ...object, [field]: length, [table]: rows }, note: `${note} The file’s ${columns.join(", ")}, of an hour, is of ${length} minutes here.`.trim() };
}

function separated(text, layout, item, numeric) {
  const [first, ...lines] = text.replace(/^\uFEFF/, "").split(/\r?\n/).filter((one) => one.trim());
  const names = (first ?? "").split(/[,;\t]/).map((one) => one.trim().replace(/^"|"$/g, ""));
  const other = layout.columns ?? {};
  const meant = (one) => (Object.hasOwn(other, one.toLowerCase()) ? other[one.toLowerCase()] : one);
  const known = names.map((one) => (Object.hasOwn(item.properties, one) ? one : meant(one)));
  const [rows] = fromCsv([known.join(","), ...lines].join("\n"), item.properties, numeric);
  const left = known.filter((one) => !Object.hasOwn(item.properties, one));
  const streets = rows.map((row) => row.name ?? row.street ?? "");
  for (const row of rows) for (const name of left) delete row[name];
  return [rows, left.length ? `Columns left out: ${left.join(", ")}.` : "", streets];
}

const MOST_NAMED = 20;

// Each row once, as `twice` says, with what that changed in the note.
function once([rows, note, names = []], doubled, twice) {
  if (!doubled) return [rows, note];
  const alike = new Map();
  rows.forEach((row, place) => {
    const key = JSON.stringify([Object.entries(row).sort(), names[place] ?? ""]);
    alike.set(key, [...(alike.get(key) ?? []), place]);
  });
  const more = [...alike.values()].filter((places) => places.length > 1);
  if (!more.length) return [rows, note];
  const called = (place) => doubled.ends.map((end) => rows[place][end]).join(" to ") + (names[place] ? `, ${names[place]}` : "");
  const listed = more.slice(0, MOST_NAMED).map(([place]) => called(place)).join("; ") + (more.length > MOST_NAMED ? `; and ${more.length - MOST_NAMED} more` : "");
  const says = `${more.length === 1 ? "1 row stands" : `${more.length} rows stand`} more than once`;
  if (twice === "refuse") throw new Error(`${says} with the same figures: ${listed}. Say above what is made of them, and choose the file again`);
  const kept = [...alike.values()].map((places) => {
    const row = { ...rows[places[0]] };
    if (twice === "sum" && typeof row[doubled.sum] === "number") row[doubled.sum] *= places.length;
    return row;
  });
  return [kept, `${note} ${says}, ${twice === "sum" ? `made one each with ${doubled.sum} together` : "taken once each"}: ${listed}.`.trim()];
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
  return [rows, unweighted ? "Lengths and tolls count for nothing: the file says no factor for them." : ""];
}
