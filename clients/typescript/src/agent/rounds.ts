/** A round as an agent's step sees it, and the outcome of a session. */

import type { Bytes } from "./bytes.js";
import type { Json, Price, Roster } from "./documents.js";
import type { Identity } from "./identity.js";

export interface Round {
  readonly number: number;
  /** How many rounds there are. */
  readonly rounds: number;
  readonly broadcast: Bytes;
  /** The step's own state, kept across processes: assign it, and it is saved with the answer before that is sent. */
  state: string;
  /** Seconds until the deadline, counted from the arrival of the message. */
  readonly seconds: number;
  readonly identity: Identity;
  /** The roster as the owner signed it. */
  readonly roster: Roster;
  readonly rosterDigest: Bytes;
  /** Public constants from the plan. */
  readonly parameters: Json;
  readonly transcript: Bytes;
  /** The charge in the agent's ledger for this session. */
  readonly price: Price;
  /** The step may set this: it is called once answer and state are on disk, before the answer is sent. */
  onSaved?: () => void;
}

export interface Outcome {
  readonly state: string;
  readonly code: string;
  readonly rounds: number;
  readonly broadcast: Bytes;
  readonly transcript: Bytes;
  readonly finalState: string;
  /** Whether the server has charged the price. */
  readonly charged: boolean;
  /** The agents without whom the session could not go on, as the server says. */
  readonly blamed: readonly Blamed[];
}

export interface Blamed {
  readonly fingerprint: string;
  readonly cause: string;
}

/** The function of a kind, and what it may say of itself beside its answers. */
export interface Step {
  (round: Round): Bytes | Promise<Bytes>;
  /** Unacceptable, before the roster is accepted. `exposed`: numbers for each agent that earlier jobs have opened without noise. */
  check?(roster: Roster, state: string, exposed: number): void;
  /** The most numbers that a session of this roster opens without noise. */
  opens?(roster: Roster): number;
  /** How many of them were opened, of a session that has ended with this state. */
  opened?(state: string): number;
  /** The state of a session that has ended, without what only its rounds needed. */
  withoutSecrets?(state: string): string;
}
