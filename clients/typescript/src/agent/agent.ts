/**
 * An agent: it keeps its data, answers rounds, and believes nobody but the keys that its token pins.
 *
 * `participate` is what every kind of problem lies on: the function is given a `Round` and returns the bytes of the
 * answer. What it decides is on disk before it is sent, with the state it wants to keep; a new process goes on from there
 * and sends the same bytes again. docs/protocol.md has the messages.
 */

import { randomBytes } from "node:crypto";
import { basename, extname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";

import { type Bytes, same, sha256, sortedJson, utf8 } from "./bytes.js";
import { Broken, Connection, type Stream, type Tls } from "./connection.js";
import { objectOf, readCharge, readRoster, type Roster, sameJson } from "./documents.js";
import { AgentError, LimitExceeded, Lost, NotTrusted } from "./errors.js";
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
  type OperatorMessage,
  type Round as RoundMessage,
  type Start,
} from "./federation_pb.js";
import { Identity } from "./identity.js";
import { isSigned } from "./keys.js";
import { Ledger, unitsOf } from "./ledger.js";
import { type Link, parseLink } from "./link.js";
import { Memory } from "./memory.js";
import type { Outcome, Round, Step } from "./rounds.js";
import * as signing from "./signing.js";

const SKEW_MS = 30_000n; // the clocks may differ by so much
const ENROLL_SECONDS = 20;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 3_000;

export interface AgentOptions {
  /** Key file, made on first use; `agent.key`. */
  identity?: string;
  /** The agent's own ledger; beside the key. */
  ledger?: string;
  /** Folder of what must survive this process; beside the key. */
  state?: string;
  /** What the owner sees; the key file's name. */
  name?: string;
  /** Privacy unit of this agent's account; `trajectory`. */
  unit?: string;
  /** Decimals: what this identity spends over all its sessions, at most; 1 and 0. */
  limitEpsilon?: string;
  limitDelta?: string;
  /** Public figures that the kind asks for. */
  announcement?: Readonly<Record<string, unknown>>;
  tls?: Tls;
  /** How long a silent server is waited for; 600. */
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
  readonly #announcement: Readonly<Record<string, unknown>>;
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

  /** Makes this agent known to the session, once; the id of its account. */
  async enroll(): Promise<string> {
    return this.#memory.alone(() => this.#patiently(() => this.#enroll()));
  }

  /**
   * Answers rounds until the session ends, through breaks of the connection and restarts of either side.
   *
   * Refused when the server refuses for good, LimitExceeded before anything is sent when the charge would pass the limit,
   * NotTrusted when the other side is not the pinned one or contradicts itself, Lost when it stays silent, AgentError when
   * another process takes part with the same files, or what was decided cannot be written. Whatever `step` throws ends
   * the agent: run it again to go on.
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

  /** What this agent says in public of itself. */
  get announcement(): Readonly<Record<string, unknown>> {
    return this.#announcement;
  }

  /** The roster that the owner has signed, once it is there. */
  get roster(): Roster {
    return readRoster(this.#memory.known.roster);
  }

  get rosterDigest(): Bytes {
    return sha256(this.#memory.known.roster);
  }

  /** A file for what this session must never do twice. */
  get journalPath(): string {
    return this.#memory.path.replace(/\.json$/, ".journal");
  }

  /** `what()`, again after breaks, with pauses that double while nothing is heard. */
  async #patiently<T>(what: () => Promise<T>): Promise<T> {
    this.#heard = Date.now();
    for (let wait = FIRST_PAUSE_MS; ; ) {
      const before = this.#heard;
      try {
        return await what();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        if (Date.now() - this.#heard > this.#patienceMs) {
          throw new Lost(`no answer for ${this.#patienceMs / 1000} s; the last: ${error.message}`);
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
    if (account && roster.length) return account; // until then it may have other figures than when it enrolled first
    const content = toBinary(
      EnrolmentSchema,
      create(EnrolmentSchema, {
        token: this.link.token,
        name: this.name,
        unit: this.#unit,
        capEpsilon: this.#cap.epsilon,
        capDelta: this.#cap.delta,
        announcement: utf8(sortedJson(this.#announcement)),
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
      await this.#meet(connection); // the token is for the pinned server's eyes
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

  /** Hears the server's challenge before anything is told. */
  async #meet(connection: Connection): Promise<void> {
    const stream = connection.participate(ENROLL_SECONDS);
    try {
      this.#challenge(await stream.next());
    } finally {
      stream.cancel();
    }
  }

  /** The first message of a stream, when it is that of the pinned server and of now. */
  #challenge(message: OperatorMessage | undefined): Challenge {
    if (message === undefined) throw new Broken("the server hung up");
    const { kind } = parsed(message.content);
    if (kind.case !== "challenge") throw new NotTrusted("the server's first message is no challenge");
    const challenge = kind.value;
    this.#checkServer(challenge.publicKey);
    if (!isSigned(challenge.publicKey, signing.operator("", message.content), message.signature)) {
      throw new NotTrusted("the challenge is not signed by the server");
    }
    const apart = challenge.timestampMs - BigInt(Date.now());
    if (apart > SKEW_MS || apart < -SKEW_MS) throw new NotTrusted("the server's clock and this one differ by more than 30 s");
    return challenge;
  }

  #checkServer(publicKey: Bytes): void {
    if (signing.fingerprint(publicKey) !== this.link.server) throw new NotTrusted("this is not the server that the token pins");
  }

  // One stream

  /** One stream until the session ends; Broken when it breaks first. */
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
    const challenge = this.#challenge(await stream.next());
    const { session } = this.link;
    const voice = new Voice(this.identity, session, challenge.nonce, stream);
    voice.send({ case: "hello", value: { session, publicKey: this.identity.publicKey, nonce: challenge.nonce } });
    let accepted: Accepted | undefined;
    for (;;) {
      const message = await stream.next();
      if (message === undefined) throw new Broken("the stream ended before the session");
      if (!isSigned(challenge.publicKey, signing.operator(session, message.content), message.signature)) {
        throw new NotTrusted("a message is not signed by the server");
      }
      this.#heard = Date.now();
      const { kind } = parsed(message.content);
      if (kind.case === "end") return this.#end(kind.value);
      if (kind.case === "start") accepted = await this.#accept(kind.value, challenge.publicKey, voice);
      else if (kind.case === "round") await this.#contribute(kind.value, accepted, step, voice);
      else if (kind.case !== "waiting") throw new NotTrusted(`the server sent ${kind.case} where it has no place`);
    }
  }

  /** Checks the owner's roster, books the charge, says so. */
  async #accept(start: Start, serverKey: Bytes, voice: Voice): Promise<Accepted> {
    if (signing.fingerprint(start.ownerKey) !== this.link.owner) {
      throw new NotTrusted("the roster is signed by another owner than the one that the token pins");
    }
    if (!isSigned(start.ownerKey, signing.roster(start.roster), start.rosterSignature)) {
      throw new NotTrusted("the roster is not signed by the owner");
    }
    const before = this.#memory.known.roster;
    if (before.length && !same(before, start.roster)) throw new NotTrusted("the roster is another one than before");
    const roster = readRoster(start.roster);
    this.#checkOwnEntry(roster);
    const charge = readCharge(start.charge);
    const parameters = start.parameters.length ? objectOf(start.parameters, "parameters") : {};
    // Also the job: an ended job's charge is given back under the name that the owner has signed.
    if (charge.session !== this.link.session || charge.job !== roster.job || charge.agent !== this.identity.fingerprint) {
      throw new NotTrusted("the charge is meant for somebody else, or another job");
    }
    if (!isSigned(serverKey, signing.charge(start.charge), start.chargeSignature)) {
      throw new NotTrusted("the charge is not signed by the server");
    }
    try {
      const entry = await this.ledger.charge(start.charge, start.chargeSignature, serverKey);
      this.#memory.keep({ roster: start.roster });
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
    } catch (error) {
      if (error instanceof LimitExceeded) {
        voice.send({ case: "decline", value: { code: "limit_exceeded" } });
        await pause(500); // the stream is about to be closed; let the word go out
      }
      throw error;
    }
    return { rounds: Number(start.rounds), roster, rosterDigest: sha256(start.roster), parameters, price: charge.price };
  }

  /** NotTrusted unless the owner has signed this agent for this session, with its own key, name and figures. */
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
    if (sent !== undefined) voice.send({ case: "contribution", value: { body: sent.body, answers: sent.answers } }, number);
  }

  async #end(end: End): Promise<void> {
    const { sent, roster } = this.#memory.known;
    if (!end.charged && sent === undefined && roster.length) await this.ledger.release(readRoster(roster).job);
    const { state, code, broadcast, transcript } = end;
    this.#memory.keep({ ended: { state, code, rounds: Number(end.rounds), broadcast, transcript } });
  }
}

/** What holds from Start on. */
type Accepted = Pick<Round, "rounds" | "roster" | "rosterDigest" | "parameters" | "price">;

/** The sending half of one stream: numbers and signs. */
class Voice {
  #sequence = 0n;

  constructor(
    readonly identity: Identity,
    readonly session: string,
    readonly nonce: Bytes,
    readonly stream: Stream,
  ) {}

  send(kind: Said, round = 0): void {
    const content = toBinary(AgentContentSchema, create(AgentContentSchema, { kind }));
    const now = BigInt(Date.now());
    const statement = signing.message(this.session, this.nonce, this.#sequence, BigInt(round), now, content);
    this.stream.send(
      create(AgentMessageSchema, {
        content,
        round: BigInt(round),
        sequence: this.#sequence,
        timestampMs: now,
        signature: this.identity.sign(statement),
      }),
    );
    this.#sequence += 1n;
  }
}

const parsed = (content: Bytes): OperatorContent => read(() => fromBinary(OperatorContentSchema, content));

function read<T>(parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new NotTrusted("the server sent what is no message");
  }
}
