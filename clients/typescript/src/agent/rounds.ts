/** What an agent's step sees of a round, and how a session ends for the agent. */

import type { Bytes } from "./bytes.js";
import type { Json, Price, Roster } from "./documents.js";
import type { Identity } from "./identity.js";

export interface Round {
  readonly number: number;
  /** So many there are. */
  readonly rounds: number;
  readonly broadcast: Bytes;
  /** The step's own, kept across processes: assign it, and it is saved with the answer before that is sent. */
  state: string;
  /** Until the deadline, as of when the message came. */
  readonly seconds: number;
  readonly identity: Identity;
  /** As the owner signed it. */
  readonly roster: Roster;
  readonly rosterDigest: Bytes;
  /** Public constants from the plan. */
  readonly parameters: Json;
  readonly transcript: Bytes;
  /** What the agent's ledger has booked for this session. */
  readonly price: Price;
  /** The step may set it: called when answer and state are on disk, before the answer is sent. */
  onSaved?: () => void;
}

export interface Outcome {
  readonly state: string;
  readonly code: string;
  readonly rounds: number;
  readonly broadcast: Bytes;
  readonly transcript: Bytes;
  readonly finalState: string;
}

export type Step = (round: Round) => Bytes | Promise<Bytes>;
