/**
 * The agent's side of encrypted sums, scheme `masking`, as a state machine that takes and returns bytes: docs/protocol.md,
 * "Encrypted sums". It ends at its first error except for NotDue: a frame that is not authentic changes nothing.
 */

import { createCipheriv, createDecipheriv, generateKeyPairSync, type KeyObject } from "node:crypto";

import { type Bytes, concat, fromHex, hex, hmac, same, sha256, textOf, u16, u32, utf8 } from "./bytes.js";
import { isObject, sameJson } from "./documents.js";
import { AgentError, NotDue, OutOfRange, Reused, Tampered, Unacceptable } from "./errors.js";
import {
  type Frame,
  header,
  type Kind,
  OPERATOR,
  OUT_OF_BOUNDS,
  parseFrame,
  PROTOCOL,
  SIGNATURE_BYTES,
  type Verdict,
  VERDICTS,
} from "./frames.js";
import type { FixedPoint } from "./fixedPoint.js";
import type { Identity } from "./identity.js";
import type { Journal } from "./journal.js";
import { exchanged, isSigned, privateBytes, privateKey, publicBytes } from "./keys.js";
import { commitment, contribution, expand, extract, keystream, opened, wordsOf } from "./masks.js";
import { pointOf, type Sums } from "./parameters.js";

const EPOCH = 0; // a session has only one
const SLACK = 2 ** -30; // relative slack on the bounds of sums, far above the rounding errors of doubles
const NOTHING = new Uint8Array(32);
const TAG_BYTES = 16;
const SECRET_BYTES = 32;

/** An agent's optimizer: all agents see the same sums, and must decide the end and the verdict by these alone. */
export interface Update {
  /**
   * Given the last sums, none at the start: the next contribution, or undefined to end. `draw` gives one number in [0, 1), the
   * same whenever the same is asked again after the same broadcasts.
   */
  next(sums: readonly number[] | undefined, draw: () => number): readonly number[] | undefined;
  /** Whether the sum of the last contribution is of the agents alone, without the operator's part. */
  readonly alone: boolean;
  /** Whether the sums have settled. */
  settled(tolerance: number): boolean;
}

/** The agents' Ed25519 keys in the order of the roster, and the parameters, as the owner has signed them. */
export interface Agreed {
  readonly members: readonly Bytes[];
  readonly sums: Sums;
}

/** Secrets to use instead of random ones; only for test vectors. */
export interface Secrets {
  readonly exchange: KeyObject;
  readonly groupKey: Bytes;
}

export class Machine {
  readonly #identity: Identity;
  readonly #agreed: Agreed;
  readonly #update: Update;
  readonly #journal: Journal;
  readonly #point: FixedPoint;
  readonly #index: number;
  readonly #all: readonly number[];
  #exchange: KeyObject;
  readonly #drawn: Bytes | undefined;

  #document: Bytes = new Uint8Array();
  #job = "";
  #operator: Bytes = NOTHING;
  #context: Bytes = new Uint8Array();
  #round = 0;
  #previous: Bytes = NOTHING;
  #heard: Bytes = NOTHING;
  /** The transcript that the masks of this round, and the dealer's seals, are bound to. */
  #bound: Bytes = NOTHING;
  #transcript: Bytes = sha256(utf8(PROTOCOL));
  #fingerprint: Bytes = NOTHING;
  #shared = new Map<number, Bytes>();
  #groupKey: Bytes = new Uint8Array();
  #deal: Bytes = new Uint8Array();
  #opened = 0;
  #contributed = 0;
  #expected: Kind | undefined = "OPEN";
  #verdict: Verdict = "UNSAID";
  #ended: Error | undefined;
  /** The fault of the sum about which this agent has complained; empty if it has not. */
  complaint = "";

  constructor(identity: Identity, agreed: Agreed, update: Update, journal: Journal, secrets?: Secrets) {
    this.#identity = identity;
    this.#agreed = agreed;
    this.#update = update;
    this.#journal = journal;
    this.#point = pointOf(agreed.sums, agreed.members.length);
    this.#index = agreed.members.findIndex((member) => same(member, identity.publicKey));
    if (this.#index < 0) throw new Unacceptable("this agent is not in the roster");
    if (new Set(agreed.members.map(hex)).size !== agreed.members.length) throw new Unacceptable("the same key stands twice in the roster");
    this.#all = agreed.members.map((_, place) => place);
    this.#exchange = secrets?.exchange ?? generateKeyPairSync("x25519").privateKey;
    this.#drawn = secrets?.groupKey;
  }

  /** Whether all agents have signed the same transcript. */
  get finished(): boolean {
    return this.#expected === undefined && !this.complaint;
  }

  /** How many numbers of sums with this agent in them may be open: a sum may be even where this agent was not told. */
  get numbers(): number {
    return this.#contributed * this.#agreed.sums.dimension;
  }

  get transcript(): Bytes {
    return this.#transcript;
  }

  get verdict(): Verdict {
    return this.#verdict;
  }

  /**
   * The answer to a broadcast; empty if the protocol expects none from this agent. NotDue for a frame that is not the
   * operator's or not due, after which the right one may still come; every other error ends the machine.
   */
  answer(broadcast: Bytes): Bytes {
    if (this.#ended !== undefined) throw new AgentError(`this agent has ended: ${this.#ended.message}`);
    const frame = parseFrame(broadcast);
    if (frame.sender !== OPERATOR || frame.kind !== this.#expected || frame.epoch !== EPOCH || frame.round !== this.#round) {
      throw new NotDue(`a ${frame.kind} of epoch ${frame.epoch}, round ${frame.round} from ${frame.sender} is not due`);
    }
    if (frame.kind === "OPEN") return this.#onOpen(frame, broadcast);
    this.#verify(frame.kind, OPERATOR, frame.payload, frame.signature);
    try {
      if (frame.kind !== "CLOSE") this.#hear(broadcast); // it carries the signatures over the transcript
      return this.#handle(frame);
    } catch (error) {
      this.#ended = error as Error;
      throw error;
    }
  }

  #handle({ kind, payload }: Frame): Bytes {
    if (kind === "KEYS") return this.#onKeys(payload);
    if (kind === "DEALT") return this.#onDealt(payload);
    if (kind === "START") return this.#onStart(payload);
    if (kind === "SUM") return this.#onSum(payload);
    if (kind === "CLOSE") return this.#onClose(payload);
    throw new NotDue(`a ${kind} is not a broadcast`);
  }

  // Setting up

  #onOpen(frame: Frame, broadcast: Bytes): Bytes {
    const document = frame.payload.subarray(0, -32);
    const key = frame.payload.subarray(-32);
    this.#begin(document);
    try {
      this.#verify("OPEN", OPERATOR, frame.payload, frame.signature);
    } catch (error) {
      this.#document = new Uint8Array();
      throw error;
    }
    try {
      this.#claimEpoch();
      this.#agreeWith(OPERATOR, key);
    } catch (error) {
      this.#ended = error as Error;
      throw error;
    }
    this.#hear(broadcast);
    this.#expected = "KEYS";
    return this.#frame("HELLO", publicBytes(this.#exchange));
  }

  /**
   * Reads the roster of the sums. Its members and parameters must be those that the owner has signed; the operator's job and
   * key are signed by the pinned server.
   */
  #begin(document: Bytes): void {
    let fields: unknown;
    try {
      fields = JSON.parse(textOf(document));
    } catch {
      fields = undefined;
    }
    if (!isObject(fields)) throw new NotDue("the roster of the sums cannot be read");
    const { protocol, job, members, operator, parameters } = fields;
    const { sums, members: agreed } = this.#agreed;
    if (protocol !== PROTOCOL || typeof job !== "string" || typeof operator !== "string" || !/^[0-9a-f]{64}$/.test(operator)) {
      throw new NotDue("the roster of the sums is of another protocol");
    }
    if (!sameJson(members, agreed.map(hex)) || !sameJson(parameters, sums.signed)) {
      throw new NotDue("the roster of the sums is not the one that the owner has signed");
    }
    this.#operator = fromHex(operator);
    if (agreed.some((member) => same(member, this.#operator))) throw new NotDue("the same key stands twice in the roster");
    this.#document = document;
    this.#job = job;
    const hash = sha256(document);
    this.#previous = hash;
    this.#context = concat(utf8(PROTOCOL), sha256(utf8(job)), hash);
  }

  #record(what: string): string {
    return `${hex(sha256(utf8(this.#job)))} ${EPOCH} ${this.#round} ${what}`;
  }

  /** Claims the epoch. The journal is that of this session only, so any other record in it means that it was begun before. */
  #claimEpoch(): void {
    this.#journal.claim(this.#record("epoch"));
    if (this.#journal.records.length > 1) {
      throw new Reused("this session was begun before, and its saved state is lost: it is not answered again");
    }
  }

  #onKeys(payload: Bytes): Bytes {
    const size = 32 + SIGNATURE_BYTES;
    if (payload.length !== size * this.#all.length) throw new Tampered("KEYS does not hold one key and one signature of each agent");
    for (const other of this.#all) {
      const entry = payload.subarray(size * other, size * (other + 1));
      const key = entry.subarray(0, 32);
      this.#insist("HELLO", other, key, entry.subarray(32), `the X25519 key of agent ${other} is not signed by it`);
      if (other !== this.#index) this.#agreeWith(other, key);
      else if (!same(key, publicBytes(this.#exchange))) throw new Tampered("the X25519 key of this agent was replaced");
    }
    this.#bound = this.#transcript;
    this.#expected = "DEALT";
    if (this.#agreed.sums.dealer !== this.#index) return new Uint8Array();
    this.#journal.claim(this.#record("deal")); // the keys that seal it are for one use
    this.#groupKey = this.#drawn ?? this.#draw(SECRET_BYTES);
    const committed = commitment(this.#groupKey);
    const sealed = this.#all.filter((other) => other !== this.#index).map((other) => this.#seal(other, committed));
    return this.#frame("DEAL", concat(committed, ...sealed));
  }

  #seal(recipient: number, committed: Bytes): Bytes {
    const { key, info } = this.#sealing(this.#index, recipient);
    const cipher = createCipheriv("chacha20-poly1305", key, new Uint8Array(12), { authTagLength: TAG_BYTES });
    cipher.setAAD(concat(info, sha256(committed)), { plaintextLength: SECRET_BYTES });
    return concat(cipher.update(this.#groupKey), cipher.final(), cipher.getAuthTag());
  }

  /** The one-time key between dealer and recipient, and the associated data. */
  #sealing(dealer: number, recipient: number): { key: Bytes; info: Bytes } {
    const other = recipient === this.#index ? dealer : recipient;
    const info = concat(utf8("discreet/deal/v2"), this.#context, u32(EPOCH), u16(dealer), u16(recipient), this.#bound);
    return { key: expand(this.#secretWith(other), info), info };
  }

  #onDealt(data: Bytes): Bytes {
    const { dealer } = this.#agreed.sums;
    let frame: Frame;
    try {
      frame = parseFrame(data);
    } catch {
      throw new Tampered("DEALT does not hold the dealer's frame");
    }
    if (frame.kind !== "DEAL" || frame.epoch !== EPOCH || frame.round !== this.#round || frame.sender !== dealer) {
      throw new Tampered("DEALT does not hold the dealer's frame");
    }
    this.#insist("DEAL", dealer, frame.payload, frame.signature, "the DEAL frame is not signed by the dealer");
    const committed = frame.payload.subarray(0, 32);
    const sealed = frame.payload.subarray(32);
    const size = SECRET_BYTES + TAG_BYTES;
    if (sealed.length !== size * (this.#all.length - 1)) throw new Tampered("the dealer has not dealt to every agent");
    if (dealer !== this.#index) {
      const place = this.#index - (this.#index > dealer ? 1 : 0);
      const secret = this.#unseal(sealed.subarray(size * place, size * (place + 1)), committed);
      if (!same(commitment(secret), committed)) throw new Tampered("the group key is not the one that the dealer has committed to");
      this.#groupKey = secret;
    } else if (!same(committed, commitment(this.#groupKey))) {
      throw new Tampered("the key of this dealer was replaced");
    }
    this.#fingerprint = sha256(committed);
    this.#deal = sha256(data);
    this.#expected = "START";
    return this.#frame("ACK", this.#deal, true);
  }

  #unseal(box: Bytes, committed: Bytes): Bytes {
    const { key, info } = this.#sealing(this.#agreed.sums.dealer, this.#index);
    const decipher = createDecipheriv("chacha20-poly1305", key, new Uint8Array(12), { authTagLength: TAG_BYTES });
    decipher.setAAD(concat(info, sha256(committed)), { plaintextLength: SECRET_BYTES });
    decipher.setAuthTag(box.subarray(SECRET_BYTES));
    try {
      return concat(decipher.update(box.subarray(0, SECRET_BYTES)), decipher.final());
    } catch {
      throw new Tampered("the dealer's secret for this agent cannot be opened");
    }
  }

  #onStart(payload: Bytes): Bytes {
    this.#verifyAll("ACK", payload, this.#deal);
    return this.#contribute(undefined);
  }

  // Rounds

  #onSum(payload: Bytes): Bytes {
    const sums = this.#point.decode(opened(payload, this.#agreed.sums.dimension, this.#pads(this.#all)));
    const beyond = this.#beyond(sums);
    this.#opened += 1;
    this.#previous = this.#heard;
    this.#round += 1;
    return beyond ? this.#complain(beyond) : this.#contribute(sums);
  }

  /** The entry of a sum that exceeds the bounds that the owner has signed; empty if none does. */
  #beyond(sums: readonly number[]): string {
    const { most, fraction_bits } = this.#agreed.sums;
    if (most === undefined || this.#update.alone) return "";
    const rounding = (this.#all.length + 1) * 2 ** -(fraction_bits + 1);
    const entry = sums.findIndex((one, place) => Math.abs(one) > (most[place] as number) * (1 + SLACK) + rounding);
    if (entry < 0) return "";
    return `its entry ${entry} is ${sums[entry]}, and with what the owner has signed it is at most ${most[entry]}`;
  }

  /** The signed complaint, sent instead of an answer; this agent answers nothing more. */
  #complain(why: string): Bytes {
    this.complaint = `the sum of round ${this.#round - 1} is wrong: ${why}`;
    this.#expected = undefined;
    return this.#frame("COMPLAINT", OUT_OF_BOUNDS, true);
  }

  #contribute(sums: readonly number[] | undefined): Bytes {
    const { rounds, dimension, tolerance } = this.#agreed.sums;
    const values = this.#update.next(sums, () => Number(wordsOf(this.#draw(8))[0] as bigint >> 11n) * 2 ** -53);
    if (values === undefined) {
      if (this.#opened === 0) throw new Unacceptable("an agent must not end before the first sum");
      this.#expected = "CLOSE";
      if (tolerance !== undefined) this.#verdict = this.#update.settled(tolerance) ? "SETTLED" : "UNSETTLED";
      return this.#frame("TRANSCRIPT", concat(this.#transcript, VERDICTS[this.#verdict]), true);
    }
    if (this.#round >= rounds) throw new Unacceptable(`this job opens at most ${rounds} sums`);
    if (values.length !== dimension) throw new OutOfRange(`a contribution must have ${dimension} entries, not ${values.length}`);
    const encoded = this.#point.encode(values);
    // A keyed digest, so that the journal reveals nothing about the values, with a key that ends with the session.
    const digest = this.keyed(utf8(encoded.join(" ")));
    this.#journal.claim(this.#record(`contribution ${digest}`));
    this.#contributed += 1;
    this.#bound = this.#transcript;
    const above = this.#all.filter((other) => other > this.#index);
    const below = this.#all.filter((other) => other < this.#index);
    const plus = [...above, OPERATOR].map((other) => this.#maskKey(other));
    this.#expected = "SUM";
    const masked = contribution(encoded, [...plus, ...this.#pads([this.#index])], below.map((other) => this.#maskKey(other)));
    return this.#frame(this.#update.alone ? "ALONE" : "CONTRIBUTION", masked);
  }

  #onClose(payload: Bytes): Bytes {
    this.#verifyAll("TRANSCRIPT", payload, concat(this.#transcript, VERDICTS[this.#verdict]));
    this.#expected = undefined;
    return new Uint8Array();
  }

  #pads(agents: readonly number[]): Bytes[] {
    const key = extract(this.#groupKey);
    const base = concat(utf8("discreet/pad/v1"), this.#context, u32(EPOCH), u32(this.#round));
    return agents.map((agent) => expand(key, concat(base, u16(agent))));
  }

  #maskKey(other: number): Bytes {
    const pair = concat(u16(Math.min(this.#index, other)), u16(Math.max(this.#index, other)));
    const context = this.#context.subarray(PROTOCOL.length);
    const info = concat(utf8("discreet/mask/v2"), context, u32(EPOCH), u32(this.#round), pair, this.#bound);
    return expand(this.#secretWith(other), info);
  }

  // Signatures

  #statement(kind: Kind, sender: number, payload: Bytes): Bytes {
    return concat(this.#context, header(kind, EPOCH, this.#round, sender), this.#fingerprint, this.#previous, sha256(payload));
  }

  /** A signed frame; a payload that the receiver knows is signed but not sent. */
  #frame(kind: Kind, payload: Bytes, known = false): Bytes {
    const signature = this.#identity.sign(this.#statement(kind, this.#index, payload));
    return concat(header(kind, EPOCH, this.#round, this.#index), known ? new Uint8Array() : payload, signature);
  }

  #verify(kind: Kind, sender: number, payload: Bytes, signature: Bytes): void {
    const key = sender === OPERATOR ? this.#operator : (this.#agreed.members[sender] as Bytes);
    if (!isSigned(key, this.#statement(kind, sender, payload), signature)) {
      const name = sender === OPERATOR ? "the operator" : `agent ${sender}`;
      throw new NotDue(`a ${kind} frame of this round is not signed by ${name}`);
    }
  }

  #insist(kind: Kind, sender: number, payload: Bytes, signature: Bytes, otherwise: string): void {
    try {
      this.#verify(kind, sender, payload, signature);
    } catch {
      throw new Tampered(otherwise);
    }
  }

  #verifyAll(kind: Kind, signatures: Bytes, payload: Bytes): void {
    if (signatures.length !== SIGNATURE_BYTES * this.#all.length) throw new Tampered(`there must be ${this.#all.length} signatures of ${kind}`);
    for (const signer of this.#all) {
      const signature = signatures.subarray(SIGNATURE_BYTES * signer, SIGNATURE_BYTES * (signer + 1));
      this.#insist(kind, signer, payload, signature, `agent ${signer} has not signed the same ${kind}`);
    }
  }

  #agreeWith(other: number, key: Bytes): void {
    try {
      this.#shared.set(other, extract(exchanged(this.#exchange, key)));
    } catch {
      throw new Tampered(`the X25519 key of ${other} has small order`);
    }
  }

  #secretWith(other: number): Bytes {
    const secret = this.#shared.get(other);
    if (secret === undefined) throw new AgentError(`no secret was agreed on with ${other}`);
    return secret;
  }

  /** What this agent draws in a session follows from this key and from what it has heard, so that a folder that is put back draws the same. */
  get #key(): Bytes {
    return extract(privateBytes(this.#exchange));
  }

  /** What it draws here: after the same broadcasts the same bytes. */
  #draw(size: number): Bytes {
    return keystream(expand(this.#key, concat(utf8("discreet/draws/v1"), this.#transcript)), size);
  }

  /** A digest under the session's key, which tells nobody what it is of. */
  keyed(data: Bytes): string {
    return hex(hmac(this.#key, data));
  }

  #hear(broadcast: Bytes): void {
    this.#heard = sha256(broadcast);
    this.#transcript = sha256(this.#transcript, this.#heard);
  }

  // Another process

  /**
   * All that `resume` needs except for the optimizer's own state; to be saved after each answer, before it is sent. Secret: it
   * holds the keys.
   */
  state(): SavedMachine {
    return {
      document: textOf(this.#document),
      round: this.#round,
      previous: hex(this.#previous),
      heard: hex(this.#heard),
      bound: hex(this.#bound),
      transcript: hex(this.#transcript),
      fingerprint: hex(this.#fingerprint),
      exchange: hex(privateBytes(this.#exchange)),
      shared: [...this.#shared].map(([other, secret]) => [other, hex(secret)]),
      groupKey: hex(this.#groupKey),
      deal: hex(this.#deal),
      opened: this.#opened,
      contributed: this.#contributed,
      numbers: this.numbers,
      expected: this.#expected ?? null,
      verdict: this.#verdict,
      complaint: this.complaint,
    };
  }

  /** Goes on from the state of a machine with the same identity and journal. */
  resume(saved: SavedMachine): void {
    this.#begin(utf8(saved.document));
    this.#round = saved.round;
    this.#previous = fromHex(saved.previous);
    this.#heard = fromHex(saved.heard);
    this.#bound = fromHex(saved.bound);
    this.#transcript = fromHex(saved.transcript);
    this.#fingerprint = fromHex(saved.fingerprint);
    if (saved.exchange) this.#exchange = privateKey("x25519", fromHex(saved.exchange));
    this.#shared = new Map(saved.shared.map(([other, secret]) => [other, fromHex(secret)]));
    this.#groupKey = fromHex(saved.groupKey);
    this.#deal = fromHex(saved.deal);
    this.#opened = saved.opened;
    this.#contributed = saved.contributed;
    this.#expected = saved.expected ?? undefined;
    this.#verdict = saved.verdict;
    this.complaint = saved.complaint ?? "";
  }
}

export interface SavedMachine {
  document: string;
  round: number;
  previous: string;
  heard: string;
  bound: string;
  transcript: string;
  fingerprint: string;
  exchange: string;
  shared: [number, string][];
  groupKey: string;
  deal: string;
  opened: number;
  contributed: number;
  numbers: number;
  expected: Kind | null;
  verdict: Verdict;
  complaint?: string;
}
