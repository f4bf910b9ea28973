/**
 * An agent's own ledger: what it let itself be charged, in a file that it alone writes. The format is the Python agent's
 * (docs/protocol.md, "The agent's ledger"): either program goes on with the other's file.
 */

import { randomBytes } from "node:crypto";
import { readFileSync, truncateSync } from "node:fs";

import { base64, type Bytes, fromBase64, hex, sha256, sortedJson, textOf, utf8 } from "./bytes.js";
import { isObject, type Json, type Price, readCharge } from "./documents.js";
import { AgentError, LedgerBroken, LimitExceeded, NotTrusted } from "./errors.js";
import { appendDurably, withLock } from "./files.js";
import type { Identity } from "./identity.js";
import { isSigned } from "./keys.js";
import { type Envelope, sealed } from "./receipts.js";
import * as signing from "./signing.js";

const GENESIS = new Uint8Array(32);
const LOCK_SECONDS = 30;

/** The figures that one identity may spend over all its sessions; undefined is no limit. */
export interface Limits {
  readonly epsilon: bigint | undefined;
  readonly delta: bigint | undefined;
}

/** The most numbers that a job opens without noise, of sums of so many agents. */
export interface Opens {
  readonly numbers: number;
  readonly agents: number;
}

export interface Entry {
  readonly seq: number;
  readonly link: Bytes;
  readonly hash: Bytes;
  readonly signature: Bytes;
  readonly body: Json;
  readonly spent: Price;
}

export class Ledger {
  constructor(
    readonly path: string,
    readonly identity: Identity,
    readonly limits: Limits,
  ) {}

  /** Books a charge that the server signed, once for each job. LimitExceeded, and nothing written, over the limit. */
  async charge(document: Bytes, signature: Bytes, serverKey: Bytes, opens?: Opens): Promise<Entry> {
    const { job, price } = readCharge(document);
    if (price.epsilon < 0n || price.delta < 0n) throw new LimitExceeded("a charge is never negative");
    if (!isSigned(serverKey, signing.charge(document), signature)) throw new NotTrusted("the charge is not signed by the server");
    const words = textOf(document);
    return withLock(this.path, LOCK_SECONDS, () => {
      const entries = this.#whole();
      const booked = entries.filter((entry) => entry.body.job === job);
      if (booked.some((entry) => entry.body.kind === "release")) {
        throw new LimitExceeded("this job had ended and its charge was given back, so it cannot go on");
      }
      const [before] = booked;
      if (before !== undefined) {
        if (before.body.charge !== words) throw new LimitExceeded("the server changed what this job costs after it was booked");
        return before;
      }
      const spent = spentOf(entries);
      const after = { epsilon: spent.epsilon + price.epsilon, delta: spent.delta + price.delta };
      for (const name of ["epsilon", "delta"] as const) {
        const limit = this.limits[name];
        if (limit !== undefined && after[name] > limit) {
          throw new LimitExceeded(`${name} ${inWords(after[name], name)} would pass this agent's limit of ${inWords(limit, name)}`);
        }
      }
      return this.#append(entries, after, {
        kind: "charge",
        job,
        charge: words,
        server_key: base64(serverKey),
        server_signature: base64(signature),
        blind: hex(randomBytes(16)),
        ...(opens?.numbers ? { opens } : {}),
      });
    });
  }

  /** Takes a charge back: the server says that the job ended before anything was touched, and nothing was sent. */
  async release(job: string): Promise<void> {
    await withLock(this.path, LOCK_SECONDS, () => {
      const entries = this.#whole();
      const booked = entries.filter((entry) => entry.body.job === job);
      if (booked.length !== 1 || booked[0]?.body.kind !== "charge") return;
      const { price } = readCharge(utf8(booked[0].body.charge as string));
      const spent = spentOf(entries);
      this.#append(entries, { epsilon: spent.epsilon - price.epsilon, delta: spent.delta - price.delta }, { kind: "release", job });
    });
  }

  /** Notes that a job which has ended opened so many numbers, fewer than were booked. */
  async opened(job: string, numbers: number): Promise<void> {
    await withLock(this.path, LOCK_SECONDS, () => {
      const entries = this.#whole();
      const [booked, ...more] = entries.filter((entry) => entry.body.job === job);
      const opens = booked?.body.opens as Opens | undefined;
      if (more.length || opens === undefined || numbers >= opens.numbers) return;
      this.#append(entries, spentOf(entries), { kind: "opened", job, numbers });
    });
  }

  /** The numbers for each agent that all jobs but one have opened of sums with this agent in them, without noise. */
  exposed(but: string): number {
    const shares = new Map<unknown, { numbers: number; agents: number }>();
    for (const { body } of this.entries()) {
      const agents = shares.get(body.job)?.agents ?? 1;
      if (body.kind === "charge") shares.set(body.job, (body.opens as Opens | undefined) ?? { numbers: 0, agents: 1 });
      else shares.set(body.job, { numbers: body.kind === "opened" ? (body.numbers as number) : 0, agents });
    }
    shares.delete(but);
    return [...shares.values()].reduce((sum, { numbers, agents }) => sum + numbers / agents, 0);
  }

  /** Whether a charge for this job was booked, and not given back. */
  has(job: string): boolean {
    const kinds = this.entries().filter((entry) => entry.body.job === job).map((entry) => entry.body.kind);
    return kinds.length > 0 && !kinds.includes("release");
  }

  /** The envelope (DSSE) by which this agent says what it let itself be charged for a job. AgentError where it has booked none. */
  receipt(job: string): Envelope {
    const booked = this.entries().filter((entry) => entry.body.job === job);
    const [entry] = booked;
    if (entry === undefined) throw new AgentError(`this agent's ledger holds no charge for ${job}`);
    if (!("blind" in entry.body)) throw new AgentError(`the entry for ${job} is of an older version: only the whole ledger can prove it`);
    return sealed(this.identity, entry, booked.some((one) => one.body.kind === "release"));
  }

  /** All entries, checked: chain, sums, both sides' signatures. LedgerBroken names the first bad one. */
  entries(): Entry[] {
    const lines = this.#read().split("\n");
    if (lines.at(-1) === "") lines.pop();
    return checked(lines, this.identity.publicKey);
  }

  #read(): string {
    try {
      return readFileSync(this.path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
      throw error;
    }
  }

  /** The entries, after a line without its end is gone: it was never acknowledged to anybody, a power cut took its rest. */
  #whole(): Entry[] {
    const data = readFileSync(this.path);
    const whole = data.lastIndexOf(0x0a) + 1;
    if (whole !== data.length) truncateSync(this.path, whole);
    return this.entries();
  }

  #append(entries: Entry[], spent: Price, fields: Json): Entry {
    const previous = entries.at(-1)?.hash ?? GENESIS;
    const body = {
      seq: entries.length + 1,
      at_ms: Date.now(),
      spent: { epsilon: String(spent.epsilon), delta: String(spent.delta) },
      ...fields,
    };
    const text = sortedJson(body);
    const { link, hash } = hashes(previous, text, body);
    const signature = this.identity.sign(signing.ledgerEntry(hash));
    const line = { body: text, previous_hash: hex(previous), hash: hex(hash), signature: base64(signature) };
    appendDurably(this.path, utf8(`${sortedJson(line)}\n`));
    return { seq: body.seq, link, hash, signature, body, spent };
  }
}

/** Link and hash of an entry; a charge without `blind` is of a version that had no link. */
function hashes(previous: Bytes, text: string, body: Json): { link: Bytes; hash: Bytes } {
  const link = sha256(previous, utf8(text));
  if (!("blind" in body)) return { link, hash: link };
  const digest = sha256(utf8(body.charge as string));
  return { link, hash: signing.booked(link, BigInt(body.seq as number), digest) };
}

function checked(lines: string[], publicKey: Bytes): Entry[] {
  const entries: Entry[] = [];
  const charges = new Map<unknown, Price>();
  let previous: Bytes = GENESIS;
  let spent: Price = { epsilon: 0n, delta: 0n };
  lines.forEach((line, place) => {
    try {
      const read = JSON.parse(line) as { body: string; hash: string; previous_hash: string; signature: string };
      const body: unknown = JSON.parse(read.body);
      if (!isObject(body)) throw new RangeError("no object");
      const { link, hash } = hashes(previous, read.body, body);
      const signature = fromBase64(read.signature);
      const require = (holds: boolean): void => {
        if (!holds) throw new RangeError("does not hold");
      };
      require(read.hash === hex(hash) && read.previous_hash === hex(previous) && body.seq === place + 1);
      require(isSigned(publicKey, signing.ledgerEntry(hash), signature));
      if (body.kind === "charge") {
        const document = utf8(body.charge as string);
        const serverKey = fromBase64(body.server_key as string);
        require(isSigned(serverKey, signing.charge(document), fromBase64(body.server_signature as string)));
        require(!charges.has(body.job));
        const { price } = readCharge(document);
        charges.set(body.job, price);
        spent = { epsilon: spent.epsilon + price.epsilon, delta: spent.delta + price.delta };
      } else if (body.kind === "opened") {
        require(charges.has(body.job) && Number.isInteger(body.numbers));
      } else {
        const price = charges.get(body.job);
        if (price === undefined) throw new RangeError("a release of nothing");
        spent = { epsilon: spent.epsilon - price.epsilon, delta: spent.delta - price.delta };
      }
      const said = body.spent as { epsilon: string; delta: string };
      require(said.epsilon === String(spent.epsilon) && said.delta === String(spent.delta));
      entries.push({ seq: place + 1, link, hash, signature, body, spent });
      previous = hash;
    } catch {
      throw new LedgerBroken(`entry ${place + 1} does not hold`);
    }
  });
  return entries;
}

function spentOf(entries: Entry[]): Price {
  return entries.at(-1)?.spent ?? { epsilon: 0n, delta: 0n };
}

const PLACES = { epsilon: 9, delta: 18 };

/** A decimal in units of the ledger, rounded down. RangeError for what is no decimal. */
export function unitsOf(text: string, name: "epsilon" | "delta"): bigint {
  const parts = /^([0-9]{1,20})(?:\.([0-9]+))?$/.exec(text);
  if (parts === null) throw new RangeError(`${text} is no decimal that is not negative`);
  const places = PLACES[name];
  return BigInt(parts[1] + (parts[2] ?? "").slice(0, places).padEnd(places, "0"));
}

function inWords(units: bigint, name: "epsilon" | "delta"): string {
  const places = PLACES[name];
  const digits = String(units).padStart(places + 1, "0");
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, "");
}

