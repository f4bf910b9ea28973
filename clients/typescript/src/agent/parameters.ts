/** What the owner signs of a session of encrypted sums, read with care: whatever is not known here is refused. */

import { isObject } from "./documents.js";
import { NotTrusted, Unacceptable } from "./errors.js";
import { FixedPoint } from "./fixedPoint.js";
import { OPERATOR, PROTOCOL } from "./frames.js";
import { SETTLING_SUMS } from "./spds.js";

/** docs/protocol.md, "Parameters of the sums". */
export interface Sums {
  readonly dimension: number;
  readonly rounds: number;
  readonly bound: number;
  readonly fraction_bits: number;
  readonly colluding: number;
  readonly dealer: number;
  readonly exposure: "accepted" | undefined;
  readonly tolerance: number | undefined;
  /** The largest magnitude of each entry of a contribution, and of a sum with the operator's part; undefined where nobody says. */
  readonly reach: readonly number[] | undefined;
  readonly most: readonly number[] | undefined;
  /** As they were signed, for comparison. */
  readonly signed: Readonly<Record<string, unknown>>;
}

export interface Steps {
  readonly primal: number;
  readonly dual: number;
  readonly shrink: number;
  readonly regularization: number;
  readonly iterations: number;
}

export interface PlanParameters {
  readonly coupled: number;
  readonly constraints: number;
  readonly sums: Sums;
  readonly steps: Steps;
}

const SUMS = new Set([
  ...["dimension", "rounds", "bound", "scheme", "key_bits", "fraction_bits", "slot_bits", "colluding", "allow_dropout"],
  ...["dealer", "noise_sigma", "clip", "exposure", "tolerance", "reach", "most"],
]);
const STEPS = new Set(["primal", "dual", "shrink", "regularization", "iterations"]);
const PLAN = new Set(["protocol", "agents", "coupled", "constraints", "sums", "steps"]);

/** Of the roster that the owner has signed. Unacceptable for what this agent does not know, or cannot do. */
export function planOf(parameters: unknown, agents: number): PlanParameters {
  if (parameters === undefined) throw new NotTrusted("the owner has not signed the parameters of the sums");
  const plan = known(parameters, PLAN, "parameters");
  if (plan.protocol !== PROTOCOL) throw new Unacceptable(`this agent speaks ${PROTOCOL}, not ${String(plan.protocol)}`);
  if (plan.agents !== agents) throw new Unacceptable("the owner has signed parameters for another number of agents");
  const coupled = count(plan.coupled, "coupled", 0);
  const constraints = count(plan.constraints, "constraints", 0);
  const sums = sumsOf(plan.sums, agents);
  if (coupled + constraints !== sums.dimension) throw new Unacceptable("coupled and constraints are not the dimension of the sums");
  const steps = known(plan.steps, STEPS, "steps");
  const { primal, dual, shrink, regularization } = steps;
  if (!(positive(primal) && positive(dual) && positive(shrink) && shrink <= 1 && isNumber(regularization) && regularization >= 0)) {
    throw new Unacceptable("step sizes are positive, shrink is at most 1, regularization is not negative");
  }
  const iterations = count(steps.iterations, "iterations", 1);
  const asked = sums.tolerance !== undefined;
  if (sums.rounds !== iterations + (asked ? SETTLING_SUMS : 0)) {
    throw new Unacceptable("the sums that the owner has signed do not fit these steps");
  }
  return { coupled, constraints, sums, steps: { primal, dual, shrink, regularization, iterations } };
}

/** The parameters of the sums. Unacceptable with the figures. */
export function sumsOf(value: unknown, agents: number): Sums {
  const sums = known(value, SUMS, "sums");
  const { scheme, allow_dropout, noise_sigma, clip, slot_bits, exposure, tolerance, bound } = sums;
  if (scheme !== "masking") throw new Unacceptable(`this agent knows the scheme masking alone, not ${String(scheme)}`);
  if (allow_dropout !== false) throw new Unacceptable("this agent takes part in sums over the whole roster alone, without allow_dropout");
  if (noise_sigma !== 0 || clip !== 0) throw new Unacceptable("this agent makes no noise: the sums ask for it");
  if (slot_bits !== 64) throw new Unacceptable("masking adds modulo 2^64: slot_bits must be 64");
  if (agents < 3 || agents >= OPERATOR) throw new Unacceptable(`sums are over 3 to ${OPERATOR - 1} agents, not ${agents}`);
  const colluding = count(sums.colluding, "colluding", 1);
  if (colluding > agents - 2) throw new Unacceptable(`of ${agents} agents 1 to ${agents - 2} may collude, not ${colluding}`);
  const dealer = count(sums.dealer, "dealer", 0);
  if (dealer >= agents) throw new Unacceptable("the dealer is one of the agents");
  if (exposure !== undefined && exposure !== "accepted") throw new Unacceptable("exposure is accepted or left out");
  if (tolerance !== undefined && !(positive(tolerance) && tolerance < 1)) throw new Unacceptable("the tolerance lies between 0 and 1");
  if (!isNumber(bound)) throw new Unacceptable("the bound is a number");
  if (tolerance !== undefined && bound <= 0) throw new Unacceptable("with a tolerance the bound is above 0: agents could not say no");
  const dimension = count(sums.dimension, "dimension", 1);
  const read: Sums = {
    dimension,
    rounds: count(sums.rounds, "rounds", 1),
    bound,
    fraction_bits: count(sums.fraction_bits, "fraction_bits", 0),
    colluding,
    dealer,
    exposure,
    tolerance,
    reach: figures(sums.reach, "reach", dimension),
    most: figures(sums.most, "most", dimension),
    signed: sums,
  };
  if ((read.reach === undefined) !== (read.most === undefined)) throw new Unacceptable("reach and most are signed together");
  pointOf(read, agents); // OutOfRange where sums might not fit
  return read;
}

/** n contributions and the operator's in a slot. */
export const pointOf = (sums: Sums, agents: number): FixedPoint => new FixedPoint(sums.bound, agents + 1, sums.fraction_bits);

function known(value: unknown, names: ReadonlySet<string>, what: string): Readonly<Record<string, unknown>> {
  if (!isObject(value)) throw new Unacceptable(`the owner has signed no ${what}`);
  // `method` says which iteration the sums belong to; left out it is this one, and `rpds` is this one with its own steps.
  const ours = (name: string, said: unknown): boolean => name === "method" && (said === "spds" || said === "rpds");
  const strange = Object.entries(value).filter(([name, said]) => !names.has(name) && !ours(name, said));
  if (strange.length) throw new Unacceptable(`the owner has signed ${what} that this version does not know: ${strange.map(([name]) => name).join(", ")}`);
  return value;
}

function figures(value: unknown, name: string, dimension: number): readonly number[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || value.length !== dimension || !value.every((one) => isNumber(one) && one >= 0)) {
    throw new Unacceptable(`${name} has a number of at least 0 for each of the ${dimension} entries of a sum`);
  }
  return value as number[];
}

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const positive = (value: unknown): value is number => isNumber(value) && value > 0;

function count(value: unknown, name: string, least: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least) throw new Unacceptable(`${name} is a whole number of at least ${least}`);
  return value as number;
}
