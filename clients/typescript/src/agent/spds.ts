/**
 * An agent's own steps on a coupled quadratic program: the shrunken primal-dual subgradient method on opened sums
 * (docs/protocol.md, "Steps of a coupled quadratic program"), and whether the sums have settled.
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

const WINDOW = 10; // moves that must all be small, since an oscillation moves little where it turns
const ROUNDING = 1e-9; // relative to the largest entry of a sum: smaller moves are fixed-point rounding

/** How the opened sums move, and whether they keep the constraints; computed from the sums only. */
export class Trend {
  last: readonly number[] | undefined;
  recent: number[] = [];
  longest = 0;
  largest = 0;

  /** `coupled`: how many entries of a sum come before those of the constraints, which must be at most 0. */
  constructor(readonly coupled: number) {}

  follow(sums: readonly number[]): void {
    const { last } = this;
    if (last !== undefined) {
      const moved = sums.reduce((most, one, j) => Math.max(most, Math.abs(one - at(last, j))), 0);
      this.recent = [...this.recent, moved].slice(-WINDOW);
      this.longest = Math.max(this.longest, moved);
    }
    this.largest = sums.reduce((most, one) => Math.max(most, Math.abs(one)), this.largest);
    this.last = sums;
  }

  /** The longest of the last moves relative to the longest of the run; infinite before there are enough. */
  get moving(): number {
    if (this.recent.length < WINDOW) return Number.POSITIVE_INFINITY;
    const moved = Math.max(...this.recent);
    return moved <= ROUNDING * this.largest ? 0 : moved / this.longest;
  }

  /** The largest violation of the last constraints, relative to the largest entry of any sum. */
  get violation(): number {
    if (this.last === undefined) return Number.POSITIVE_INFINITY;
    const above = this.last.slice(this.coupled).reduce((most, one) => Math.max(most, one), 0);
    return above > 0 ? above / this.largest : 0;
  }

  settled(tolerance: number): boolean {
    return Math.max(this.moving, this.violation) <= tolerance;
  }
}

/** One agent of the problem: its data, its x and its copy of the multipliers. */
export class Participant implements Update {
  x: number[];
  multipliers: number[];
  done = 0;
  readonly trend: Trend;
  readonly #origin: number[];

  constructor(
    readonly A_u: Matrix,
    readonly A_g: Matrix,
    readonly cost: QuadraticCost,
    readonly box: Box,
    readonly steps: Steps,
    start?: readonly number[],
  ) {
    const k = cost.a_l.length;
    if (![...A_u, ...A_g, ...cost.A_q, box.lower, box.upper].every((row) => row.length === k)) {
      throw new AgentError("A_u, A_g, A_q, a_l, lower and upper need one column per variable of the agent");
    }
    if (!box.lower.every((low, j) => low <= at(box.upper, j))) throw new AgentError("lower must not exceed upper");
    this.#origin = project(box, cost.a_l.map(() => 0));
    this.x = [...(start ?? this.#origin)];
    this.multipliers = A_g.map(() => 0);
    this.trend = new Trend(A_u.length);
  }

  next(sums: readonly number[] | undefined): number[] | undefined {
    if (sums !== undefined) {
      this.#step(sums);
      this.trend.follow(sums);
      this.done += 1;
    }
    return this.done === this.steps.iterations ? undefined : [...times(this.A_u, this.x), ...times(this.A_g, this.x)];
  }

  settled(tolerance: number): boolean {
    return this.trend.settled(tolerance);
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
  }
}
