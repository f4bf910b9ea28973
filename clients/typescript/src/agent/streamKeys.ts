/**
 * The key under which an agent's contributions on one stream are authentic: agreed on by X25519 with keys that both sides
 * draw for that stream, in Challenge and Hello.
 */

import { generateKeyPairSync, type KeyObject } from "node:crypto";

import type { Bytes } from "./bytes.js";
import { exchanged, publicBytes } from "./keys.js";
import { expand, extract } from "./masks.js";
import * as signing from "./signing.js";

/** One side's X25519 key for one stream. */
export class Exchange {
  readonly public: Bytes;
  readonly #key: KeyObject;

  constructor(key: KeyObject = generateKeyPairSync("x25519").privateKey) {
    this.#key = key;
    this.public = publicBytes(key);
  }

  /**
   * The key of the contributions on the stream with these contents of Challenge and Hello. RangeError if `other` is no X25519
   * key, or has small order.
   */
  key(other: Bytes, session: string, challenge: Bytes, hello: Bytes): Bytes {
    return expand(extract(exchanged(this.#key, other)), signing.contributionKey(session, challenge, hello));
  }
}
