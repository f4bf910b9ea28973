/**
 * An agent of a cloud multi-agent problem: its objective stays here, and the cloud sees only its state.
 *
 *     const agent = Agent.fromToken(token, { name: "x1", announcement: { lower: -10, upper: 10, radius: 1 }, limitDelta: "0.05" });
 *     const found = await minimize(agent, (x) => 2 * (x - 9) + 1);
 */

import type { Agent } from "./agent.js";
import { type Bytes, double, doublesOf, fromHex, hex, same } from "./bytes.js";
import { isObject } from "./documents.js";
import { AgentError, NotTrusted } from "./errors.js";
import * as history from "./history.js";
import type { Outcome, Round, Step } from "./rounds.js";
import * as signing from "./signing.js";

/** The outcome of a session: this agent's last state, and the multipliers, which are the same for all agents. */
export interface Minimum {
  readonly state: string;
  readonly code: string;
  readonly x: number;
  readonly multipliers: readonly number[];
  /** The last digest of the chain of broadcasts that this agent was shown, hexadecimal; empty without success. */
  readonly history: string;
  /** Fingerprints of the agents who have not signed the same digest: if there are any, the cloud may have deceived them. */
  readonly unsigned: readonly string[];
}

/** The state between rounds: x, multipliers, and the public figures that steps need. */
interface Kept {
  x: number;
  multipliers: number[];
  range: [number, number];
  /** How many numbers the cloud outputs in a step. */
  outputs: number;
  steps: number;
  /** The position among the outputs, and the constraint, of each derivative with respect to this agent's state. */
  own: [number, number][];
  schedule: [number, number, number, number];
  number: number;
  history: string;
}

/**
 * Takes part with an objective whose derivative is `slope`. Starts at `initial`, or in the middle of the range; the range
 * is the announced one, cut to what the constraints allow, which every agent is told. A slope that throws or is NaN counts
 * as 0 in that step; it is tried at the start before the server is contacted, with AgentError if it throws.
 */
export async function minimize(agent: Agent, slope: (x: number) => number, initial?: number): Promise<Minimum> {
  if (agent.announcement.dimension !== undefined) {
    throw new AgentError("a state with a dimension is a vector: agents in TypeScript have states of one number; use the Python agent");
  }
  if (agent.announcement.masks !== undefined) throw new AgentError(`masks: ${MASKED}`);
  trySlope(agent.announcement, slope, initial);
  const outcome = await agent.participate(stepOf(slope, initial));
  const kept = outcome.finalState ? (JSON.parse(outcome.finalState) as Kept) : undefined;
  if (outcome.state !== "succeeded" || kept === undefined) {
    const { state, code } = outcome;
    return { state, code, x: kept?.x ?? Number.NaN, multipliers: kept?.multipliers ?? [], history: "", unsigned: [] };
  }
  return ended(agent, kept, slope, outcome);
}

const MASKED = "agents in TypeScript send the cloud their states; use the Python agent";

/** The step that answers each broadcast, see `minimize`. */
export function stepOf(slope: (x: number) => number, initial?: number): Step {
  return (round) => {
    if (isObject(round.parameters) && "sums" in round.parameters) throw new AgentError(`the sums of this job are masked: ${MASKED}`);
    const { kept, end } = reading(() => {
      const [before, told] = history.split(round.broadcast);
      let after: Kept;
      if (!round.state) {
        after = begun(round, initial, told);
      } else {
        after = JSON.parse(round.state) as Kept;
        if (after.number === round.number - 1 && !same(before, fromHex(after.history))) {
          throw new NotTrusted("the cloud's broadcast does not follow from the one that this agent was shown");
        }
        after = moved(after, slope, round.number, told);
      }
      return { kept: after, end: history.after(round.broadcast) };
    });
    kept.number = round.number;
    kept.history = hex(end);
    round.state = JSON.stringify(kept);
    if (round.number < kept.steps) return double(kept.x);
    return round.identity.sign(signing.history(round.rosterDigest, end));
  };
}

/**
 * The result after success: the last broadcast repeats the one before, which this agent may have missed, and holds the
 * signatures of all agents.
 */
function ended(agent: Agent, before: Kept, slope: (x: number) => number, outcome: Outcome): Minimum {
  return reading(() => {
    let kept = before;
    const length = 32 + 8 * (kept.outputs + kept.multipliers.length);
    const last = outcome.broadcast.subarray(0, length);
    const signatures = history.unpacked(outcome.broadcast.subarray(length));
    const [previous, told] = history.split(last);
    const end = history.after(last);
    const shown = kept.number === kept.steps ? end : kept.number === kept.steps - 1 ? previous : fromHex(kept.history);
    if (!same(shown, fromHex(kept.history))) {
      throw new NotTrusted("the cloud's last broadcast does not follow from the one that this agent was shown");
    }
    if (kept.number < kept.steps) kept = moved(kept, slope, kept.steps, told);
    const missing = history.unsigned(agent.rosterDigest, agent.roster.agents, end, signatures);
    return { state: outcome.state, code: outcome.code, x: kept.x, multipliers: kept.multipliers, history: hex(end), unsigned: missing };
  });
}

function begun(round: Round, initial: number | undefined, told: Bytes): Kept {
  const signed = round.roster.agents.find((one) => one.fingerprint === round.identity.fingerprint);
  const { box, layout, schedule } = round.parameters as { box: [string, number, number][]; layout: [number, string | null][]; schedule: unknown };
  const [, low, high] = box.find(([of]) => of === signed?.name) as [string, number, number];
  const announced = signed?.announcement as { lower: number; upper: number };
  if (!(announced.lower <= low && low <= high && high <= announced.upper)) {
    throw new NotTrusted(`the cloud's range ${low} to ${high} is not within the one that this agent announced`);
  }
  if (!isObject(schedule)) throw new RangeError("no schedule");
  const figures = ["gamma", "alpha", "c1", "c2"].map((name) => schedule[name]);
  if (!figures.every((one) => typeof one === "number" && Number.isFinite(one))) throw new RangeError("no schedule");
  const own: [number, number][] = [];
  layout.forEach(([constraint, of], place) => {
    if (of === signed?.name) own.push([place, constraint]);
  });
  const numbers = doublesOf(told);
  return {
    x: Math.min(Math.max(initial ?? (low + high) / 2, low), high),
    // For an agent that missed the first rounds, the multipliers follow the outputs of the last one.
    multipliers: round.number ? numbers.slice(layout.length) : numbers,
    range: [low, high],
    outputs: layout.length,
    steps: round.rounds - 1, // the last round is that of signatures
    own,
    schedule: figures as [number, number, number, number],
    number: round.number,
    history: "",
  };
}

/** Evaluates the slope at the start, which defaults to the middle of the range; AgentError if it throws. */
function trySlope(announced: Agent["announcement"], slope: (x: number) => number, initial?: number): void {
  const x = initial ?? ((announced.lower as number) + (announced.upper as number)) / 2;
  try {
    slope(x);
  } catch (error) {
    const says = `the slope of this agent's own objective failed at ${x}: ${(error as Error).message}`;
    throw new AgentError(says, { cause: error });
  }
}

/** The state after step k, from the cloud's answer: its noised outputs, then the next multipliers. */
function moved(kept: Kept, slope: (x: number) => number, k: number, told: Bytes): Kept {
  const answer = doublesOf(told);
  if (answer.length !== kept.outputs + kept.multipliers.length) throw new RangeError("another number of outputs");
  const gradient = kept.multipliers.map(() => 0);
  for (const [place, constraint] of kept.own) gradient[constraint] = answer[place] as number;
  const [gamma, alpha, c1, c2] = kept.schedule;
  const step = gamma * Math.exp(-c1 * Math.log(k));
  const shrink = alpha * Math.exp(-c2 * Math.log(k));
  // Where the objective has no slope it counts as 0: a state that is NaN would end the job, and reveal to everybody
  // that this agent's objective has no slope here.
  let pull = slopeAt(kept.x, slope);
  kept.multipliers.forEach((multiplier, place) => (pull += (gradient[place] as number) * multiplier));
  const [low, high] = kept.range;
  const next = Math.min(Math.max(kept.x - step * (pull + shrink * kept.x), low), high);
  return { ...kept, x: Number.isFinite(next) ? next : kept.x, multipliers: answer.slice(kept.outputs) };
}

function slopeAt(x: number, slope: (x: number) => number): number {
  try {
    const found = slope(x);
    return Number.isNaN(found) ? 0 : found;
  } catch {
    return 0; // leaving the session would reveal as much
  }
}

/** Runs `work` on a message of the cloud; NotTrusted if the message cannot be read. */
function reading<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw new NotTrusted(`the cloud's message cannot be read: ${(error as Error).message}`);
  }
}
