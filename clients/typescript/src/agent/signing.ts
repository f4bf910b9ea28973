/** What signatures of the federation cover: docs/protocol.md, "Statements". */

import { type Bytes, concat, hex, sha256, u32, u64, utf8 } from "./bytes.js";

const PREFIX = utf8("discreet/federation/v1");

function statement(purpose: string, ...fields: (string | Bytes | bigint)[]): Bytes {
  const parts = [PREFIX, utf8(purpose)];
  for (const field of fields) {
    parts.push(typeof field === "string" ? utf8(field) : typeof field === "bigint" ? u64(field) : field);
  }
  return concat(...parts.flatMap((part) => [u32(part.length), part]));
}

/** How people and tokens name a key: SHA-256 of its 32 raw bytes, hexadecimal. */
export const fingerprint = (publicKey: Bytes): string => hex(sha256(publicKey));

/** By the agent, of its request to Enroll. */
export const enrolment = (session: string, nonce: Bytes, timestampMs: bigint, content: Bytes): Bytes =>
  statement("Enroll", session, nonce, timestampMs, sha256(content));

/** By the server, of its answer. */
export const enrolled = (session: string, content: Bytes): Bytes => statement("Enrolled", session, sha256(content));

/** By the agent, of every message of a stream. */
export const message = (session: string, nonce: Bytes, sequence: bigint, round: bigint, timestampMs: bigint, content: Bytes): Bytes =>
  statement("Participate", session, nonce, sequence, round, timestampMs, sha256(content));

/** By the server, of every message of a stream; the challenge comes before any session is named (""). */
export const operator = (session: string, content: Bytes): Bytes => statement("Operator", session, sha256(content));

/** By the owner, whose key the server never holds. */
export const roster = (document: Bytes): Bytes => statement("Roster", sha256(document));

/** By the server, of what it charges to one agent's account. */
export const charge = (document: Bytes): Bytes => statement("Charge", sha256(document));

/** Hash of the entry by which an agent's ledger holds a charge. */
export const booked = (link: Bytes, seq: bigint, chargeDigest: Bytes): Bytes => sha256(link, u64(seq), chargeDigest);

/** By the agent, of one entry of its own ledger. */
export const ledgerEntry = (entryHash: Bytes): Bytes => statement("LedgerEntry", entryHash);

/** By an agent, of how the chain of all broadcasts ends that it was shown in the session of this roster. */
export const history = (rosterDigest: Bytes, end: Bytes): Bytes => statement("History", rosterDigest, end);
