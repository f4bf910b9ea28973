/** The statements that are signed in a federation: docs/protocol.md, "Statements". */

import { type Bytes, concat, hex, sha256, u32, u64, utf8 } from "./bytes.js";

const PREFIX = utf8("discreet/federation/v1");

function statement(purpose: string, ...fields: (string | Bytes | bigint)[]): Bytes {
  const parts = [PREFIX, utf8(purpose)];
  for (const field of fields) {
    parts.push(typeof field === "string" ? utf8(field) : typeof field === "bigint" ? u64(field) : field);
  }
  return concat(...parts.flatMap((part) => [u32(part.length), part]));
}

/** The name of a key for people and in tokens: SHA-256 of its 32 raw bytes, hexadecimal. */
export const fingerprint = (publicKey: Bytes): string => hex(sha256(publicKey));

/** The agent signs this for its request to Enroll. */
export const enrolment = (session: string, nonce: Bytes, timestampMs: bigint, content: Bytes): Bytes =>
  statement("Enroll", session, nonce, timestampMs, sha256(content));

/** The server signs this for its answer to Enroll. */
export const enrolled = (session: string, content: Bytes): Bytes => statement("Enrolled", session, sha256(content));

/** The agent signs this for every message of a stream; of a contribution it is the text of the MAC. */
export const message = (session: string, nonce: Bytes, sequence: bigint, round: bigint, timestampMs: bigint, content: Bytes): Bytes =>
  statement("Participate", session, nonce, sequence, round, timestampMs, sha256(content));

/** What binds the key of a stream's contributions to its Challenge and Hello. Nobody signs it. */
export const contributionKey = (session: string, challenge: Bytes, hello: Bytes): Bytes =>
  statement("ContributionKey", session, sha256(challenge), sha256(hello));

/** The server signs this for every message of a stream; for the challenge `session` is empty. */
export const operator = (session: string, content: Bytes): Bytes => statement("Operator", session, sha256(content));

/** The owner signs this for the roster; the server never holds the owner's key. */
export const roster = (document: Bytes): Bytes => statement("Roster", sha256(document));

/** The server signs this for the charge to one agent's account. */
export const charge = (document: Bytes): Bytes => statement("Charge", sha256(document));

/** Hash of an entry of an agent's ledger that holds a charge. */
export const booked = (link: Bytes, seq: bigint, chargeDigest: Bytes): Bytes => sha256(link, u64(seq), chargeDigest);

/** The agent signs this for each entry of its own ledger. */
export const ledgerEntry = (entryHash: Bytes): Bytes => statement("LedgerEntry", entryHash);

/** An agent signs this for the chain of all broadcasts in the session of this roster; `end` is the last digest. */
export const history = (rosterDigest: Bytes, end: Bytes): Bytes => statement("History", rosterDigest, end);
