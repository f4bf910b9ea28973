/** The long-term Ed25519 key of an agent, in a file of mode 0600 (PEM, PKCS #8): the Python agent reads the same file. */

import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { type Bytes, utf8 } from "./bytes.js";
import { BadIdentity } from "./errors.js";
import { writePrivate } from "./files.js";
import { privateBytes, publicBytes, signed } from "./keys.js";
import { fingerprint } from "./signing.js";

export class Identity {
  readonly publicKey: Bytes;
  readonly fingerprint: string;
  readonly #key: KeyObject;

  constructor(key: KeyObject) {
    this.#key = key;
    this.publicKey = publicBytes(key);
    this.fingerprint = fingerprint(this.publicKey);
  }

  /** The key in this file, generated on first use. BadIdentity if others can read it, or it is not an Ed25519 key. */
  static open(path: string): Identity {
    try {
      return Identity.#load(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    const { privateKey } = generateKeyPairSync("ed25519");
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    try {
      writePrivate(path, utf8(privateKey.export({ format: "pem", type: "pkcs8" }) as string), false);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      return Identity.#load(path);
    }
    return new Identity(privateKey);
  }

  static #load(path: string): Identity {
    if (statSync(path).mode & 0o077) throw new BadIdentity(`${path} must be readable by its owner only (chmod 600)`);
    let key: KeyObject;
    try {
      key = createPrivateKey(readFileSync(path));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") throw error;
      throw new BadIdentity(`${path} does not hold a readable key`);
    }
    if (key.asymmetricKeyType !== "ed25519") throw new BadIdentity(`${path} does not hold an Ed25519 key`);
    return new Identity(key);
  }

  sign(statement: Bytes): Bytes {
    return signed(this.#key, statement);
  }

  /** The private key's bytes, for digests that nobody else can compute. */
  get secret(): Bytes {
    return privateBytes(this.#key);
  }
}
