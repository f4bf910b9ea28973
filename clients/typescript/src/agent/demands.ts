/** What an agent demands of a session of encrypted sums before it answers anything. */

import { Unacceptable } from "./errors.js";
import type { Sums } from "./parameters.js";

const MOST_ROUNDS = 1000;
const SHORTEST_BEGINNING = 16; // digits: a key whose fingerprint begins with fewer given ones can be found by search
const LEAST_AGENTS = 100;
const AGENTS_PER_NUMBER = 10;

export interface Demands {
  /** Least number of agents on the roster; default 3. */
  readonly agents?: number;
  /** Least number of colluding agents that the sums must withstand; default 1. */
  readonly colluding?: number;
  /** Most sums that the session opens; default 1000, null for any number. */
  readonly rounds?: number | null;
  /** Whether the sums must be differentially private. This agent draws no noise, so it then refuses every session. */
  readonly noise?: boolean;
  /** "accepted" if this agent takes part although there are so few agents that a dishonest one can find out its data. */
  readonly exposure?: "accepted";
  /** Fingerprints, or at least their first 16 digits, of agents that this one knows independently of the server. */
  readonly known?: readonly string[];
  /** How many of them must be on the roster; default all. */
  readonly known_least?: number;
}

/**
 * The fewest agents among whom so many numbers are opened without `exposure: "accepted"`; infinite where no number of agents is
 * enough. `before`: the numbers for each agent that earlier jobs of the same agent have opened.
 */
export function crowd(numbers: number, before = 0): number {
  const left = 1 / AGENTS_PER_NUMBER - before;
  return left > 0 ? Math.max(LEAST_AGENTS, Math.ceil(numbers / left - 1e-9)) : Number.POSITIVE_INFINITY;
}

/** The demands in a file. Unacceptable for an unknown name, since a misspelled demand would have no effect. */
export function demandsOf(value: Readonly<Record<string, unknown>>): Demands {
  const names = ["agents", "colluding", "rounds", "noise", "exposure", "known", "known_least"];
  const strange = Object.keys(value).filter((name) => !names.includes(name));
  if (strange.length) throw new Unacceptable(`there is no demand ${strange.join(", ")}`);
  return value as Demands;
}

/**
 * Unacceptable if the sums fall short. `fingerprints`: those of the agents on the roster that the owner has signed. `before`:
 * what earlier jobs have opened (`Ledger.exposed`).
 */
export function check(demands: Demands, sums: Sums, fingerprints: readonly string[], before = 0): void {
  const { agents = 3, colluding = 1, rounds = MOST_ROUNDS, noise = false, exposure, known = [] } = demands;
  for (const one of known) {
    if (!/^[0-9a-f]{16,64}$/.test(one)) throw new Unacceptable(`${one} is not a fingerprint: ${SHORTEST_BEGINNING} to 64 of its digits 0-9a-f are needed`);
  }
  const least = demands.known_least ?? known.length;
  if (!(least >= 0 && least <= known.length)) throw new Unacceptable(`known_least must be from 0 to the number of known agents, ${known.length}`);
  const there = fingerprints.filter((name) => known.some((one) => name.startsWith(one))).length;
  if (there < least) throw new Unacceptable(`of the ${known.length} agents that this one knows ${there} are on the roster; it asks for ${least}`);
  const count = fingerprints.length;
  if (!(count >= agents)) throw new Unacceptable(`the owner has signed a roster of ${count} agents; this one asks for ${agents}`);
  if (!(sums.colluding >= colluding)) {
    throw new Unacceptable(`the sums withstand ${sums.colluding} colluding agents; this one asks for ${colluding}`);
  }
  if (rounds !== null && !(sums.rounds <= rounds)) throw new Unacceptable(`${sums.rounds} sums would be opened; this agent allows ${rounds}`);
  if (noise !== false) throw new Unacceptable("the sums have no noise; this agent asks for it");
  if (exposure !== undefined && exposure !== "accepted") throw new Unacceptable('exposure must be "accepted" or left out');
  const needed = crowd(sums.rounds * sums.dimension, before);
  if (count < needed && !(exposure === "accepted" && sums.exposure === "accepted")) {
    const missing = sums.exposure === "accepted" ? "this agent" : "the owner";
    throw new Unacceptable(
      `${sums.rounds} sums of ${count} agents would be opened without noise: one agent that lies can find out the others' data ` +
        `with fewer than ${needed} agents${before > 0 ? ` (earlier jobs have opened ${before.toPrecision(2)} numbers for each)` : ""}, and ${missing} has not accepted that (exposure: "accepted")`,
    );
  }
}
