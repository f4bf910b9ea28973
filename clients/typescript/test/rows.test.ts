/** Fields of results as rows, without a service. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createDiscreet, ServerError, type Answer } from "../src/index.js";
import { inSteps } from "../src/client.js";
import { rowsOf } from "../src/rows.js";

const NETWORK = {
  links: [
    { tail: 1, head: 2, free_flow_time: 1, capacity: 9 },
    { tail: 2, head: 1, free_flow_time: 1, capacity: 9 },
  ],
};
const RESULT = {
  demand: [
    [0, 2.5],
    [1, 0],
  ],
  link_flows: [1.5, 2],
  link_flows_by_class: [
    [1, 0],
    [0.5, 2],
  ],
  select_link: [{ link: 1, origin: 2, destination: 1, share: 1, trips: 4 }],
  x: [[1], [2, 3]],
  status: "optimal",
  tables: ["policy"],
  uncertainty: {
    values: { demand: { lower: [[null, 2], [0, null]], upper: [[null, 3], [2, null]] } },
    noise_dominates: { demand: [true, false] },
  },
};

function rows(field: string, options = {}, network: object | undefined = NETWORK) {
  return rowsOf({ kind: "routing", result: RESULT }, field, async () => network as typeof NETWORK, options);
}

test("each number of an array stands beside its positions", async () => {
  assert.deepEqual(await rows("demand"), [
    { origin: 0, destination: 0, demand: 0 },
    { origin: 0, destination: 1, demand: 2.5 },
    { origin: 1, destination: 0, demand: 1 },
    { origin: 1, destination: 1, demand: 0 },
  ]);
  assert.deepEqual((await rows("demand", { intervals: true })).slice(1, 3), [
    { origin: 0, destination: 1, demand: 2.5, lower: 2, upper: 3, only_noise: true },
    { origin: 1, destination: 0, demand: 1, lower: 0, upper: 2, only_noise: false },
  ]);
  assert.deepEqual((await rows("link_flows", { intervals: true }))[0], {
    ...{ link: 0, tail: 1, head: 2 },
    ...{ link_flows: 1.5, lower: null, upper: null, only_noise: false },
  });
  assert.deepEqual((await rows("x")).at(-1), { axis_0: 1, axis_1: 1, x: 3 });
});

test("links have their ends, with the names that a network has; a network that is none of theirs gives none", async () => {
  assert.deepEqual((await rows("link_flows_by_class"))[3], { link: 1, tail: 2, head: 1, user_class: 1, link_flows_by_class: 2 });
  const named = { ...NETWORK, node_names: ["Inn", "Mill"] };
  assert.deepEqual(await rows("select_link", {}, named), [
    { link: 1, tail: "Mill", head: "Inn", origin: 2, destination: 1, share: 1, trips: 4 },
  ]);
  for (const none of [undefined, { links: [NETWORK.links[0]] }]) {
    assert.deepEqual(await rowsOf({ kind: "routing", result: RESULT }, "link_flows", async () => none as never), [
      { link: 0, link_flows: 1.5 },
      { link: 1, link_flows: 2 },
    ]);
  }
});

test("positions and numbers of nodes are called as is said", async () => {
  const names = ["Inn", "Mill"];
  const called = { origin: names, destination: names, tail: names, link: ["there", "back"], other: [] };
  assert.deepEqual((await rows("demand", { called }))[1], { origin: "Inn", destination: "Mill", demand: 2.5 });
  assert.deepEqual((await rows("link_flows", { called }))[1], { link: "back", tail: "Mill", head: 1, link_flows: 2 });
  assert.deepEqual(await rows("select_link", { called }), [
    { link: "back", tail: "Mill", head: 1, origin: "Mill", destination: "Inn", share: 1, trips: 4 },
  ]);
  assert.equal(RESULT.select_link[0]!.origin, 2); // the answer stays as it came
  for (const field of ["demand", "select_link"]) {
    await assert.rejects(rows(field, { called: { origin: ["Inn"] } }), /^RangeError: origin: 2 positions, and 1 names$/);
  }
});

test("steps and blocks of a day are told by the clock", async () => {
  const states = { day_begins: "00:00:00", step_seconds: 21_600, day_steps: 4, blocks: [0, 3], first_step: 1 };
  const week = { ...states, day_begins_on: "Monday", day_steps: 28 };
  const power = [1, 2, 3, 4, 5];
  const said = async (field: string, states: object, value: unknown = power) =>
    rowsOf({ kind: "dr_ensemble", result: { states, [field]: value } }, field, async () => undefined);
  const steps = async (states: object) => (await said("expected_power", states)).map((row) => row.step);
  assert.deepEqual(await steps(states), ["06:00", "12:00", "18:00", "00:00", "06:00 (2)"]);
  assert.deepEqual(await steps(week), ["Mon 06:00", "Mon 12:00", "Mon 18:00", "Tue 00:00", "Tue 06:00"]);
  assert.deepEqual(await steps({ ...week, day_steps: 56, first_step: 55 }), [
    ...["week 2, Sun 18:00", "week 1, Mon 00:00", "week 1, Mon 06:00", "week 1, Mon 12:00", "week 1, Mon 18:00"],
  ]);
  assert.deepEqual((await steps({ ...states, day_steps: 2880, step_seconds: 30 })).slice(0, 2), ["00:00:30", "00:01:00"]);
  assert.deepEqual(await steps({ ...states, first_step: undefined }), [0, 1, 2, 3, 4]);
  assert.deepEqual(await said("block_transitions", states, [[[1]], [[0.5]]]), [
    { block: "00:00 to 18:00", from: 0, to: 0, block_transitions: 1 },
    { block: "18:00 to 00:00", from: 0, to: 0, block_transitions: 0.5 },
  ]);
});

test("what is no table is said to be none", async () => {
  await assert.rejects(rows("status"), TypeError);
  await assert.rejects(rows("select_link", { intervals: true }), TypeError);
  await assert.rejects(rows("policy"), /RangeError: policy has more than a million numbers: table\(id, "policy"\)/);
  await assert.rejects(rows("toString"), /RangeError: the result has no field toString; it has demand, .*, uncertainty, policy$/);
});

test("an answer has rows without its network, and asks again for one that did not come", async () => {
  const left = [Response.json({}, { status: 500 }), Response.json({ network: NETWORK }), Response.json({}, { status: 404 })];
  let network = "net_1";
  const discreet = createDiscreet({
    baseUrl: "http://service",
    key: "dsc_key",
    async fetch({ url }) {
      if (url.includes("/networks/")) return left.shift()!;
      const job = { id: "job_1", kind: "routing", problem: { network } };
      return Response.json(url.endsWith("/result") ? { job, result: { link_flows: [1, 2] }, certificate: {} } : job);
    },
  });
  const answered = async () => (await discreet.answer("job_1")) as Answer<"routing">;
  const answer = await answered();
  await assert.rejects(answer.rows("link_flows"), ServerError);
  for (const one of [answer, answer, await answered()]) assert.equal((await one.rows("link_flows"))[0]!.head, 2);
  network = "net_2";
  assert.deepEqual(await (await answered()).rows("link_flows"), [{ link: 0, link_flows: 1 }, { link: 1, link_flows: 2 }]);
  assert.equal(left.length, 0);
});

test("a budget between the service's steps is rounded down, and said", (context) => {
  const said = context.mock.method(console, "warn", () => {});
  const sent = [1 / 3, 2 / 3, 0.1, 1, 1e-10, 0.57, 123.4567890129, 1e21].map((one) => inSteps("epsilon", one));
  assert.deepEqual(sent, [0.333333333, 0.666666666, 0.1, 1, 1e-10, 0.57, 123.456789012, 1e21]);
  assert.equal(said.mock.callCount(), 3);
  assert.equal(inSteps("delta", 1e-6 / 3), 3.33333333333e-7);
  assert.equal(inSteps("delta", 1e-6), 1e-6);
  assert.equal(inSteps("delta", "auto"), "auto");
  assert.equal(inSteps("seed", 1 / 3), 1 / 3);
});
