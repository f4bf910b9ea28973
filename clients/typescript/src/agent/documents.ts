/** Reads the signed roster and charge, and JSON objects in general. NotTrusted for what cannot be read. */

import { isDeepStrictEqual } from "node:util";

import { type Bytes, fromBase64, textOf } from "./bytes.js";
import { NotTrusted } from "./errors.js";

export interface Listed {
  readonly name: string;
  readonly fingerprint: string;
  /** Ed25519, 32 bytes. */
  readonly key: Bytes;
  readonly announcement: unknown;
}

export interface Roster {
  readonly session: string;
  readonly job: string;
  readonly kind: string;
  readonly agents: readonly Listed[];
  /** Parameters of the run, if the kind has the owner sign them. */
  readonly parameters: Json | undefined;
}

export interface Charge {
  readonly session: string;
  readonly job: string;
  readonly agent: string;
  readonly price: Price;
}

/** Epsilon in units of 1e-9 and delta in units of 1e-18. */
export interface Price {
  readonly epsilon: bigint;
  readonly delta: bigint;
}

export type Json = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Json {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** The JSON object in a document; NotTrusted, which names `what`, if there is none. */
export function objectOf(document: Bytes, what: string): Json {
  let read: unknown;
  try {
    read = JSON.parse(textOf(document));
  } catch {
    read = null;
  }
  if (!isObject(read)) throw new NotTrusted(`the server's ${what} cannot be read`);
  return read;
}

/** The roster in a document; only its form is checked. */
export function readRoster(document: Bytes): Roster {
  const { version, session, job, kind, agents, parameters } = objectOf(document, "roster");
  const unreadable = new NotTrusted("the server's roster cannot be read");
  if (version !== 1 || ![session, job, kind].every((one) => typeof one === "string") || !Array.isArray(agents)) throw unreadable;
  const listed = agents.map((one: unknown): Listed => {
    if (!isObject(one)) throw unreadable;
    const { name, fingerprint, key, announcement } = one;
    if (typeof name !== "string" || typeof fingerprint !== "string" || typeof key !== "string") throw unreadable;
    return { name, fingerprint, key: fromBase64(key), announcement };
  });
  if (parameters !== undefined && !isObject(parameters)) throw unreadable;
  return { session: session as string, job: job as string, kind: kind as string, agents: listed, parameters };
}

const UNITS = /^-?[0-9]{1,38}$/;

export function readCharge(document: Bytes): Charge {
  const { session, job, agent, price } = objectOf(document, "charge");
  const unreadable = new NotTrusted("the server's charge cannot be read");
  if (typeof session !== "string" || typeof job !== "string" || typeof agent !== "string" || !isObject(price)) throw unreadable;
  const { epsilon, delta } = price;
  if (typeof epsilon !== "string" || typeof delta !== "string" || !UNITS.test(epsilon) || !UNITS.test(delta)) throw unreadable;
  return { session, job, agent, price: { epsilon: BigInt(epsilon), delta: BigInt(delta) } };
}

/** Whether two values of JSON are equal: 1 and 1.0 are the same figure, and the order of names does not matter. */
export const sameJson = (one: unknown, other: unknown): boolean => isDeepStrictEqual(one, other);
