/** The broadcasts of a session as a hash chain: docs/protocol.md, "The chain of broadcasts". */

import { type Bytes, hex, sha256 } from "./bytes.js";
import { isSigned } from "./keys.js";
import * as signing from "./signing.js";

const DIGEST = 32;
const SIGNATURE = 64;

/** The digest that the next broadcast begins with. */
export const after = (broadcast: Bytes): Bytes => sha256(broadcast);

/** The digest of the broadcast before, and the content. RangeError if it is too short. */
export function split(broadcast: Bytes): [Bytes, Bytes] {
  if (broadcast.length < DIGEST) throw new RangeError("a broadcast begins with the digest of the one before");
  return [broadcast.subarray(0, DIGEST), broadcast.subarray(DIGEST)];
}

/** Signatures by fingerprint (hex), as the last broadcast carries them. RangeError for any other length. */
export function unpacked(data: Bytes): Map<string, Bytes> {
  if (data.length % (DIGEST + SIGNATURE)) throw new RangeError("this is not a list of signatures");
  const found = new Map<string, Bytes>();
  for (let place = 0; place < data.length; place += DIGEST + SIGNATURE) {
    found.set(hex(data.subarray(place, place + DIGEST)), data.subarray(place + DIGEST, place + DIGEST + SIGNATURE));
  }
  return found;
}

/** Fingerprints of the agents who have not signed `end` as the last digest of this session's chain. */
export function unsigned(
  rosterDigest: Bytes,
  agents: readonly { fingerprint: string; key: Bytes }[],
  end: Bytes,
  signatures: ReadonlyMap<string, Bytes>,
): string[] {
  const statement = signing.history(rosterDigest, end);
  return agents
    .filter((one) => !isSigned(one.key, statement, signatures.get(one.fingerprint) ?? new Uint8Array()))
    .map((one) => one.fingerprint);
}
