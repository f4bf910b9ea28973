/**
 * An agent: it keeps its data to itself, answers rounds, and trusts only the keys that its token pins.
 *
 * Every kind of problem is built on `participate`: its function is given a `Round` and returns the bytes of the answer.
 * The answer and the function's state are on disk before the answer is sent; a new process goes on from there and sends
 * the same bytes again. docs/protocol.md describes the messages.
 */

import { randomBytes } from "node:crypto";
import { basename, extname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";

import { type Bytes, hmac, same, sha256, sortedJson, utf8 } from "./bytes.js";
import { Broken, Connection, type Stream, type Tls } from "./connection.js";
import { objectOf, readCharge, readRoster, type Roster, sameJson } from "./documents.js";
import { AgentError, FolderLost, LimitExceeded, Lost, NotTrusted, Unacceptable } from "./errors.js";
import {
  AgentContentSchema,
  AgentMessageSchema,
  type Challenge,
  EnrolledSchema,
  EnrollRequestSchema,
  EnrolmentSchema,
  type End,
  type OperatorContent,
  OperatorContentSchema,
  type Round as RoundMessage,
  type Start,
} from "./federation_pb.js";
import { Identity } from "./identity.js";
import { isSigned } from "./keys.js";
import { type Entry, Ledger, unitsOf } from "./ledger.js";
import { type Link, parseLink } from "./link.js";
import { Memory } from "./memory.js";
import type { Outcome, Round, Step } from "./rounds.js";
import * as signing from "./signing.js";
import { Exchange } from "./streamKeys.js";

const SKEW_MS = 30_000n; // largest difference between the server's clock and this one
const ENROLL_SECONDS = 20;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 3_000;

/** What this agent speaks, as it says when it enrols: docs/protocol.md, "What an agent speaks". */
const SPEAKS = ["discreet/multi-agent/v1", "discreet/secure-sum/v2", "masking", "spds", "rpds"];

const DECLINES: readonly (readonly [abstract new (...values: never[]) => AgentError, string])[] = [
  [LimitExceeded, "limit_exceeded"],
  [Unacceptable, "unfit"],
  [FolderLost, "folder_lost"],
];

export interface AgentOptions {
  /** Key file, generated on first use; default `agent.key`. */
  identity?: string;
  /** File of the agent's own ledger; default beside the key. */
  ledger?: string;
  /** Folder for the state that must survive this process; default beside the key. */
  state?: string;
  /** The name that the owner sees; default that of the key file. */
  name?: string;
  /** Privacy unit of this agent's account; default `trajectory`. */
  unit?: string;
  /** Decimal numbers: the most that this identity spends over all its sessions; default 1 and 0. */
  limitEpsilon?: string;
  limitDelta?: string;
  /** Public figures that the kind asks for. */
  announcement?: Readonly<Record<string, unknown>>;
  tls?: Tls;
  /** How long to wait for a server that does not answer; default 600. */
  patienceSeconds?: number;
}

type Said = NonNullable<MessageInitShape<typeof AgentContentSchema>["kind"]>;

/** One identity in one session. */
export class Agent {
  readonly link: Link;
  readonly identity: Identity;
  readonly ledger: Ledger;
  readonly name: string;
  readonly #memory: Memory;
  readonly #unit: string;
  readonly #cap: { epsilon: string; delta: string };
  #announcement: Readonly<Record<string, unknown>>;
  readonly #tls: Tls;
  readonly #patienceMs: number;
  #heard = Date.now();

  private constructor(link: Link, options: AgentOptions) {
    const place = options.identity ?? "agent.key";
    const beside = place.slice(0, place.length - extname(place).length);
    this.link = link;
    this.identity = Identity.open(place);
    this.name = options.name ?? basename(beside);
    this.#unit = options.unit ?? "trajectory";
    this.#cap = { epsilon: options.limitEpsilon ?? "1", delta: options.limitDelta ?? "0" };
    const limits = { epsilon: unitsOf(this.#cap.epsilon, "epsilon"), delta: unitsOf(this.#cap.delta, "delta") };
    this.ledger = new Ledger(options.ledger ?? `${beside}.ledger`, this.identity, limits);
    this.#memory = new Memory(join(options.state ?? `${beside}.state`, `${link.session}.json`));
    this.#announcement = options.announcement ?? {};
    this.#tls = options.tls ?? {};
    this.#patienceMs = 1000 * (options.patienceSeconds ?? 600);
  }

  /** An agent for the session that `token` names. BadLink, BadIdentity. */
  static fromToken(token: string, options: AgentOptions = {}): Agent {
    return new Agent(parseLink(token), options);
  }

  /** Enrols this agent in the session, once; returns the id of its account. */
  async enroll(): Promise<string> {
    return this.#memory.alone(() => this.#patiently(() => this.#enroll()));
  }

  /**
   * Answers rounds until the session ends, through broken connections and restarts of either side.
   *
   * Throws Refused when the server refuses for good; LimitExceeded, before any answer is sent, when the charge would exceed
   * the limit; NotTrusted when the server is not the pinned one or contradicts itself; Lost when it stays silent; AgentError
   * when another process takes part with the same files, or an answer cannot be saved. An error of `step` ends the call:
   * call again to go on.
   */
  async participate(step: Step): Promise<Outcome> {
    await this.#memory.alone(async () => {
      await this.#patiently(() => this.#enroll());
      if (this.#memory.known.ended === undefined) await this.#patiently(() => this.#follow(step));
    });
    const { ended, state } = this.#memory.known;
    if (ended === undefined) throw new AgentError("the session has not ended");
    return { ...ended, finalState: state };
  }

  /** The public figures that this agent announces. */
  /** Sets the public figures to enrol with; the roster names them. */
  announce(figures: Readonly<Record<string, unknown>>): void {
    this.#announcement = figures;
  }

  get announcement(): Readonly<Record<string, unknown>> {
    return this.#announcement;
  }

  /** The roster that the owner has signed, once it has arrived. */
  get roster(): Roster {
    return readRoster(this.#memory.known.roster);
  }

  get rosterDigest(): Bytes {
    return sha256(this.#memory.known.roster);
  }

  /** The file that records what this session must never do twice. */
  get journalPath(): string {
    return this.#memory.path.replace(/\.json$/, ".journal");
  }

  /** Calls `what()`, and again after a broken connection, with pauses that double while the server sends nothing. */
  async #patiently<T>(what: () => Promise<T>): Promise<T> {
    this.#heard = Date.now();
    for (let wait = FIRST_PAUSE_MS; ; ) {
      const before = this.#heard;
      try {
        return await what();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        if (Date.now() - this.#heard > this.#patienceMs) {
          throw new Lost(`no answer for ${this.#patienceMs / 1000} s; the last error: ${error.message}`);
        }
      }
      wait = this.#heard === before ? Math.min(2 * wait, LONGEST_PAUSE_MS) : FIRST_PAUSE_MS;
      await pause(wait * (0.5 + Math.random() / 2)); // so that agents do not come back all at once
    }
  }

  async #connected<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await Connection.open(this.link, this.#tls);
    try {
      return await work(connection);
    } finally {
      connection.close();
    }
  }

  // Enrolment

  async #enroll(): Promise<string> {
    const { account, roster } = this.#memory.known;
    if (account && roster.length) return account; // without a roster it enrols again, since its figures may have changed
    const content = toBinary(
      EnrolmentSchema,
      create(EnrolmentSchema, {
        token: this.link.token,
        name: this.name,
        unit: this.#unit,
        capEpsilon: this.#cap.epsilon,
        capDelta: this.#cap.delta,
        announcement: utf8(sortedJson(this.#announcement)),
        speaks: [...SPEAKS],
      }),
    );
    const nonce = new Uint8Array(randomBytes(16));
    const now = BigInt(Date.now());
    const request = create(EnrollRequestSchema, {
      session: this.link.session,
      publicKey: this.identity.publicKey,
      nonce,
      timestampMs: now,
      content,
      signature: this.identity.sign(signing.enrolment(this.link.session, nonce, now, content)),
    });
    const answer = await this.#connected(async (connection) => {
      await this.#meet(connection); // only the pinned server may see the token
      return connection.enroll(request, ENROLL_SECONDS);
    });
    this.#checkServer(answer.publicKey);
    const statement = signing.enrolled(this.link.session, answer.content);
    const enrolled = read(() => fromBinary(EnrolledSchema, answer.content));
    if (!isSigned(answer.publicKey, statement, answer.signature) || !same(enrolled.nonce, nonce)) {
      throw new NotTrusted("the answer to the enrolment is not signed by the server");
    }
    this.#memory.keep({ account: enrolled.account });
    return enrolled.account;
  }

  /** Checks the server's challenge before it is told anything. */
  async #meet(connection: Connection): Promise<void> {
    const stream = connection.participate(ENROLL_SECONDS);
    try {
      await this.#challenge(stream);
    } finally {
      stream.cancel();
    }
  }

  /** The first message of a stream, with its bytes; NotTrusted unless it is fresh and of the pinned server. */
  async #challenge(stream: Stream): Promise<{ challenge: Challenge; content: Bytes }> {
    const message = await stream.next();
    if (message === undefined) throw new Broken("the server closed the stream");
    const { kind } = parsed(message.content);
    if (kind.case !== "challenge") throw new NotTrusted("the server's first message is not a challenge");
    const challenge = kind.value;
    this.#checkServer(challenge.publicKey);
    if (!isSigned(challenge.publicKey, signing.operator("", message.content), message.signature)) {
      throw new NotTrusted("the challenge is not signed by the server");
    }
    const apart = challenge.timestampMs - BigInt(Date.now());
    if (apart > SKEW_MS || apart < -SKEW_MS) throw new NotTrusted("the server's clock and this one differ by more than 30 s");
    if (!challenge.exchange.length) {
      throw new NotTrusted("the server's challenge has no X25519 key: it speaks an older version of the protocol");
    }
    return { challenge, content: message.content };
  }

  #checkServer(publicKey: Bytes): void {
    if (signing.fingerprint(publicKey) !== this.link.server) throw new NotTrusted("this is not the server that the token pins");
  }

  // One stream

  /** Answers rounds on one stream until the session ends; Broken if the stream breaks first. */
  async #follow(step: Step): Promise<void> {
    await this.#connected(async (connection) => {
      const stream = connection.participate();
      try {
        await this.#talk(stream, step);
      } finally {
        stream.cancel();
      }
    });
  }

  async #talk(stream: Stream, step: Step): Promise<void> {
    const { challenge, content } = await this.#challenge(stream);
    const { session } = this.link;
    const voice = new Voice(this.identity, session, challenge, content, stream);
    let accepted: Accepted | undefined;
    for (;;) {
      const message = await stream.next();
      if (message === undefined) throw new Broken("the stream ended before the session");
      if (!isSigned(challenge.publicKey, signing.operator(session, message.content), message.signature)) {
        throw new NotTrusted("a message is not signed by the server");
      }
      this.#heard = Date.now();
      const { kind } = parsed(message.content);
      if (kind.case === "end") return this.#end(kind.value, step);
      try {
        if (kind.case === "start") accepted = await this.#accept(kind.value, challenge.publicKey, step, voice);
        else if (kind.case === "round") await this.#contribute(kind.value, accepted, step, voice);
      } catch (error) {
        const declined = DECLINES.find(([type]) => error instanceof type);
        if (declined !== undefined) {
          voice.send({ case: "decline", value: { code: declined[1] } });
          await pause(500); // so that the message goes out before the stream is closed
        }
        throw error;
      }
      if (kind.case === "start" || kind.case === "round") continue;
      if (kind.case !== "waiting") throw new NotTrusted(`the server sent ${kind.case}, which does not belong here`);
    }
  }

  /** Checks the owner's roster, enters the charge in the ledger, and tells the server. */
  async #accept(start: Start, serverKey: Bytes, step: Step, voice: Voice): Promise<Accepted> {
    if (signing.fingerprint(start.ownerKey) !== this.link.owner) {
      throw new NotTrusted("the roster is signed by another owner than the one that the token pins");
    }
    if (!isSigned(start.ownerKey, signing.roster(start.roster), start.rosterSignature)) {
      throw new NotTrusted("the roster is not signed by the owner");
    }
    const before = this.#memory.known.roster;
    if (before.length && !same(before, start.roster)) throw new NotTrusted("the roster is not the one that was sent before");
    const roster = readRoster(start.roster);
    this.#checkOwnEntry(roster);
    const charge = readCharge(start.charge);
    const parameters = start.parameters.length ? objectOf(start.parameters, "parameters") : {};
    // The job too: if it ends uncharged, the ledger returns the charge by the id that the owner has signed.
    if (charge.session !== this.link.session || charge.job !== roster.job || charge.agent !== this.identity.fingerprint) {
      throw new NotTrusted("the charge is for another agent, session or job");
    }
    if (!isSigned(serverKey, signing.charge(start.charge), start.chargeSignature)) {
      throw new NotTrusted("the charge is not signed by the server");
    }
    if (!before.length && this.ledger.has(roster.job)) {
      throw new FolderLost(`this agent has taken part in this session, and ${this.#memory.path} holds nothing of it: the folder was lost`);
    }
    step.check?.(roster, this.#memory.known.state, this.ledger.exposed(roster.job));
    // The roster first: a ledger with the charge and a folder without the roster mean that the folder was lost.
    this.#memory.keep({ roster: start.roster });
    let entry: Entry;
    try {
      const opens = { numbers: step.opens?.(roster) ?? 0, agents: roster.agents.length };
      entry = await this.ledger.charge(start.charge, start.chargeSignature, serverKey, opens);
    } catch (error) {
      if (error instanceof LimitExceeded) this.#memory.keep({ roster: before });
      throw error;
    }
    voice.send({
      case: "accept",
      value: {
        rosterDigest: sha256(start.roster),
        chargeDigest: sha256(start.charge),
        ledgerSeq: BigInt(entry.seq),
        ledgerLink: entry.link,
        ledgerSignature: entry.signature,
      },
    });
    return { rounds: Number(start.rounds), roster, rosterDigest: sha256(start.roster), parameters, price: charge.price };
  }

  /** NotTrusted unless the roster is of this session and lists this agent with its own key, name and figures. */
  #checkOwnEntry(roster: Roster): void {
    const own = roster.agents.find((one) => one.fingerprint === this.identity.fingerprint);
    if (own === undefined) throw new NotTrusted("this agent is not on the roster");
    if (roster.session !== this.link.session) throw new NotTrusted("the roster is that of another session");
    if (!same(own.key, this.identity.publicKey)) throw new NotTrusted("the roster has another key under this agent's name");
    const announced: unknown = JSON.parse(sortedJson(this.#announcement));
    if (own.name !== this.name || !sameJson(own.announcement, announced)) {
      throw new NotTrusted("the owner has signed another name, or other figures, than those that this agent announces");
    }
  }

  async #contribute(message: RoundMessage, accepted: Accepted | undefined, step: Step, voice: Voice): Promise<void> {
    if (accepted === undefined) throw new NotTrusted("a round came before the roster");
    const number = Number(message.number);
    if (number >= accepted.rounds) throw new NotTrusted(`the server asks for round ${number} of ${accepted.rounds}`);
    const answers = sha256(message.broadcast);
    const last = this.#memory.known.sent;
    if (last === undefined || number > last.number) {
      const round: Round = {
        ...accepted,
        number,
        broadcast: message.broadcast,
        state: this.#memory.known.state,
        seconds: message.milliseconds / 1000,
        identity: this.identity,
        transcript: message.transcript,
      };
      const body = await step(round);
      this.#memory.keep({ sent: { number, body, answers }, state: round.state });
      round.onSaved?.();
    } else if (number < last.number) {
      throw new NotTrusted(`the server went back from round ${last.number} to ${number}`);
    } else if (!same(answers, last.answers)) {
      throw new NotTrusted(`the server sent two different broadcasts for round ${number}`);
    }
    const { sent } = this.#memory.known;
    if (sent !== undefined) voice.contribute(number, sent);
  }

  async #end(end: End, step: Step): Promise<void> {
    const { sent, roster, state: kept } = this.#memory.known;
    if (roster.length) {
      const { job } = readRoster(roster);
      if (!end.charged && sent === undefined) await this.ledger.release(job);
      await this.ledger.opened(job, step.opened?.(kept) ?? 0);
    }
    const { state, code, broadcast, transcript, charged } = end;
    const blamed = end.blamed.map(({ fingerprint, cause }) => ({ fingerprint, cause }));
    const ended = { state, code, rounds: Number(end.rounds), broadcast, transcript, charged, blamed };
    // What only rounds needed is erased: nobody learns later from this folder what was drawn.
    this.#memory.keep({ ended, state: step.withoutSecrets?.(kept) ?? kept });
  }
}

/** The part of a Round that is fixed by Start. */
type Accepted = Pick<Round, "rounds" | "roster" | "rosterDigest" | "parameters" | "price">;

/**
 * The sending half of one stream, which begins with Hello: it numbers messages, signs them, and gives contributions a MAC
 * instead, under the key agreed on for this stream. `challenged` is the content of the server's message with the challenge.
 */
class Voice {
  #sequence = 0n;
  readonly #key: Bytes;

  constructor(
    readonly identity: Identity,
    readonly session: string,
    readonly challenge: Challenge,
    challenged: Bytes,
    readonly stream: Stream,
  ) {
    const exchange = new Exchange();
    const { nonce } = challenge;
    const hello = contentOf({ case: "hello", value: { session, publicKey: identity.publicKey, nonce, exchange: exchange.public } });
    try {
      this.#key = exchange.key(challenge.exchange, session, challenged, hello);
    } catch {
      throw new NotTrusted("no secret can be agreed on with the server's X25519 key");
    }
    this.#put(hello, 0);
  }

  contribute(round: number, value: { body: Bytes; answers: Bytes }): void {
    const { body, answers } = value;
    this.#put(contentOf({ case: "contribution", value: { body, answers } }), round, this.#key);
  }

  send(kind: Said): void {
    this.#put(contentOf(kind), 0);
  }

  /** Sends a content: signed, or with a MAC under `key`. */
  #put(content: Bytes, number: number, key?: Bytes): void {
    const [now, round, sequence] = [BigInt(Date.now()), BigInt(number), this.#sequence];
    const statement = signing.message(this.session, this.challenge.nonce, sequence, round, now, content);
    const proof = key === undefined ? { signature: this.identity.sign(statement) } : { mac: hmac(key, statement) };
    this.stream.send(create(AgentMessageSchema, { content, round, sequence, timestampMs: now, ...proof }));
    this.#sequence += 1n;
  }
}

const contentOf = (kind: Said): Bytes => toBinary(AgentContentSchema, create(AgentContentSchema, { kind }));

const parsed = (content: Bytes): OperatorContent => read(() => fromBinary(OperatorContentSchema, content));

function read<T>(parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new NotTrusted("the server sent a message that cannot be read");
  }
}
