/** The agent against protos/vectors.json (DISCREET_VECTORS), which the Python agent's code has made. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { fromBinary, toBinary } from "@bufbuild/protobuf";

import type { Agent } from "../src/agent/agent.js";
import { concat, type Bytes, fromHex, hex, hmac, sha256, sortedJson, utf8 } from "../src/agent/bytes.js";
import { solve } from "../src/agent/coupledQp.js";
import { readCharge, readRoster } from "../src/agent/documents.js";
import { BadLink, FolderLost, NotDue, NotTrusted, OutOfRange, Tampered } from "../src/agent/errors.js";
import {
  AgentContentSchema,
  AgentMessageSchema,
  EnrolledSchema,
  EnrollRequestSchema,
  EnrollResponseSchema,
  EnrolmentSchema,
  OperatorContentSchema,
  OperatorMessageSchema,
} from "../src/agent/federation_pb.js";
import { FixedPoint } from "../src/agent/fixedPoint.js";
import { header, OPERATOR, PROTOCOL } from "../src/agent/frames.js";
import * as history from "../src/agent/history.js";
import { Identity } from "../src/agent/identity.js";
import { Journal } from "../src/agent/journal.js";
import { exchanged, isSigned, privateKey, publicBytes } from "../src/agent/keys.js";
import { type Entry, Ledger, unitsOf } from "../src/agent/ledger.js";
import { isLoopback, parseLink } from "../src/agent/link.js";
import { Machine, type Update } from "../src/agent/machine.js";
import { commitment, extract, keystream } from "../src/agent/masks.js";
import { minimize, stepOf } from "../src/agent/multiAgent.js";
import { sumsOf } from "../src/agent/parameters.js";
import type { Outcome, Round, Step } from "../src/agent/rounds.js";
import * as signing from "../src/agent/signing.js";
import { haveSettled, Participant } from "../src/agent/spds.js";
import { Exchange } from "../src/agent/streamKeys.js";

// biome-ignore lint: the file is data of many forms
type Any = any;
const vectors: Any = JSON.parse(readFileSync(process.env.DISCREET_VECTORS ?? "../../protos/vectors.json", "utf8"));
const folder = mkdtempSync(join(tmpdir(), "discreet-vectors-"));
after(() => rmSync(folder, { recursive: true }));

const identityOf = (name: string): Identity => new Identity(privateKey("ed25519", fromHex(vectors.keys[name].seed)));
const publicOf = (name: string): Bytes => fromHex(vectors.keys[name].public);

test("keys have their fingerprints", () => {
  for (const name of Object.keys(vectors.keys)) {
    assert.equal(hex(identityOf(name).publicKey), vectors.keys[name].public);
    assert.equal(identityOf(name).fingerprint, vectors.keys[name].fingerprint);
  }
});

test("links are read or refused", () => {
  for (const { text, loopback, ...parts } of vectors.links.read) {
    assert.deepEqual(parseLink(text), parts);
    assert.equal(isLoopback(parts.host), loopback);
  }
  assert.ok(vectors.links.refused.length > 5);
  for (const text of vectors.links.refused) assert.throws(() => parseLink(text), BadLink, text);
});

test("statements and their signatures", () => {
  const made: Record<string, (fields: Any) => Bytes> = {
    Enroll: (of) => signing.enrolment(of.session, fromHex(of.nonce), BigInt(of.timestamp_ms), fromHex(of.content)),
    Enrolled: (of) => signing.enrolled(of.session, fromHex(of.content)),
    Operator: (of) => signing.operator(of.session, fromHex(of.content)),
    Participate: (of) =>
      signing.message(of.session, fromHex(of.nonce), BigInt(of.sequence), BigInt(of.round), BigInt(of.timestamp_ms), fromHex(of.content)),
    Roster: (of) => signing.roster(fromHex(of.document)),
    Charge: (of) => signing.charge(fromHex(of.document)),
    LedgerEntry: (of) => signing.ledgerEntry(fromHex(of.hash)),
    History: (of) => signing.history(fromHex(of.roster_digest), fromHex(of.end)),
  };
  assert.equal(vectors.statements.length, Object.keys(made).length);
  for (const { purpose, signer, fields, statement, signature } of vectors.statements) {
    const own = (made[purpose] as (fields: Any) => Bytes)(fields);
    assert.equal(hex(own), statement, purpose);
    assert.equal(hex(identityOf(signer).sign(own)), signature, purpose);
    assert.ok(isSigned(publicOf(signer), own, fromHex(signature)));
    assert.ok(!isSigned(publicOf(signer), concat(own, utf8("!")), fromHex(signature)));
  }
});

test("odd keys and signatures hold or not as for everybody else", () => {
  for (const { about, key, message, signature, holds } of vectors.signatures) {
    assert.equal(isSigned(fromHex(key), fromHex(message), fromHex(signature)), holds, about);
  }
});

test("both sides of a stream agree on the key of its contributions", () => {
  const { server, agent, challenge, hello, info, key, refused } = vectors.exchange;
  const contents = [vectors.messages.session, fromHex(challenge), fromHex(hello)] as const;
  assert.equal(hex(signing.contributionKey(...contents)), info);
  for (const [own, other] of [[server, agent], [agent, server]]) {
    const exchange = new Exchange(privateKey("x25519", fromHex(own.private)));
    assert.equal(hex(exchange.public), own.public);
    assert.equal(hex(exchange.key(fromHex(other.public), ...contents)), key);
    assert.notEqual(hex(exchange.key(fromHex(other.public), contents[0], contents[2], contents[1])), key);
    assert.ok(refused.length > 3);
    for (const one of refused) assert.throws(() => exchange.key(fromHex(one), ...contents), RangeError);
  }
});

test("messages are read and written as they travel", () => {
  const { session, nonce, timestamp_ms: now, ...of } = vectors.messages;
  const request = fromBinary(EnrollRequestSchema, fromHex(of.EnrollRequest));
  assert.ok(isSigned(publicOf("agent_0"), signing.enrolment(session, request.nonce, request.timestampMs, request.content), request.signature));
  assert.equal(fromBinary(EnrolmentSchema, request.content).capEpsilon, "0.5");
  assert.equal(hex(toBinary(EnrollRequestSchema, request)), of.EnrollRequest);
  const response = fromBinary(EnrollResponseSchema, fromHex(of.EnrollResponse));
  assert.ok(isSigned(publicOf("server"), signing.enrolled(session, response.content), response.signature));
  assert.equal(fromBinary(EnrolledSchema, response.content).account, "acc_1");
  for (const name of ["Hello", "Contribution"]) {
    const message = fromBinary(AgentMessageSchema, fromHex(of[name]));
    const statement = signing.message(session, fromHex(nonce), message.sequence, message.round, BigInt(now), message.content);
    if (name === "Hello") assert.ok(isSigned(publicOf("agent_0"), statement, message.signature));
    else assert.equal(hex(hmac(fromHex(vectors.exchange.key), statement)), hex(message.mac));
    assert.equal(message.signature.length + message.mac.length, name === "Hello" ? 64 : 32);
    assert.equal(hex(toBinary(AgentMessageSchema, message)), of[name]);
    assert.equal(fromBinary(AgentContentSchema, message.content).kind.case, name.toLowerCase());
  }
  for (const name of ["Challenge", "Waiting", "Round", "End"]) {
    const message = fromBinary(OperatorMessageSchema, fromHex(of[name]));
    const statement = signing.operator(name === "Challenge" ? "" : session, message.content);
    assert.ok(isSigned(publicOf("server"), statement, message.signature), name);
    assert.equal(fromBinary(OperatorContentSchema, message.content).kind.case, name.toLowerCase());
  }
});

test("roster and charge", () => {
  const document = utf8(vectors.roster.document);
  assert.equal(hex(sha256(document)), vectors.roster.digest);
  assert.ok(isSigned(publicOf("owner"), signing.roster(document), fromHex(vectors.roster.signature)));
  const roster = readRoster(document);
  assert.deepEqual(roster.agents.map((one) => hex(one.key)), ["agent_0", "agent_1", "agent_2"].map((name) => vectors.keys[name].public));
  const charge = utf8(vectors.charge.document);
  assert.ok(isSigned(publicOf("server"), signing.charge(charge), fromHex(vectors.charge.signature)));
  const { epsilon, delta } = vectors.charge.price;
  assert.deepEqual(readCharge(charge).price, { epsilon: unitsOf(epsilon, "epsilon"), delta: unitsOf(delta, "delta") });
});

test("the Python agent's ledger holds, goes on, and shows what was changed", async () => {
  const path = join(folder, "agent.ledger");
  writeFileSync(path, vectors.ledger.lines.map((line: string) => `${line}\n`).join(""));
  const ledger = new Ledger(path, identityOf("agent_0"), { epsilon: unitsOf("1", "epsilon"), delta: unitsOf("1", "delta") });
  const entries = ledger.entries();
  assert.equal(entries.length, 3);
  vectors.ledger.receipts.forEach((receipt: Any, place: number) => {
    const entry = entries[place] as Entry;
    assert.equal(entry.seq, receipt.ledger_seq);
    assert.equal(hex(entry.link), receipt.ledger_link);
    assert.equal(hex(entry.hash), receipt.hash);
    assert.equal(hex(entry.signature), receipt.ledger_signature);
    assert.equal(hex(signing.booked(entry.link, BigInt(entry.seq), fromHex(receipt.charge_digest))), receipt.hash);
  });
  const charge = utf8(vectors.charge.document);
  const again = await ledger.charge(charge, fromHex(vectors.charge.signature), publicOf("server"));
  assert.equal(again.seq, 1); // booked once, whoever asks again
  writeFileSync(path, readFileSync(path, "utf8").replace("500000000", "400000000"));
  assert.throws(() => ledger.entries(), /entry 1 does not hold/);
});

test("what a job has opened is what its agents were in", async () => {
  const ledger = new Ledger(join(folder, "opened.ledger"), identityOf("agent_0"), { epsilon: undefined, delta: undefined });
  const { job } = readCharge(utf8(vectors.charge.document));
  await ledger.charge(utf8(vectors.charge.document), fromHex(vectors.charge.signature), publicOf("server"), { numbers: 10, agents: 5 });
  assert.deepEqual([ledger.exposed("another"), ledger.exposed(job)], [2, 0]);
  await ledger.opened(job, 4);
  assert.equal(ledger.exposed("another"), 0.8);
  await ledger.opened(job, 2); // once
  assert.equal(ledger.exposed("another"), 0.8);
});

// multi_agent

function roundOf(number: number, broadcast: string, state: string): Round {
  const { roster, rounds, roster_digest: digest, parameters, agent } = vectors.multi_agent;
  return {
    number,
    rounds,
    broadcast: fromHex(broadcast),
    state,
    seconds: 30,
    identity: identityOf(agent),
    roster: readRoster(utf8(roster)),
    rosterDigest: fromHex(digest),
    parameters,
    transcript: new Uint8Array(),
    price: { epsilon: 0n, delta: 0n },
  };
}

test("multi_agent answers with the same states, and signs the same end", async () => {
  const { broadcasts, answers, states, initial, does_not_follow: wrong } = vectors.multi_agent;
  const step = stepOf((x) => 2 * (x - 0.75), initial);
  let state = "";
  for (const [number, broadcast] of broadcasts.entries()) {
    if (number === wrong.number) {
      assert.throws(() => step(roundOf(number, wrong.broadcast, state)), NotTrusted);
    }
    const round = roundOf(number, broadcast, state);
    const answer = await step(round);
    ({ state } = round);
    const x = JSON.parse(state).x as number;
    assert.ok(Math.abs(x - states[number]) <= 1e-15 * Math.abs(x));
    if (number === broadcasts.length - 1) assert.equal(hex(answer), answers[number]);
    else assert.equal(new DataView(answer.buffer).getFloat64(0), x);
  }
  const { end } = vectors.multi_agent;
  const agents = readRoster(utf8(vectors.multi_agent.roster)).agents;
  const last = fromHex(broadcasts.at(-1));
  assert.equal(hex(history.after(last)), end.history);
  for (const name of ["", "forged_"]) {
    const signatures = history.unpacked(fromHex(end[`${name}broadcast`]).subarray(last.length));
    const missing = history.unsigned(fromHex(vectors.multi_agent.roster_digest), agents, fromHex(end.history), signatures);
    assert.deepEqual(missing, end[`${name}unsigned`]);
  }
  assert.deepEqual(end.forged_unsigned, [vectors.keys.agent_2.fingerprint]);
});

test("multi_agent takes part in no masked sums, before and after it is told of them", async () => {
  const step = stepOf((x) => x);
  const round = roundOf(0, "6d61736b73", "");
  assert.throws(() => step({ ...round, parameters: { ...(round.parameters as object), sums: {} } }), /masked/);
  assert.throws(() => step(round), NotTrusted); // as an agent does that knows no masks
  await assert.rejects(minimize({ announcement: { masks: "sparse" } } as unknown as Agent, (x) => x), /Python agent/);
});

// Encrypted sums

test("fixed point", () => {
  for (const { bound, terms, fraction_bits, values, refused, largest, encoded, decoded } of vectors.fixed_point) {
    const numbers = values.map((one: number | null) => one ?? Number.NaN);
    const make = (): string[] => new FixedPoint(bound, terms, fraction_bits).encode(numbers).map(String);
    if (refused) {
      assert.throws(make, OutOfRange, `${bound} ${values}`);
      continue;
    }
    const point = new FixedPoint(bound, terms, fraction_bits);
    assert.equal(String(point.largest), largest);
    assert.deepEqual(make(), encoded);
    assert.deepEqual(point.decode(encoded.map(BigInt)), decoded);
  }
});

/** Contributes what it is told to. */
class Given implements Update {
  readonly alone = false;
  readonly seen: (readonly number[])[] = [];
  constructor(readonly values: number[][]) {}
  next(sums: readonly number[] | undefined): number[] | undefined {
    if (sums !== undefined) this.seen.push(sums);
    return this.values[this.seen.length];
  }
  settled(tolerance: number): boolean {
    return tolerance > 0.5;
  }
}

let journals = 0;

function machineOf(
  place: number,
  journal = new Journal(join(folder, `${(journals += 1)}.journal`)),
  parameters: unknown = vectors.sums.parameters,
): { machine: Machine; update: Given; journal: Journal } {
  const { exchange, group_key: groupKey, values } = vectors.sums;
  const update = new Given(values[place]);
  const secrets = { exchange: privateKey("x25519", fromHex(exchange[`agent ${place}`].private)), groupKey: fromHex(groupKey) };
  const agreed = { members: ["agent_0", "agent_1", "agent_2"].map(publicOf), sums: sumsOf(parameters, 3) };
  return { machine: new Machine(identityOf(`agent_${place}`), agreed, update, journal, secrets), update, journal };
}

test("keys that are agreed on, streams", () => {
  const { exchange, shared, group_key: groupKey, public_part, sealing } = vectors.sums;
  for (const [pair, secret] of Object.entries(shared)) {
    const [one, other] = pair.split(" ") as [string, string];
    const theirs = exchange[Number(other) === OPERATOR ? "operator" : `agent ${other}`];
    const own = privateKey("x25519", fromHex(exchange[`agent ${one}`].private));
    assert.equal(hex(publicBytes(own)), exchange[`agent ${one}`].public);
    assert.equal(hex(extract(exchanged(own, fromHex(theirs.public)))), secret);
  }
  assert.equal(hex(commitment(fromHex(groupKey))), public_part);
  assert.equal(hex(keystream(fromHex(groupKey), 80)), sealing.stream_of_group_key);
  assert.throws(() => exchanged(privateKey("x25519", fromHex(groupKey)), new Uint8Array(32)), RangeError);
});

test("every agent answers a run with the same bytes", () => {
  for (const place of [0, 1, 2]) {
    const { machine, update } = machineOf(place);
    vectors.sums.broadcasts.forEach((broadcast: string, number: number) => {
      assert.equal(hex(machine.answer(fromHex(broadcast))), vectors.sums.answers[number][place], `broadcast ${number}`);
    });
    assert.ok(machine.finished);
    assert.deepEqual(update.seen, vectors.sums.opened);
    assert.equal(hex(machine.transcript), vectors.sums.transcript);
    assert.equal(machine.verdict.toLowerCase(), vectors.sums.verdict);
  }
});

test("in a new process at every broadcast as well", () => {
  for (const place of [0, 1]) {
    let { machine, update, journal } = machineOf(place);
    vectors.sums.broadcasts.forEach((broadcast: string, number: number) => {
      assert.equal(hex(machine.answer(fromHex(broadcast))), vectors.sums.answers[number][place], `broadcast ${number}`);
      journal.settle();
      const saved = JSON.parse(JSON.stringify(machine.state()));
      const { seen } = update;
      ({ machine, update } = machineOf(place, journal));
      update.seen.push(...seen);
      machine.resume(saved);
    });
    assert.ok(machine.finished);
  }
});

test("what is not due changes nothing, what is wrong ends the agent", () => {
  const { refusals, broadcasts, answers } = vectors.sums;
  assert.ok(refusals.length > 20);
  for (const { name, after: count, broadcast, error, ended } of refusals) {
    const { machine } = machineOf(1);
    for (const good of broadcasts.slice(0, count)) machine.answer(fromHex(good));
    assert.throws(() => machine.answer(fromHex(broadcast)), error === "not_due" ? NotDue : Tampered, name);
    const next = (): string => hex(machine.answer(fromHex(broadcasts[count])));
    if (ended) assert.throws(next, /has ended/, name);
    else assert.equal(next(), answers[count][1], name);
  }
});

test("a sum beyond what the owner has signed is complained of, and nothing follows", () => {
  const { parameters, broadcasts, answers, says } = vectors.sums.complaint;
  for (const place of [0, 1, 2]) {
    const { machine } = machineOf(place, undefined, parameters);
    broadcasts.forEach((broadcast: string, number: number) => {
      assert.equal(hex(machine.answer(fromHex(broadcast))), answers[number][place], `broadcast ${number}`);
    });
    assert.equal(machine.complaint, says[place]);
    assert.ok(!machine.finished);
    assert.throws(() => machine.answer(fromHex(vectors.sums.broadcasts.at(-1))), NotDue);
    const again = machineOf(place, undefined, parameters).machine;
    again.resume(JSON.parse(JSON.stringify(machine.state())));
    assert.ok(!again.finished && again.complaint === says[place]);
  }
  for (const change of [{ reach: [4] }, { most: undefined }, { most: [28, -1] }, { reach: "4" }]) {
    assert.throws(() => sumsOf({ ...parameters, ...change }, 3), /./, JSON.stringify(change));
  }
});

test("nothing is answered twice, whatever was lost", () => {
  const path = join(folder, "lost.journal");
  const first = machineOf(1, new Journal(path));
  first.machine.answer(fromHex(vectors.sums.broadcasts[0]));
  const early = first.journal.saved;
  first.journal.settle();
  for (const broadcast of vectors.sums.broadcasts.slice(1, 4)) first.machine.answer(fromHex(broadcast));
  first.journal.settle();
  assert.throws(() => new Journal(path), /older than its journal/); // the memory is gone
  assert.throws(() => new Journal(path, early.settled, early.pending), /older than its journal/); // or a copy of before
  const { settled, pending } = first.journal.saved;
  new Journal(path, settled, pending);
  assert.throws(() => new Journal(join(folder, "another.journal"), settled, pending), /older than the saved session/);
});

test("a state that is put back draws the same after the same broadcasts, and something else after others", () => {
  const { broadcasts } = vectors.sums;
  const drawn: number[] = [];
  const drawing = (saved?: Any): Machine => {
    const { exchange, values } = vectors.sums;
    const update = new Given(values[1]);
    const next = update.next.bind(update);
    update.next = (sums: readonly number[] | undefined, draw?: () => number) => {
      drawn.push((draw as () => number)());
      return next(sums);
    };
    const secrets = { exchange: privateKey("x25519", fromHex(exchange["agent 1"].private)), groupKey: new Uint8Array() };
    const agreed = { members: ["agent_0", "agent_1", "agent_2"].map(publicOf), sums: sumsOf(vectors.sums.parameters, 3) };
    const made = new Machine(identityOf("agent_1"), agreed, update, new Journal(join(folder, `${(journals += 1)}.journal`)), secrets);
    if (saved !== undefined) made.resume(saved);
    return made;
  };
  const machine = drawing();
  for (const broadcast of broadcasts.slice(0, 3)) machine.answer(fromHex(broadcast));
  const saved = machine.state();
  for (const broadcast of broadcasts.slice(3, 5)) machine.answer(fromHex(broadcast));
  drawing(saved).answer(fromHex(broadcasts[3]));
  const [start, sum, again] = drawn;
  assert.equal(again, start);
  assert.notEqual(sum, start);
  assert.ok(drawn.every((one) => one >= 0 && one < 1));
});

test("other data are refused within a session, and an older state is called that", async () => {
  const sums = { ...vectors.sums.parameters, rounds: 4 };
  const members = ["agent_0", "agent_1", "agent_2"];
  const steps = { primal: 0.1, dual: 0.1, shrink: 1, regularization: 0, iterations: 2 };
  const parameters = { protocol: PROTOCOL, agents: 3, coupled: 1, constraints: 1, sums, steps };
  const agents = members.map((name) => ({ key: publicOf(name), fingerprint: vectors.keys[name].fingerprint }));
  const signed = { protocol: PROTOCOL, job: "x", members: agents.map((one) => hex(one.key)), operator: vectors.sums.operator.public, parameters: sums };
  const document = utf8(sortedJson(signed));
  const payload = concat(document, fromHex(vectors.sums.exchange.operator.public));
  const start = header("OPEN", 0, 0, OPERATOR);
  const context = concat(utf8(PROTOCOL), sha256(utf8("x")), sha256(document));
  const operator = new Identity(privateKey("ed25519", fromHex(vectors.sums.operator.seed)));
  const opening = concat(start, payload, operator.sign(concat(context, start, new Uint8Array(32), sha256(document), sha256(payload))));
  const journalPath = join(folder, "session.journal");
  let state = "";
  /** Runs one exchange, or checks the roster of a session that goes on. */
  const asked = (need: number): Promise<unknown> => {
    const participate = async (step: Step): Promise<Outcome> => {
      step.check?.({ agents, parameters } as Any, state, 0);
      if (!state) {
        const round: Round = { number: 0, broadcast: opening, state, roster: { agents, parameters } } as Any;
        await step(round);
        ({ state } = round);
        round.onSaved?.();
      }
      throw new Error("so far");
    };
    const part = { A_u: [[1]], A_g: [[1]], cost: { A_q: [[1]], a_l: [-need] }, upper: 5, demands: { exposure: "accepted" as const } };
    return solve({ identity: identityOf("agent_1"), journalPath, participate } as unknown as Agent, part);
  };
  await assert.rejects(asked(2), /so far/);
  await assert.rejects(asked(2), /so far/);
  await assert.rejects(asked(2.5), /data are not those/);
  writeFileSync(journalPath, `${readFileSync(journalPath, "utf8")}a record that this state does not know\n`);
  await assert.rejects(asked(2), FolderLost);
});

test("parameters that this agent does not know are refused", () => {
  const { parameters } = vectors.sums;
  const changes: Any[] = [{ scheme: "paillier" }, { allow_dropout: true }, { noise_sigma: 1, clip: 1 }, { slot_bits: 32 }, { colluding: 2 }];
  changes.push({ dealer: 3 }, { tolerance: 1 }, { exposure: "yes" }, { bound: 2 ** 40 }, { rounds: 1.5 }, { fresh: 1 }, { dimension: "2" });
  for (const change of changes) assert.throws(() => sumsOf({ ...parameters, ...change }, 3), /./, JSON.stringify(change));
  const { bound: _, ...without } = parameters;
  assert.throws(() => sumsOf(without, 3));
  sumsOf(parameters, 3);
});

test("steps of a coupled quadratic program", () => {
  const { A_u, A_g, A_q, a_l, lower, upper, steps, begin, asked, draw, sums, after: seen } = vectors.steps;
  const participant = new Participant(A_u, A_g, { A_q, a_l }, { lower, upper }, steps, begin, asked);
  const near = (found: readonly number[], wanted: number[]): void => {
    assert.equal(found.length, wanted.length);
    found.forEach((one, place) => assert.ok(Math.abs(one - (wanted[place] as number)) < 1e-14, `${found} is not ${wanted}`));
  };
  [undefined, ...sums].forEach((opened: number[] | undefined, place: number) => {
    const sent = participant.next(opened, () => draw);
    const wanted = seen[place];
    assert.equal(sent === undefined, wanted.contribution === null);
    if (sent !== undefined) near(sent, wanted.contribution);
    near(participant.x, wanted.x);
    assert.deepEqual(participant.multipliers, wanted.multipliers);
  });
  assert.equal(participant.opened, sums.length);
  assert.equal(participant.settled(asked.tolerance), vectors.steps.settled);
  assert.equal(participant.settled(asked.tolerance / 2), false); // another tolerance than was asked for
  assert.deepEqual(participant.violations, vectors.steps.violations);
});

test("whether the sums of a coupled quadratic program have settled", () => {
  const { A_u, A_g, A_q, a_l, lower, upper, asked, draw, votes, verdicts } = vectors.steps;
  for (const one of votes.agents) {
    const cost = { A_q: one.A_q ?? A_q, a_l: one.a_l ?? a_l };
    const agent = new Participant(A_u, A_g, cost, { lower, upper }, votes.steps, one.begin, asked);
    for (const opened of [undefined, votes.sums]) agent.next(opened, () => draw);
    assert.equal((agent.next(votes.sizes, () => draw) as number[])[0], one.against ? asked.bound : 0, JSON.stringify(one));
  }
  for (const one of verdicts) {
    const found = haveSettled(asked, 2, [1, 1, one.excess], [one.price], [4, 2, one.size], one.votes);
    assert.equal(found, one.settled, JSON.stringify(one));
  }
  assert.ok(new Set(verdicts.map((one: { settled: boolean }) => one.settled)).size === 2);
});

