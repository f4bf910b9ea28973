/** What an agent asks of a session of encrypted sums before it answers anything. */

import { Unacceptable } from "./errors.js";
import type { Sums } from "./parameters.js";

const MOST_ROUNDS = 1000;
const SHORTEST_BEGINNING = 16; // digits of a fingerprint: keys whose fingerprints begin with fewer can be made
const LEAST_AGENTS = 100;
const AGENTS_PER_NUMBER = 10;

export interface Demands {
  /** On the roster, at least; 3. */
  readonly agents?: number;
  /** Agents that may pool what they know, at least; 1. */
  readonly colluding?: number;
  /** Sums that this agent answers in the session, at most; 1000, null for any number. */
  readonly rounds?: number | null;
  /** Whether the sums must be private in themselves. This agent makes no noise, so it then refuses every session. */
  readonly noise?: boolean;
  /** "accepted" where this agent takes part although one of so few agents that lies can find out its data. */
  readonly exposure?: "accepted";
  /** Fingerprints of agents that this one knows by another way than the server, or their first 16 digits and more. */
  readonly known?: readonly string[];
  /** So many of them are on the roster, at least; all. */
  readonly known_least?: number;
}

/** The fewest agents among whom such sums are opened without being accepted by name. */
export const crowd = (rounds: number, dimension: number): number => Math.max(LEAST_AGENTS, AGENTS_PER_NUMBER * rounds * dimension);

/** Demands of a file. Unacceptable for what is none: a misspelled demand would be no demand. */
export function demandsOf(value: Readonly<Record<string, unknown>>): Demands {
  const names = ["agents", "colluding", "rounds", "noise", "exposure", "known", "known_least"];
  const strange = Object.keys(value).filter((name) => !names.includes(name));
  if (strange.length) throw new Unacceptable(`there is no demand ${strange.join(", ")}`);
  return value as Demands;
}

/** Unacceptable with the figures. `fingerprints`: of the agents on the roster that the owner has signed. */
export function check(demands: Demands, sums: Sums, fingerprints: readonly string[]): void {
  const { agents = 3, colluding = 1, rounds = MOST_ROUNDS, noise = false, exposure, known = [] } = demands;
  for (const one of known) {
    if (!/^[0-9a-f]{16,64}$/.test(one)) throw new Unacceptable(`${one} is no fingerprint: ${SHORTEST_BEGINNING} to 64 of its digits 0-9a-f are needed`);
  }
  const least = demands.known_least ?? known.length;
  if (!(least >= 0 && least <= known.length)) throw new Unacceptable(`known_least is at most the number of known agents, ${known.length}`);
  const there = fingerprints.filter((name) => known.some((one) => name.startsWith(one))).length;
  if (there < least) throw new Unacceptable(`of the ${known.length} agents that this one knows ${there} are on the roster; it asks for ${least}`);
  const count = fingerprints.length;
  if (!(count >= agents)) throw new Unacceptable(`the owner has signed a roster of ${count} agents; this one asks for ${agents}`);
  if (!(sums.colluding >= colluding)) {
    throw new Unacceptable(`the sums withstand ${sums.colluding} colluding agents; this one asks for ${colluding}`);
  }
  if (rounds !== null && !(sums.rounds <= rounds)) throw new Unacceptable(`${sums.rounds} sums would be opened; this agent allows ${rounds}`);
  if (noise !== false) throw new Unacceptable("the sums have no noise; this agent asks for it");
  if (exposure !== undefined && exposure !== "accepted") throw new Unacceptable("exposure is accepted or left out");
  const needed = crowd(sums.rounds, sums.dimension);
  if (count < needed && !(exposure === "accepted" && sums.exposure === "accepted")) {
    const missing = sums.exposure === "accepted" ? "this agent" : "the owner";
    throw new Unacceptable(
      `${sums.rounds} sums of ${count} agents would be opened without noise: one agent that lies can find out the others' data ` +
        `with fewer than ${needed} agents, and ${missing} has not accepted that (exposure: "accepted")`,
    );
  }
}
