/** Key streams, and words modulo 2^64 that they mask: docs/protocol.md, "Masks" and "Words". */

import { createCipheriv } from "node:crypto";

import { type Bytes, hmac, sha256, utf8 } from "./bytes.js";
import { Tampered } from "./errors.js";

export const CHECKS = 2;

/** HKDF-Extract (RFC 5869) with SHA-256 and no salt. */
export const extract = (secret: Bytes): Bytes => hmac(new Uint8Array(32), secret);

/** HKDF-Expand (RFC 5869) to 32 bytes. */
export const expand = (key: Bytes, info: Bytes): Bytes => hmac(key, info, Uint8Array.of(1));

/** `size` bytes of the ChaCha20 key stream (RFC 8439) of a one-time key, from block 0 with a nonce of zeros. */
export function keystream(key: Bytes, size: number): Bytes {
  const cipher = createCipheriv("chacha20", key, new Uint8Array(16));
  return new Uint8Array(cipher.update(new Uint8Array(size)));
}

export const commitment = (groupKey: Bytes): Bytes => sha256(utf8("discreet/group-key/v1"), groupKey);

/** The little-endian words of 64 bits in these bytes. */
export function wordsOf(data: Bytes): BigUint64Array {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return BigUint64Array.from({ length: data.length / 8 }, (_, place) => view.getBigUint64(8 * place, true));
}

export function bytesOf(words: BigUint64Array): Bytes {
  const data = new Uint8Array(8 * words.length);
  const view = new DataView(data.buffer);
  words.forEach((word, place) => view.setBigUint64(8 * place, word, true));
  return data;
}

/** `words` with the streams of `plus` added and those of `minus` subtracted, modulo 2^64. */
export function masked(words: BigUint64Array, plus: readonly Bytes[], minus: readonly Bytes[]): BigUint64Array {
  const total = BigUint64Array.from(words);
  const keystreams = (keys: readonly Bytes[]): BigUint64Array[] => keys.map((key) => wordsOf(keystream(key, 8 * total.length)));
  for (const stream of keystreams(plus)) stream.forEach((word, place) => (total[place] = (total[place] as bigint) + word));
  for (const stream of keystreams(minus)) stream.forEach((word, place) => (total[place] = (total[place] as bigint) - word));
  return total;
}

/** An agent's masked contribution: its integers and two check words of 1, under the streams of pad and masks. */
export function contribution(values: readonly bigint[], plus: readonly Bytes[], minus: readonly Bytes[]): Bytes {
  return bytesOf(masked(BigUint64Array.from([...values, ...Array<bigint>(CHECKS).fill(1n)]), plus, minus));
}

/** The integers of a sum, from the pads of all agents in it. Tampered if its length or its check words are wrong. */
export function opened(payload: Bytes, dimension: number, pads: readonly Bytes[]): bigint[] {
  if (payload.length !== 8 * (dimension + CHECKS)) {
    throw new Tampered(`a masked vector must have ${8 * (dimension + CHECKS)} bytes, not ${payload.length}`);
  }
  const total = Array.from(masked(wordsOf(payload), [], pads), (word) => BigInt.asIntN(64, word));
  if (total.slice(dimension).some((word) => word !== BigInt(pads.length))) throw new Tampered("the check words of a sum are wrong");
  return total.slice(0, dimension);
}
