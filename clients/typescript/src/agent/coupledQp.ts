/**
 * Coupled quadratic programs in an agent: its own steps on sums that only the agents can decrypt.
 *
 * The state of the protocol and of the optimizer is saved with every answer, before it is sent: a new process goes on from
 * there, and nobody has seen an answer that was not saved. The session's folder therefore holds keys and x.
 *
 * An agent starts at a random point of its box. From a start that everybody knows, such as zero, the first sum would be the
 * operator's c and d whoever takes part. In the same job without one of the agents the others would then send the same next,
 * and the difference of the two sums would be what that agent had sent.
 */

import { randomBytes } from "node:crypto";

import type { Agent } from "./agent.js";
import { hex, sortedJson, utf8 } from "./bytes.js";
import type { Roster } from "./documents.js";
import { check, type Demands } from "./demands.js";
import { AgentError, FolderLost, NotTrusted, Reused, Unacceptable } from "./errors.js";
import { Journal } from "./journal.js";
import { Machine, type SavedMachine } from "./machine.js";
import { planOf, type PlanParameters } from "./parameters.js";
import type { Round } from "./rounds.js";
import { type Box, type Matrix, Participant, project, type QuadraticCost, reach } from "./spds.js";

/** This agent's own part of the problem. `lower` and `upper`: one number, or one per variable. */
export interface Part {
  readonly A_u: Matrix;
  readonly A_g: Matrix;
  readonly cost: QuadraticCost;
  readonly lower?: number | readonly number[];
  readonly upper: number | readonly number[];
  /** This agent's own step size instead of the job's. */
  readonly primal?: number;
  readonly demands?: Demands;
}

export interface Optimum {
  readonly x: readonly number[];
  /** Multipliers of the coupling constraints, the same for all agents. */
  readonly multipliers: readonly number[];
  readonly rounds: number;
  /** Hash of the transcript that all agents have signed, hexadecimal. */
  readonly transcript: string;
  /**
   * Whether x is the optimum and the constraints are kept, within the tolerance that the owner has signed; all agents have
   * signed it. Undefined if the owner asks for no such check.
   */
  readonly settled: boolean | undefined;
  /** By how much each constraint was exceeded in the sums of the last step, in its own unit. */
  readonly violations: readonly number[];
}

interface Saved {
  machine: SavedMachine;
  /** Digest of the agent's own part of the problem, under the session's key. */
  data: string;
  x: number[];
  multipliers: number[];
  done: number;
  last: readonly number[];
  moved: readonly number[];
  sizes: readonly number[] | null;
  votes: number | null;
  journal: { settled: number; pending: string[] };
}

/** Takes part in the session until it ends. AgentError if it fails, or the data do not fit the signed parameters. */
export async function solve(agent: Agent, part: Part): Promise<Optimum> {
  const run = new Run(agent, part);
  const outcome = await agent.participate(
    Object.assign((round: Round) => run.step(round), {
      check: (roster: Roster, state: string, exposed: number) => run.check(roster, state, exposed),
      opens: (roster: Roster) => numbersOf(roster),
      opened: (state: string) => (state ? (JSON.parse(state) as Saved).machine.numbers : 0),
      withoutSecrets,
    }),
  );
  if (outcome.state !== "succeeded") {
    const missing = outcome.blamed.map(({ fingerprint, cause }) => `agent ${fingerprint.slice(0, 16)}: ${cause}`);
    const why = [outcome.code, ...missing, run.complaint].filter((one) => one).join("; ");
    throw new AgentError(`the session ${outcome.state}${why ? `: ${why}` : ""}`);
  }
  return run.close(outcome.finalState, outcome.broadcast);
}

/** The most numbers that the session opens. */
function numbersOf(roster: Roster): number {
  const { sums } = planOf(roster.parameters, roster.agents.length);
  return sums.rounds * sums.dimension;
}

/** The state of a session that has ended, without the keys that only its rounds needed. */
function withoutSecrets(state: string): string {
  if (!state) return state;
  const saved = JSON.parse(state) as Saved;
  return JSON.stringify({ ...saved, machine: { ...saved.machine, exchange: "", shared: [], groupKey: "" } });
}

/** One agent's protocol state machine and optimizer, new or resumed from the saved state. */
class Run {
  readonly #agent: Agent;
  readonly #part: Part;
  #opened: { machine: Machine; participant: Participant; journal: Journal } | undefined;

  constructor(agent: Agent, part: Part) {
    this.#agent = agent;
    this.#part = part;
  }

  /** The fault of a sum that this agent has found and signed; empty if none. */
  get complaint(): string {
    return this.#opened?.machine.complaint ?? "";
  }

  /** Before the roster is accepted: Unacceptable unless this agent takes part in what the owner has signed. `exposed`: what earlier jobs have opened. */
  check(roster: Roster, state: string, exposed: number): void {
    if (this.#opened !== undefined) return;
    const plan = planOf(roster.parameters, roster.agents.length);
    check(this.#part.demands ?? {}, plan.sums, roster.agents.map((one) => one.fingerprint), exposed);
    this.#optimizer(plan, roster.agents.length);
    if (state) this.#open(roster, state);
  }

  step(round: Round): Uint8Array {
    if (round.number > 0 && !round.state) {
      throw new FolderLost(`this agent is asked for round ${round.number}, and its folder holds nothing of the rounds before: it was lost`);
    }
    const { machine, participant, journal } = this.#open(round.roster, round.state);
    journal.settle();
    const answer = machine.answer(round.broadcast);
    const { x, multipliers, done, last, moved, sizes, votes } = participant;
    const saved: Saved = {
      machine: machine.state(),
      data: machine.keyed(this.#data),
      ...{ x, multipliers, done, last, moved },
      ...{ sizes: sizes ?? null, votes: votes ?? null },
      journal: journal.saved,
    };
    round.state = JSON.stringify(saved);
    round.onSaved = () => journal.settle();
    return answer;
  }

  /** The result, once all agents have signed the same transcript. */
  close(state: string, broadcast: Uint8Array): Optimum {
    const { machine, participant } = this.#open(this.#agent.roster, state);
    if (!machine.finished) machine.answer(broadcast);
    if (!machine.finished) throw new NotTrusted("the session ended before all agents have signed its transcript");
    const { x, multipliers, opened, violations } = participant;
    return {
      x,
      multipliers,
      rounds: opened,
      transcript: hex(machine.transcript),
      settled: machine.verdict === "UNSAID" ? undefined : machine.verdict === "SETTLED",
      violations,
    };
  }

  #open(roster: Roster, state: string): { machine: Machine; participant: Participant; journal: Journal } {
    if (this.#opened !== undefined) return this.#opened;
    const plan = planOf(roster.parameters, roster.agents.length);
    const participant = this.#optimizer(plan, roster.agents.length);
    const saved = state ? (JSON.parse(state) as Saved) : undefined;
    const journal = journalOf(this.#agent.journalPath, saved);
    const agreed = { members: roster.agents.map((one) => one.key), sums: plan.sums };
    const machine = new Machine(this.#agent.identity, agreed, participant, journal);
    if (saved !== undefined) {
      machine.resume(saved.machine);
      if (saved.machine.exchange && saved.data !== machine.keyed(this.#data)) {
        throw new Unacceptable(
          "this agent's data are not those with which it began this session: its next answer would not follow from those before",
        );
      }
      const { x, multipliers, done, last, moved } = saved;
      Object.assign(participant, { x, multipliers, done, last, moved, sizes: saved.sizes ?? undefined, votes: saved.votes ?? undefined });
    }
    this.#opened = { machine, participant, journal };
    return this.#opened;
  }

  /** This agent's own part of the problem. */
  get #data(): Uint8Array {
    const { demands: _, ...own } = this.#part;
    return utf8(sortedJson(own));
  }

  #optimizer(plan: PlanParameters, agents: number): Participant {
    const { A_u, A_g, cost, lower = 0, upper, primal } = this.#part;
    if (A_u.length !== plan.coupled || A_g.length !== plan.constraints) {
      const signed = `${plan.coupled} and ${plan.constraints}`;
      throw new Unacceptable(`A_u and A_g have ${A_u.length} and ${A_g.length} rows; the owner has signed ${signed}`);
    }
    const side = (ends: number | readonly number[]): readonly number[] => (typeof ends === "number" ? cost.a_l.map(() => ends) : ends);
    const box: Box = { lower: side(lower), upper: side(upper) };
    const steps = { ...plan.steps, primal: primal ?? plan.steps.primal };
    const { tolerance, bound, reach: allowed, fraction_bits } = plan.sums;
    const rounding = (agents + 1) * 2 ** -(fraction_bits + 1);
    const asked = tolerance === undefined ? undefined : { tolerance, agents, bound, rounding, ceiling: allowed?.map((one) => one * agents) };
    const participant = new Participant(A_u, A_g, cost, box, steps, undefined, asked);
    const entries = reach([...A_u, ...A_g], box);
    const most = Math.max(0, ...entries);
    if (!(most <= plan.sums.bound)) {
      throw new Unacceptable(`a contribution can reach ${most}, the slots hold ${plan.sums.bound}: the box is too large`);
    }
    const signed = plan.sums.reach;
    const beyond = signed === undefined ? -1 : entries.findIndex((one, row) => !(one <= (signed[row] as number) * (1 + 1e-12)));
    if (beyond >= 0) {
      const agreed = `the owner has signed ${signed?.[beyond]} as the bound for every agent`;
      throw new Unacceptable(`this agent's row ${beyond} can reach ${entries[beyond]}; ${agreed}`);
    }
    participant.x = somewhere(box, participant.x);
    return participant;
  }
}

/** FolderLost where state and journal do not fit: one of them is an older copy. */
function journalOf(path: string, saved: Saved | undefined): Journal {
  try {
    return new Journal(path, saved?.journal.settled, saved?.journal.pending);
  } catch (error) {
    if (error instanceof Reused) throw new FolderLost(`the folder of this session was put back from an older copy: ${error.message}`);
    throw error;
  }
}

/**
 * A uniform point of the box, drawn with the operating system's randomness; a coordinate whose range is not finite is taken
 * from `otherwise`.
 */
function somewhere(box: Box, otherwise: readonly number[]): number[] {
  const drawn = otherwise.map((fallback, j) => {
    const low = box.lower[j] as number;
    const high = box.upper[j] as number;
    const uniform = Number(randomBytes(8).readBigUInt64BE() >> 11n) * 2 ** -53;
    const found = low + (high - low) * uniform;
    return Number.isFinite(found) ? found : fallback;
  });
  return project(box, drawn);
}
