/** The uncertainty that a result states: how far the noise may have moved it, and whether it is mostly noise. */

/**
 * Bounds of an interval, numbers or arrays of the field's shape, null where unknown; `level` is its probability, `kind`
 * what it allows for: `noise` alone, `noise_and_bins`, or `confidence` (noise and who is in the data).
 */
export interface Interval<T = unknown> {
  lower: T;
  upper: T;
  level: number;
  kind?: string;
}

interface Uncertainty {
  level: number;
  values: Record<string, { lower?: unknown; upper?: unknown }>;
  kinds?: Record<string, string>;
  mostly_noise: boolean;
}

function uncertaintyOf(result: object): Uncertainty | undefined {
  return (result as { uncertainty?: Uncertainty }).uncertainty;
}

/** Whether the result as a whole is mostly noise, so that its numbers tell little. */
export function isMostlyNoise(result: object): boolean {
  return uncertaintyOf(result)?.mostly_noise ?? false;
}

/** The interval of a field; undefined if the result states none. Throws RangeError if there is no such field. */
export function intervalOf<T = unknown>(result: object, field: string): Interval<T> | undefined {
  const said = uncertaintyOf(result);
  const found = said?.values[field];
  const { tables = [] } = result as { tables?: string[] };
  if (!found && !Object.hasOwn(result, field) && !tables.includes(field)) {
    const others = Object.keys(said?.values ?? {}).join(", ") || "none";
    throw new RangeError(`the result has no field ${field}; fields with intervals: ${others}`);
  }
  if (!said || !found) return undefined;
  const kind = said.kinds?.[field];
  return { lower: found.lower as T, upper: found.upper as T, level: said.level, ...(kind === undefined ? {} : { kind }) };
}
