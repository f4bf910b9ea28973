/** Fields of a result as rows, one object each, with named positions, as tables and charts need them. */

import { AXES } from "./axes.js";
import { blockNames, stepNames, type States } from "./dayClock.js";
import type { Answer, Kind } from "./kinds.js";
import type { components } from "./schema.js";

/** The part of a road network that rows of links need. */
export type RoadNetwork = Pick<components["schemas"]["RoadNetwork"], "links" | "node_names">;

/** The label of a position on an axis: its number, or a name. */
export type Label = number | string;

export interface RowsOptions {
  /**
   * The names of the positions of an axis, in their order: `{ origin: names, destination: names }` with a network's
   * `node_names`, for example. RangeError if there are fewer names than positions.
   */
  called?: Readonly<Record<string, readonly string[]>>;
  /** For an array, adds `lower` and `upper` of each number's interval, and `only_noise`, whether it is mostly noise. */
  intervals?: boolean;
}

type AxesOf<K> = K extends keyof typeof AXES ? (typeof AXES)[K] : Record<never, never>;
type Axis<K, F> = F extends keyof AxesOf<K> ? (AxesOf<K>[F] extends readonly (infer A extends string)[] ? A : never) : never;

type AnyAxis = { [K in keyof typeof AXES]: (typeof AXES)[K][keyof (typeof AXES)[K]] }[keyof typeof AXES][number];

/** The nodes at which a link begins and ends, by name if the network has names; for rows of one link each. */
export interface Ends {
  tail?: Label;
  head?: Label;
}

interface Intervals {
  lower?: number | null;
  upper?: number | null;
  only_noise?: boolean;
}

/** A row of a field: for an array the number, under the field's name, and its positions; for a list of objects one of them. */
export type Row<K extends Kind, F extends keyof Answer<K>["result"]> = F extends keyof AxesOf<K>
  ? { [axis in Axis<K, F>]: Label } & { [name in F]: number } & Intervals & Ends
  : NonNullable<Answer<K>["result"][F]> extends readonly (infer One)[]
    ? One extends readonly unknown[] | number
      ? { [name in F]: number } & { [axis: `axis_${number}`]: Label } & Intervals
      : { [name in keyof One]: name extends AnyAxis ? Label : One[name] } & Ends
    : never;

type Numbers = number | Numbers[];
type Members = Record<string, unknown>;

/** Node numbers count from 1; everything else in a row, positions of arrays too, counts from 0. */
const NODES = ["origin", "destination", "tail", "head"];

/**
 * The rows of a field, with positions as numbers, or with the names in `called`. `network` is called for the road network
 * of the job if rows are of one link each; without a network they have no ends. RangeError for a field that does not exist
 * or is too large for JSON; TypeError for one that is not a table.
 */
export async function rowsOf(
  { kind, result }: { kind: string; result: object },
  field: string,
  network: () => Promise<RoadNetwork | undefined>,
  { called = {}, intervals = false }: RowsOptions = {},
): Promise<Members[]> {
  const value = fieldOf(result, field);
  const isArray = isNumbers(value);
  if (intervals && !isArray) throw new TypeError(`${field} is not an array of numbers: only these have an interval for each row`);
  const rows = isArray ? numbered(kind, result, field, value, intervals) : listed(field, value);
  const labelled = rows.some((row) => typeof row.link === "number") ? withEnds(rows, await network()) : rows;
  for (const axis of new Set([...Object.keys(called), "step", "block"])) {
    const first = NODES.includes(axis) && !(isArray && axis in (rows[0] ?? {})) ? 1 : 0;
    const places = labelled.map((row) => row[axis]).filter((place) => typeof place === "number");
    const most = places.reduce((most, place) => Math.max(most, place - first + 1), 0);
    const names = called[axis] ?? timesOf(result, axis, most);
    if (!names) continue;
    if (most > names.length) throw new RangeError(`${axis}: ${most} positions, and ${names.length} names`);
    for (const row of labelled) if (typeof row[axis] === "number") row[axis] = names[row[axis] - first];
  }
  return labelled;
}

/** What so many steps, or the blocks, of a day are called; undefined where no clock is known. */
function timesOf(result: object, axis: string, count: number): readonly string[] | undefined {
  const { states } = result as { states?: States };
  if (typeof states !== "object" || states === null || !count) return undefined;
  return axis === "step" ? stepNames(states, count) : states.blocks && blockNames(states);
}

function fieldOf(result: object, field: string): unknown {
  if (Object.hasOwn(result, field)) return (result as Members)[field];
  const { tables = [] } = result as { tables?: string[] };
  if (tables.includes(field)) {
    throw new RangeError(`${field} has more than a million numbers: table(id, "${field}") returns it, as Parquet`);
  }
  const fields = [...Object.keys(result).filter((name) => name !== "tables"), ...tables].join(", ");
  throw new RangeError(`the result has no field ${field}; it has ${fields}`);
}

function isNumbers(value: unknown): value is Numbers[] {
  return Array.isArray(value) && value.every((one) => typeof one === "number" || isNumbers(one));
}

function depthOf(value: Numbers): number {
  return typeof value === "number" ? 0 : 1 + depthOf(value[0] ?? 0);
}

/** A row for each number of an array, in its order. */
function numbered(kind: string, result: object, field: string, value: Numbers[], intervals: boolean): Members[] {
  const known: readonly string[] = (AXES as Record<string, Record<string, readonly string[]>>)[kind]?.[field] ?? [];
  const axes = known.length === depthOf(value) ? known : [];
  const { values, noise_dominates } = (result as Uncertain).uncertainty ?? {};
  const rows: Members[] = [];
  const visit = (inner: Numbers, places: Members, depth: number, lower: unknown, upper: unknown, noise: unknown) => {
    if (typeof inner === "number") {
      const beside = intervals ? { lower: lower ?? null, upper: upper ?? null, only_noise: noise ?? false } : {};
      rows.push({ ...places, [field]: inner, ...beside });
      return;
    }
    const axis = axes[depth] ?? `axis_${depth}`;
    inner.forEach((one, k) => visit(one, { ...places, [axis]: k }, depth + 1, at(lower, k), at(upper, k), at(noise, k)));
  };
  visit(value, {}, 0, values?.[field]?.lower, values?.[field]?.upper, noise_dominates?.[field]);
  return rows;
}

interface Uncertain {
  uncertainty?: { values?: Record<string, { lower?: unknown; upper?: unknown }>; noise_dominates?: Members };
}

/** The entry for a position; a value for the whole array applies to each. */
function at(said: unknown, place: number): unknown {
  return Array.isArray(said) ? said[place] : said;
}

function listed(field: string, value: unknown): Members[] {
  if (Array.isArray(value) && value.every((one) => typeof one === "object" && one !== null && !Array.isArray(one))) {
    return value.map((one) => ({ ...(one as Members) }));
  }
  throw new TypeError(`${field} is not a table`);
}

/** The rows with the ends of their links, right after the link. */
function withEnds(rows: Members[], network: RoadNetwork | undefined): Members[] {
  const { links = [], node_names: names } = network ?? {};
  const ends = links.map(({ tail, head }) => ({ tail: names?.[tail - 1] ?? tail, head: names?.[head - 1] ?? head }));
  if (rows.some(({ link }) => !ends[link as number])) return rows;
  return rows.map(({ link, ...rest }) => ({ link, ...ends[link as number], ...rest }));
}
