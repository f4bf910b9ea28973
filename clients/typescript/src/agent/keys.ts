/** Ed25519 and X25519 keys as raw bytes, as the protocol carries them. */

import { createPrivateKey, createPublicKey, diffieHellman, type KeyObject, sign, verify } from "node:crypto";

import { type Bytes, concat, fromHex } from "./bytes.js";

// DER around raw keys (RFC 8410).
const PREFIXES = {
  ed25519: { private: fromHex("302e020100300506032b657004220420"), public: fromHex("302a300506032b6570032100") },
  x25519: { private: fromHex("302e020100300506032b656e04220420"), public: fromHex("302a300506032b656e032100") },
};
type Curve = keyof typeof PREFIXES;

/** The private key with these 32 bytes. RangeError for another length. */
export function privateKey(curve: Curve, raw: Bytes): KeyObject {
  if (raw.length !== 32) throw new RangeError(`a private key must have 32 bytes, not ${raw.length}`);
  const key = Buffer.from(concat(PREFIXES[curve].private, raw));
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}

/** The public key with these 32 bytes. RangeError for another length. */
export function publicKey(curve: Curve, raw: Bytes): KeyObject {
  if (raw.length !== 32) throw new RangeError(`a public key must have 32 bytes, not ${raw.length}`);
  const key = Buffer.from(concat(PREFIXES[curve].public, raw));
  return createPublicKey({ key, format: "der", type: "spki" });
}

/** The 32 bytes of the public half. */
export function publicBytes(key: KeyObject): Bytes {
  const half = key.type === "private" ? createPublicKey(key) : key;
  return new Uint8Array(half.export({ format: "der", type: "spki" }).subarray(-32));
}

/** The 32 bytes of a private key. */
export function privateBytes(key: KeyObject): Bytes {
  return new Uint8Array(key.export({ format: "der", type: "pkcs8" }).subarray(-32));
}

export const signed = (key: KeyObject, statement: Bytes): Bytes => new Uint8Array(sign(null, statement, key));

const PRIME = 2n ** 255n - 19n;
const EIGHTH = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n;
/** The y coordinates of the eight points whose order divides eight. */
const SMALL_ORDER = new Set([0n, 1n, PRIME - 1n, EIGHTH, PRIME - EIGHTH]);

/** Whether 32 bytes are the canonical encoding (y < p) of a point of Ed25519 that does not have small order. */
function isOrdinary(point: Bytes): boolean {
  const y = BigInt(`0x${Buffer.from(point).reverse().toString("hex")}`) & (2n ** 255n - 1n);
  return y < PRIME && !SMALL_ORDER.has(y);
}

/**
 * Whether `signature` is that of the Ed25519 key (32 raw bytes) on `statement`, by the rule of docs/protocol.md, since
 * libraries differ in the unusual keys and signatures that they accept.
 */
export function isSigned(key: Bytes, statement: Bytes, signature: Bytes): boolean {
  try {
    return verify(null, statement, publicKey("ed25519", key), signature) && isOrdinary(key) && isOrdinary(signature.subarray(0, 32));
  } catch {
    return false;
  }
}

/** The X25519 secret. RangeError for a key of small order, with which the secret would be the same for everybody. */
export function exchanged(own: KeyObject, other: Bytes): Bytes {
  let secret: Bytes;
  try {
    secret = new Uint8Array(diffieHellman({ privateKey: own, publicKey: publicKey("x25519", other) }));
  } catch {
    throw new RangeError("no secret can be agreed on with this key");
  }
  if (secret.every((byte) => byte === 0)) throw new RangeError("the key has small order");
  return secret;
}
