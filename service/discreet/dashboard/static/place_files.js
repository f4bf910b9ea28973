// The nodes of a network from a file next to that of its links: their numbers, names and places. The schema (`x-file`,
// `nodes`) says which column is which.

import { isMissing } from "./table_text.js";

const FIRST = 6; // zones that are listed if the file does not mark zones
const isNumber = (text) => /^\d{1,15}$/.test(text);

export class Places {
  // `columns`, `records` and `figure` are a file's; throws an Error for one that says two things of a node.
  constructor({ columns, records, figure }, rule) {
    this.rule = rule;
    const has = (names) => names.find((one) => columns.includes(one));
    const cell = (name) => records.map((record) => (isMissing(record.get(name) ?? "") ? "" : record.get(name)));
    const ids = cell(has(rule.told_by));
    const lacking = ids.indexOf("");
    if (lacking >= 0) throw new Error(`the file of nodes has none in line ${lacking + 2}`);
    const twice = doubled(ids);
    if (twice !== undefined) throw new Error(`node ${twice} is in the file of nodes more than once`);
    const own = rule.called.find((one) => columns.includes(one) && !cell(one).includes("") && doubled(cell(one)) === undefined);
    const zones = has(rule.zone) ? cell(has(rule.zone)) : [];
    const labels = own ? cell(own) : byZones(ids, zones);
    this.labels = new Map(ids.map((id, place) => [id, labels[place]]));
    this.zoned(labels, zones);
    this.points = placed(labels, records, rule.place.map(has), figure);
    this.note = [own && `Nodes are called by ${own}.`, this.note].filter(Boolean).join(" ");
  }

  // Numbers of nodes: zones first, in the order of their names; numbers in their order, other names as they came.
  zoned(labels, zones) {
    const nodes = labels.every(isNumber) ? [...labels].sort((one, other) => Number(one) - Number(other)) : labels;
    const byZone = new Map();
    zones.forEach((zone, place) => {
      if (zone === "") return;
      if (byZone.has(zone)) throw new Error(`zone ${zone} has the nodes ${byZone.get(zone)} and ${labels[place]}; here a zone is one node`);
      byZone.set(zone, labels[place]);
    });
    const known = [...byZone.keys()].sort((one, other) => isNumber(other) - isNumber(one) || (isNumber(one) ? one - other : one < other ? -1 : 1));
    const first = known.map((zone) => byZone.get(zone));
    const isZone = new Set(first);
    this.nodes = [...first, ...nodes.filter((one) => !isZone.has(one))];
    const named = first.length ? first : nodes;
    const begins = `from zone 1 on ${named.slice(0, FIRST).join(", ")}${named.length > FIRST ? ", …" : ""}`;
    this.note = first.length
      ? `The first ${first.length} nodes are the zones, in the order of the zones’ names: ${begins}.`
      : `The file does not say which nodes are zones: those of a dataset are the first nodes, ${begins}.`;
  }

  // The name that links use for a node, if the file of nodes has it.
  called(id) {
    return this.labels.get(id) ?? id;
  }

  check(rows) {
    const known = new Set(this.nodes);
    for (const row of rows) {
      const lost = this.rule.ends.map((end) => row[end]).find((one) => !known.has(one));
      if (lost !== undefined) throw new Error(`a link begins or ends at ${lost}, which is not in the file of nodes`);
    }
  }

  // Gives the ends of rows their numbers; the fields that follow.
  number(rows) {
    const numbers = new Map(this.nodes.map((node, place) => [node, place + 1]));
    for (const row of rows) for (const end of this.rule.ends) row[end] = numbers.get(row[end]);
    const { count, names, places } = this.rule.fields;
    const isPlain = this.nodes.every((node, place) => node === String(place + 1));
    return {
      [count]: this.nodes.length,
      ...(isPlain ? {} : { [names]: this.nodes }),
      ...(this.points ? { [places]: this.nodes.map((node) => this.points.get(node)) } : {}),
    };
  }
}

// Nodes by their ids, but that of a zone by the zone's name, as `networks` of the client has it; numbers of zones name none.
function byZones(ids, zones) {
  const found = zones.filter(Boolean);
  const others = new Set(ids.filter((_, place) => !zones[place]));
  const named = !found.every(isNumber) && doubled(found) === undefined && !found.some((one) => others.has(one));
  return named ? ids.map((id, place) => zones[place] || id) : ids;
}

function doubled(names) {
  const seen = new Set();
  return names.find((one) => seen.size === seen.add(one).size);
}

// The coordinates of each node; null where the file has none.
function placed(labels, records, columns, figure) {
  const without = columns.some((one) => !one) || records.every((record) => columns.every((one) => isMissing(record.get(one) ?? "")));
  return without ? null : new Map(records.map((record, place) => [labels[place], columns.map((one) => figure(record, one, place))]));
}
