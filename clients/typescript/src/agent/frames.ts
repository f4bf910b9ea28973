/** Frames of the encrypted sums (a header, a payload, a signature): docs/protocol.md, "Frames". */

import { type Bytes, concat, u16, u32, u8, utf8 } from "./bytes.js";
import { NotDue } from "./errors.js";

export const PROTOCOL = "discreet/secure-sum/v2";
export const OPERATOR = 0xffff;
export const HEADER_BYTES = 11;
export const SIGNATURE_BYTES = 64;

/** Broadcasts of the operator are odd, answers of agents even. 9 to 12 belong to sums with `allow_dropout`. */
export const KINDS = {
  OPEN: 1,
  HELLO: 2,
  KEYS: 3,
  DEAL: 4,
  DEALT: 5,
  ACK: 6,
  START: 7,
  CONTRIBUTION: 8,
  SUM: 13,
  TRANSCRIPT: 14,
  CLOSE: 15,
  COMPLAINT: 16,
  ALONE: 18, // a contribution to a sum of the agents alone, without the operator's part
} as const;
export type Kind = keyof typeof KINDS;
const NAMES = new Map<number, Kind>(Object.entries(KINDS).map(([name, number]) => [number, name as Kind]));

/** What agents state about the iteration when they sign its transcript; the signature covers these bytes after the hash. */
export const VERDICTS = { UNSAID: utf8(""), SETTLED: utf8("settled"), UNSETTLED: utf8("unsettled") } as const;
export type Verdict = keyof typeof VERDICTS;

/** What an agent signs, in a COMPLAINT, about a sum that exceeds the bounds that the owner has signed. */
export const OUT_OF_BOUNDS = utf8("out of bounds");

export const header = (kind: Kind, epoch: number, round: number, sender: number): Bytes =>
  concat(u8(KINDS[kind]), u32(epoch), u32(round), u16(sender));

export interface Frame {
  readonly kind: Kind;
  readonly epoch: number;
  readonly round: number;
  readonly sender: number;
  readonly payload: Bytes;
  readonly signature: Bytes;
}

/** The parts of a frame, none of them verified. NotDue if it is not a frame that this agent knows. */
export function parseFrame(data: Bytes): Frame {
  if (data.length < HEADER_BYTES + SIGNATURE_BYTES) throw new NotDue("a frame is too short");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const kind = NAMES.get(view.getUint8(0));
  if (kind === undefined) throw new NotDue(`this agent knows no kind of frame ${view.getUint8(0)}`);
  return {
    kind,
    epoch: view.getUint32(1),
    round: view.getUint32(5),
    sender: view.getUint16(9),
    payload: data.subarray(HEADER_BYTES, data.length - SIGNATURE_BYTES),
    signature: data.subarray(data.length - SIGNATURE_BYTES),
  };
}
