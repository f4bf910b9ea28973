/** Against a running service (DISCREET_URL, DISCREET_KEY); DISCREET_EXAMPLES is a file with a job body of every kind. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  BudgetExhausted,
  Conflict,
  createDiscreet,
  EventParser,
  InvalidInput,
  NotFound,
  Unauthenticated,
  Unreachable,
  verifyWebhook,
  WebhookRefused,
  type JobEvent,
  type Kind,
  type Solvable,
  type Spending,
} from "../src/index.js";

const baseUrl = needed("DISCREET_URL");
const key = needed("DISCREET_KEY");
const examples = JSON.parse(readFileSync(needed("DISCREET_EXAMPLES"), "utf8")) as {
  [K in Kind]: { problem: Solvable<K>; privacy?: Spending };
};
const discreet = createDiscreet({ baseUrl, key });

function needed(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set`);
  return value;
}

/** Of each kind, the fields that the contract names for its results. */
const known = new Map<string, { properties: Record<string, unknown>; required: string[] }>();
{
  const { components } = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as { components: { schemas: any } };
  for (const [kind, { $ref }] of Object.entries<{ $ref: string }>(components.schemas.Results.properties)) {
    known.set(kind, components.schemas[$ref.split("/").at(-1)!]);
  }
}

for (const kind of Object.keys(examples) as Kind[]) {
  test(`${kind} runs end to end`, async () => {
    const { problem, privacy } = examples[kind];
    const seen: JobEvent[] = [];
    const answer = await discreet.solve(problem, { ...privacy, onEvent: (event) => seen.push(event) });
    assert.equal(answer.kind, kind);
    const { properties, required } = known.get(kind)!;
    for (const field of required) assert.ok(field in answer.result, `${kind}: ${field}`);
    for (const field of Object.keys(answer.result)) assert.ok(field in properties, `${kind}: ${field}`);
    assert.ok(Object.keys(answer.result).length > 1);
    assert.deepEqual(answer.result.tables, []);
    assert.equal(answer.price.epsilon <= (privacy?.epsilon ?? 0), true);
    assert.equal(answer.certificate.guarantee.type === "none", privacy === undefined);
    assert.deepEqual(seen.at(-1), { event: "state", data: { state: "succeeded" } });
  });
}

test("another question about what a job released is free", async () => {
  const { problem, privacy } = examples.routing;
  const first = await discreet.solve(problem, privacy);
  const again = await discreet.askAgain(first, { objective: "user_equilibrium" });
  assert.deepEqual(again.result.demand, first.result.demand);
  assert.notEqual(again.result.total_travel_time, first.result.total_travel_time);
  assert.deepEqual([again.price.epsilon, again.job.release], [0, [first.job.id]]);
  await assert.rejects(discreet.askAgain(first, { max_trips_per_person: 3 }), (error) => {
    assert.ok(error instanceof Conflict);
    assert.equal(error.code, "release_differs");
    assert.deepEqual(error.errors.map((one) => one.pointer), ["/problem/max_trips_per_person"]);
    return true;
  });
});

test("paying twice is warned of unless it is meant", async (context) => {
  const told = context.mock.method(console, "warn", () => undefined);
  const data = dataOf("routing");
  const trips = [...(data.content as { trips: object[] }).trips, { period: 0, origin: 1, destination: 2, count: 3 }];
  const dataset = await discreet.register({ ...data, content: { trips }, mode: "private", cap: { epsilon: 1, delta: 0 } } as typeof data);
  const problem = { ...examples.routing.problem, dataset };
  await discreet.solve(problem, { epsilon: 0.01, name: "Monday", anew: true });
  assert.equal(told.mock.callCount(), 0);
  const { job } = await discreet.solve(problem, { epsilon: 0.01, name: "Tuesday" });
  assert.match(String(told.mock.calls[0]?.arguments[0]), new RegExp(`^discreet: ${job.id} is charged for what job_`));
  assert.equal((await discreet.job(job.id)).name, "Tuesday");
});

test("a rehearsal of one epsilon, and intervals of fields that there are", async () => {
  const { problem, privacy } = examples.routing;
  const rehearsed = await discreet.rehearse(problem, { epsilon: 1, seed: 1 });
  assert.deepEqual([...new Set(rehearsed.result.rows.map((row) => row.epsilon))], [1]);
  await assert.rejects(discreet.rehearse(problem, { epsilon: 1, epsilons: [1] }), TypeError);
  const answer = await discreet.solve(problem, { ...privacy, anew: true });
  assert.equal(answer.interval("total_travel_time")?.kind, "noise");
  assert.equal(answer.interval("policy"), undefined);
  assert.throws(() => answer.interval("policy_value"), /no field policy_value; fields with intervals: .*total_travel_time/);
});

test("rows of links have the ends of a network, which is fetched once where it is stored", async () => {
  const asked: string[] = [];
  const listening = createDiscreet({
    baseUrl,
    key,
    fetch(request) {
      asked.push(new URL(request.url).pathname);
      return fetch(request);
    },
  });
  const { network, ...problem } = examples.routing.problem;
  assert.ok(typeof network === "object");
  const names = Array.from({ length: network.nodes }, (_, k) => `crossing ${k + 1}`);
  const stored = await listening.networks.add({ ...network, node_names: names }, { name: "Named" });
  const dataset = await listening.register(dataOf("routing"));
  const numbers: [number, number][] = network.links.map((link) => [link.tail, link.head]);
  for (const given of [stored.id, network, stored.id]) {
    const answer = await listening.solve({ ...problem, dataset, network: given }, { epsilon: 0.001, anew: true });
    const rows = await answer.rows("link_flows", { intervals: true });
    assert.deepEqual(Object.keys(rows[0]!), ["link", "tail", "head", "link_flows", "lower", "upper", "only_noise"]);
    assert.deepEqual(rows.map((row) => row.link_flows), answer.result.link_flows);
    const ends: (number | string | undefined)[][] = given === network ? numbers : numbers.map((pair) => pair.map((node) => names[node - 1]));
    assert.deepEqual(rows.map(({ tail, head }) => [tail, head]), ends);
    const again = await listening.answer(answer.job.id);
    assert.ok(again.kind === "routing");
    assert.deepEqual(await again.rows("link_flows", { intervals: true }), rows);
  }
  assert.equal(asked.filter((path) => path === `/v1/networks/${stored.id}`).length, 1);
});

test("a plan has a price and spends nothing", async () => {
  const dataset = await discreet.register(dataOf("routing"));
  const before = await discreet.budget(dataset.account);
  const plan = await discreet.plan({ ...examples.routing.problem, dataset }, { epsilon: 0.05 });
  assert.equal(plan.price.epsilon, 0.05);
  assert.equal(plan.admitted, true);
  assert.deepEqual(await discreet.budget(dataset.account), before);
});

function dataOf(kind: "routing") {
  const { dataset } = examples[kind].problem;
  assert.ok(dataset && typeof dataset === "object" && "content" in dataset);
  return dataset;
}

test("refusals are typed, name the field and the cap", async () => {
  const { problem } = examples.routing;
  await assert.rejects(discreet.solve(problem, { epsilon: 1000 }), (error) => {
    assert.ok(error instanceof BudgetExhausted);
    assert.equal(error.code, "budget_exhausted");
    assert.equal(error.binding?.requested.epsilon, 1000);
    return true;
  });
  await assert.rejects(discreet.plan({ ...problem, dataset: "dst_1", relative_gap: 7 }, { epsilon: 1 }), (error) => {
    assert.ok(error instanceof InvalidInput);
    assert.deepEqual(error.errors.map((issue) => issue.pointer), ["/problem/relative_gap"]);
    return true;
  });
  await assert.rejects(discreet.job("job_nobody"), NotFound);
  await assert.rejects(createDiscreet({ baseUrl, key: "dsc_wrong" }).budgets(), Unauthenticated);
  await assert.rejects(createDiscreet({ baseUrl: "http://127.0.0.1:9", key }).budgets(), Unreachable);
});

test("a submission whose answer was lost is sent again with its key, and is one job", async () => {
  const keys: (string | null)[] = [];
  const ids: string[] = [];
  const lossy = createDiscreet({
    baseUrl,
    key,
    async fetch(request) {
      const response = await fetch(request);
      if (request.method !== "POST" || !request.url.endsWith("/v1/jobs")) return response;
      keys.push(request.headers.get("idempotency-key"));
      ids.push(((await response.clone().json()) as { id: string }).id);
      if (keys.length === 1) throw new TypeError("terminated"); // it arrived; its answer did not
      return response;
    },
  });
  const job = await lossy.submit(examples.coupled_qp.problem);
  assert.equal(keys.length, 2);
  assert.ok(keys[0]);
  assert.equal(keys[0], keys[1]);
  assert.deepEqual(ids, [job.id, job.id]);
});

test("429 is waited for as long as it says", async () => {
  let refused = 0;
  let since = 0;
  const limited = createDiscreet({
    baseUrl,
    key,
    async fetch(request) {
      if (refused++ === 0) {
        since = performance.now();
        return new Response("{}", { status: 429, headers: { "Retry-After": "1" } });
      }
      return fetch(request);
    },
  });
  await limited.budgets();
  assert.equal(refused, 2);
  assert.ok(performance.now() - since >= 990);
});

test("events go on after the last one when the stream breaks", async () => {
  const { id } = await discreet.submit(examples.coupled_qp.problem);
  const whole: JobEvent[] = [];
  for await (const event of discreet.events(id)) whole.push(event);
  const asked: (string | null)[] = [];
  const broken = createDiscreet({
    baseUrl,
    key,
    async fetch(request) {
      asked.push(request.headers.get("last-event-id"));
      const response = await fetch(request);
      const text = await response.text();
      // Only the first event of every connection, and half of the second.
      const end = text.indexOf("\n\n") + 2;
      let sent = false;
      const body = new ReadableStream({
        pull(controller) {
          if (sent) controller.error(new TypeError("terminated"));
          else controller.enqueue(new TextEncoder().encode(text.slice(0, end + 9)));
          sent = true;
        },
      });
      return new Response(body, response);
    },
  });
  const parts: JobEvent[] = [];
  for await (const event of broken.events(id)) parts.push(event);
  assert.deepEqual(parts, whole);
  assert.equal(asked.length, whole.length);
  assert.equal(new Set(asked).size, asked.length);
});

test("a stream is read the same wherever it is cut", () => {
  const bytes = new TextEncoder().encode(
    ": hello\r\nid: 1\r\nevent: state\r\ndata: é\r\ndata:b\r\n\r\nretry: 5\rid: 2\rdata: x\r\rdata: not ended\n",
  );
  const expected = [
    { event: "state", data: "é\nb", lastId: "1" },
    { event: "message", data: "x", lastId: "2" },
  ];
  for (let size = 1; size <= bytes.length; size++) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...parser.feed(bytes.slice(at, at + size)));
    assert.deepEqual(found, expected, `parts of ${size}`);
  }
});

test("webhooks are verified", async () => {
  // The example of the Standard Webhooks libraries.
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const body = '{"test": 2432232314}';
  const headers = new Headers({
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,bm9wZQ== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
  assert.deepEqual(await verifyWebhook(secret, headers, body, { now: 1614265400 }), { test: 2432232314 });
  await assert.rejects(verifyWebhook(secret, headers, body + " ", { now: 1614265400 }), WebhookRefused);
  await assert.rejects(verifyWebhook(secret, headers, body, { now: 1614266000 }), WebhookRefused);
  await assert.rejects(verifyWebhook("whsec_AAAA", headers, body, { now: 1614265400 }), WebhookRefused);
});

test("an address and a key that cannot be meant are named", () => {
  assert.throws(() => createDiscreet({ baseUrl: "127.0.0.1:8080", key }), Unreachable);
  for (const wrong of ["", " \n", "dsc_a b", "dsc_a\nX-Other: 1"]) {
    assert.throws(() => createDiscreet({ baseUrl, key: wrong }), Unauthenticated);
  }
});

test("a key may be read with its line break", async () => {
  assert.ok(Array.isArray(await createDiscreet({ baseUrl, key: `${key}\n` }).budgets()));
});
