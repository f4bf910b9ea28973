/**
 * An agent's own steps on a coupled quadratic program: the shrunken primal-dual subgradient method on opened sums
 * (docs/protocol.md, "Steps of a coupled quadratic program"), and whether they have settled.
 */

import { AgentError } from "./errors.js";
import type { Update } from "./machine.js";
import type { Steps } from "./parameters.js";

/** `f(x) = |A_q x|² + a_l · x`: no factor ½. */
export interface QuadraticCost {
  readonly A_q: readonly (readonly number[])[];
  readonly a_l: readonly number[];
}

/** `lower <= x <= upper`, one number per variable; infinite bounds are allowed. */
export interface Box {
  readonly lower: readonly number[];
  readonly upper: readonly number[];
}

export type Matrix = readonly (readonly number[])[];

/** `A x`. */
export const times = (A: Matrix, x: readonly number[]): number[] => A.map((row) => row.reduce((sum, entry, j) => sum + entry * at(x, j), 0));

/** `A' y`, for a matrix with so many columns. */
function transposed(A: Matrix, y: readonly number[], columns: number): number[] {
  return Array.from({ length: columns }, (_, j) => A.reduce((sum, row, i) => sum + at(row, j) * at(y, i), 0));
}

function at(values: readonly number[], place: number): number {
  const value = values[place];
  if (value === undefined) throw new AgentError("the shapes of this agent's data disagree");
  return value;
}

export const project = (box: Box, x: readonly number[]): number[] =>
  x.map((value, j) => Math.min(Math.max(value, at(box.lower, j)), at(box.upper, j)));

/** `max |A x|` over the box, entry by entry: the largest magnitudes that a contribution can reach. */
export function reach(A: Matrix, box: Box): number[] {
  const part = (entry: number, end: number): number => (entry === 0 ? 0 : entry * end);
  return A.map((row) => {
    let [low, high] = [0, 0];
    row.forEach((entry, j) => {
      low += part(entry, entry > 0 ? at(box.lower, j) : at(box.upper, j));
      high += part(entry, entry > 0 ? at(box.upper, j) : at(box.lower, j));
    });
    return Math.max(Math.abs(low), Math.abs(high));
  });
}

export const SETTLING_SUMS = 2; // sums after the last step, if agents say whether they have settled
const FLAT = 1e-3; // relative to a variable's curvature with the sums: an own curvature below it tells nothing of x
const SWEEPS = 20_000;
const EXACT = 1e-13; // relative to an agent's own size: where its best point has been found

/** What agents are asked at the end (docs/protocol.md, "Whether the sums have settled"). */
export interface Asked {
  readonly tolerance: number;
  readonly agents: number;
  /** The largest entry of a contribution, which is also a vote. */
  readonly bound: number;
  /** How far the grid may move an entry of a sum. */
  readonly rounding: number;
  /** The largest that sizes may be by what the owner has signed; undefined where nobody says. */
  readonly ceiling?: readonly number[] | undefined;
}

/** Whether the sums have settled, by sums alone: the last ones of a step, the sizes of rows, and the number of votes against. */
export function haveSettled(
  asked: Asked,
  coupled: number,
  sums: readonly number[],
  multipliers: readonly number[],
  sizes: readonly number[],
  votes: number,
): boolean {
  const { tolerance, rounding, ceiling } = asked;
  if (votes !== 0) return false;
  const plausible = (size: number, j: number): boolean =>
    size >= 0 && (ceiling === undefined || size <= at(ceiling, j) * (1 + 1e-9) + rounding);
  if (!sizes.every(plausible)) return false;
  return multipliers.every((price, j) => {
    const size = at(sizes, coupled + j);
    const excess = at(sums, coupled + j);
    const residual = price > 0 ? Math.abs(excess) : Math.max(excess, 0);
    return residual === 0 || (size === 0 && residual <= rounding) || residual + rounding <= tolerance * size;
  });
}

/** One agent of the problem: its data, its x and its copy of the multipliers. */
export class Participant implements Update {
  x: number[];
  multipliers: number[];
  /** The number of steps. */
  done = 0;
  /** The sums of the last step, and by how much it moved x. */
  last: readonly number[] = [];
  moved: readonly number[] = [];
  /** The sum of the sizes of rows, and the number of votes against; undefined until they were opened. */
  sizes: readonly number[] | undefined;
  votes: number | undefined;
  readonly #origin: number[];

  constructor(
    readonly A_u: Matrix,
    readonly A_g: Matrix,
    readonly cost: QuadraticCost,
    readonly box: Box,
    readonly steps: Steps,
    start?: readonly number[],
    readonly asked?: Asked | undefined,
  ) {
    const k = cost.a_l.length;
    if (![...A_u, ...A_g, ...cost.A_q, box.lower, box.upper].every((row) => row.length === k)) {
      throw new AgentError("A_u, A_g, A_q, a_l, lower and upper need one column per variable of the agent");
    }
    if (!box.lower.every((low, j) => low <= at(box.upper, j))) throw new AgentError("lower must not exceed upper");
    this.#origin = project(box, cost.a_l.map(() => 0));
    this.x = [...(start ?? this.#origin)];
    this.multipliers = A_g.map(() => 0);
  }

  /** `draw`: a number in [0, 1), which hides the agent's sizes. */
  next(sums: readonly number[] | undefined, draw: () => number): number[] | undefined {
    const { asked, steps } = this;
    if (sums !== undefined) {
      if (this.done < steps.iterations) this.#step(sums);
      else if (this.sizes === undefined) this.sizes = sums;
      else if (asked !== undefined) this.votes = Math.round(at(sums, 0) / asked.bound);
    }
    const A = [...this.A_u, ...this.A_g];
    if (this.done < steps.iterations) return times(A, this.x);
    if (asked === undefined || this.votes !== undefined) return undefined;
    if (this.sizes === undefined) {
      const factor = 1 - draw() / 2;
      return times(A.map(magnitudes), magnitudes(this.#own)).map((one) => Math.min(one * factor, asked.bound));
    }
    const against = !this.#hasSettled(asked, this.sizes);
    return A.map((_, j) => (j === 0 && against ? asked.bound : 0));
  }

  get alone(): boolean {
    return this.done >= this.steps.iterations;
  }

  /** The number of sums that were opened. */
  get opened(): number {
    return this.done + (this.sizes === undefined ? 0 : 1) + (this.votes === undefined ? 0 : 1);
  }

  /** By how much the last step's sums exceed each constraint, in its unit. */
  get violations(): number[] {
    return this.last.slice(this.A_u.length).map((one) => Math.max(one, 0));
  }

  settled(tolerance: number): boolean {
    const { asked, sizes, votes } = this;
    if (asked?.tolerance !== tolerance || sizes === undefined || votes === undefined) return false;
    return haveSettled(asked, this.A_u.length, this.last, this.multipliers, sizes, votes);
  }

  /** x from the point of its box nearest to zero: what is fixed hides no error. */
  get #own(): number[] {
    return this.x.map((one, v) => one - at(this.#origin, v));
  }

  /** Whether x is this agent's best point at the prices, within the tolerance. */
  #hasSettled(asked: Asked, sizes: readonly number[]): boolean {
    const { A_u, A_g, cost, x, last, multipliers, steps } = this;
    const A = [...A_u, ...A_g];
    const own = this.#own;
    const rows = times(A.map(magnitudes), magnitudes(own));
    if (rows.some((one, j) => one > 0 && asked.tolerance * at(sizes, j) < asked.rounding)) return false;
    const k = x.length;
    const gram = (M: Matrix): number[][] => x.map((_, i) => x.map((_, j) => M.reduce((sum, row) => sum + at(row, i) * at(row, j), 0)));
    const curved = gram(cost.A_q).map((row, i) => row.map((one, j) => 2 * one + (i === j ? steps.regularization : 0)));
    const joint = gram(A_u);
    const bends = curved.map((row, j) => at(row, j) + at(joint[j] ?? [], j));
    const flat = bends.some((one) => one <= 0) || leastEigenvalue(curved, bends) < FLAT;
    const H = flat ? curved.map((row, i) => row.map((one, j) => one + at(joint[i] ?? [], j))) : curved;
    const priced = transposed(A_u, last.slice(0, A_u.length), k).map((one, j) => one + at(transposed(A_g, multipliers, k), j));
    const linear = priced.map((one, j) => at(cost.a_l, j) + one - (flat ? at(times(joint, x), j) : 0));
    const best = boxMinimum(H, linear, this.box, x, bends);
    if (best === undefined) return false;
    const within = (tolerance: number, apart: readonly number[]): boolean => {
      const size = Math.sqrt(own.reduce((sum, one, j) => sum + at(bends, j) * one * one, 0));
      return apart.every((signed, v) => {
        const one = Math.abs(signed);
        if (one <= tolerance * Math.abs(at(own, v))) return true;
        const used = A.map((row, j) => [Math.abs(at(row, v)), Math.max(at(sizes, j), 0)] as const).filter(([entry]) => entry > 0);
        if (used.length === 0) return Math.sqrt(at(bends, v)) * one <= tolerance * size;
        return used.every(([entry, row]) => entry * one <= (tolerance * row) / asked.agents);
      });
    };
    const apart = best.map((one, j) => one - at(x, j));
    return within(asked.tolerance * (flat ? FLAT : 1), apart) && within(asked.tolerance, this.moved);
  }

  /** One step, given `(Σ A_u x + c, Σ A_g x + d)` at the current x of all agents. */
  #step(sums: readonly number[]): void {
    const { A_u, A_g, cost, box, x, multipliers } = this;
    const { primal, dual, shrink, regularization } = this.steps;
    const k = x.length;
    const coupled = transposed(A_u, sums.slice(0, A_u.length), k);
    const curved = transposed(cost.A_q, times(cost.A_q, x), k);
    const priced = transposed(A_g, multipliers, k);
    const gradient = x.map((one, j) => at(coupled, j) + 2 * at(curved, j) + at(cost.a_l, j) + at(priced, j) + regularization * one);
    const away = (from: readonly number[], factor: number): number[] =>
      this.#origin.map((origin, j) => origin + factor * (at(from, j) - origin));
    const inner = project(box, away(x, shrink).map((one, j) => one - primal * at(gradient, j)));
    this.x = project(box, away(inner, 1 / shrink));
    this.multipliers = multipliers.map((one, j) => {
      const ascent = at(sums, A_u.length + j) - regularization * one;
      return Math.max(shrink * one + dual * ascent, 0) / shrink;
    });
    this.moved = this.x.map((one, j) => one - at(x, j));
    this.last = sums;
    this.done += 1;
  }
}

const magnitudes = (values: readonly number[]): number[] => values.map(Math.abs);

/** The least eigenvalue of a positive semidefinite matrix whose rows and columns are divided by the roots of `bends`: by Jacobi's rotations. */
function leastEigenvalue(matrix: readonly (readonly number[])[], bends: readonly number[]): number {
  const S = matrix.map((row, i) => row.map((one, j) => one / Math.sqrt(at(bends, i) * at(bends, j))));
  const entry = (i: number, j: number): number => at(S[i] ?? [], j);
  const put = (i: number, j: number, value: number): void => {
    (S[i] as number[])[j] = value;
  };
  const k = S.length;
  for (let sweep = 0; sweep < 50; sweep += 1) {
    let off = 0;
    for (let p = 0; p < k; p += 1) {
      for (let q = p + 1; q < k; q += 1) {
        const apart = entry(p, q);
        off = Math.max(off, Math.abs(apart));
        if (apart === 0) continue;
        const theta = (entry(q, q) - entry(p, p)) / (2 * apart);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1);
        for (let i = 0; i < k; i += 1) {
          const [one, other] = [entry(i, p), entry(i, q)];
          put(i, p, c * one - t * c * other);
          put(i, q, t * c * one + c * other);
        }
        for (let i = 0; i < k; i += 1) {
          const [one, other] = [entry(p, i), entry(q, i)];
          put(p, i, c * one - t * c * other);
          put(q, i, t * c * one + c * other);
        }
      }
    }
    if (off < 1e-12) break;
  }
  return Math.min(...S.map((_, i) => entry(i, i)));
}

/**
 * The least of `½ z'Hz + p'z` in the box, variable by variable from `start`; undefined where it is not found, or where nothing
 * bounds it. It has been found where no variable moves by more than rounding of the agent's own size.
 */
function boxMinimum(H: Matrix, p: readonly number[], box: Box, start: readonly number[], bends: readonly number[]): number[] | undefined {
  const z = [...start];
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    let [moved, size] = [0, 0];
    for (let j = 0; j < z.length; j += 1) {
      const own = at(H[j] ?? [], j);
      const slope = at(times([H[j] ?? []], z), 0) + at(p, j);
      const before = at(z, j);
      const free = own > 0 ? before - slope / own : slope === 0 ? before : slope * Number.NEGATIVE_INFINITY;
      const next = Math.min(Math.max(free, at(box.lower, j)), at(box.upper, j));
      if (!Number.isFinite(next)) return undefined;
      const weight = Math.sqrt(Math.max(at(bends, j), 0)) || 1;
      moved = Math.max(moved, weight * Math.abs(next - before));
      size = Math.max(size, weight * Math.abs(next));
      z[j] = next;
    }
    if (moved <= EXACT * size) return z;
  }
  return undefined;
}
