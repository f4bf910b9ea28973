/** What a result says of its own uncertainty: how far the noise may have moved it, and whether it is mostly that. */

/** Ends of an interval, numbers or arrays of the field's shape, null where nothing can be said; `level` its probability. */
export interface Interval<T = unknown> {
  lower: T;
  upper: T;
  level: number;
}

interface Uncertainty {
  level: number;
  values: Record<string, { lower?: unknown; upper?: unknown }>;
  mostly_noise: boolean;
}

function uncertaintyOf(result: object): Uncertainty | undefined {
  return (result as { uncertainty?: Uncertainty }).uncertainty;
}

/** Whether the result as a whole is mostly noise: then its numbers tell little. */
export function isMostlyNoise(result: object): boolean {
  return uncertaintyOf(result)?.mostly_noise ?? false;
}

/** The interval of a field; undefined where the result says nothing of it. Throws RangeError for a field that there is not. */
export function intervalOf<T = unknown>(result: object, field: string): Interval<T> | undefined {
  const said = uncertaintyOf(result);
  const found = said?.values[field];
  const { tables = [] } = result as { tables?: string[] };
  if (!found && !Object.hasOwn(result, field) && !tables.includes(field)) {
    throw new RangeError(`${field}; ${Object.keys(said?.values ?? {}).join(", ") || "nothing here"} has intervals`);
  }
  return said && found ? { lower: found.lower as T, upper: found.upper as T, level: said.level } : undefined;
}
