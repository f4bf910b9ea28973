/** The toy kind through the SDK, typed by the contract of a service that has it. */

import { createDiscreet } from "../src/index.js";

const discreet = createDiscreet({ baseUrl: process.env.DISCREET_URL!, key: process.env.DISCREET_KEY! });
const dataset = await discreet.register({
  name: "numbers",
  kind: "toy_sum",
  public: { unit: "person", most: 9 },
  content: { numbers: [1, 2, 3, 9] },
  cap: { epsilon: 10 },
});
const problem = { kind: "toy_sum" as const, dataset, negative: true };
const plan = await discreet.plan(problem, { epsilon: 1 });
const near = await discreet.plan(problem, { accuracy: { within: 5 } });
if (!(near.privacy!.epsilon > 4 && near.privacy!.epsilon < 4.2)) throw new Error(`epsilon ${near.privacy!.epsilon}`);
// @ts-expect-error - a job is paid in figures
await discreet.solve(problem, { accuracy: { within: 5 } }).catch(() => undefined);
const answer = await discreet.solve(problem, { epsilon: 1 });
const total: number = answer.result.total;
// @ts-expect-error - not a field of this kind's result
const flows: unknown = answer.result.link_flows;
// @ts-expect-error - no such kind in this contract
await discreet.plan({ kind: "routing", dataset }, { epsilon: 1 }).catch(() => undefined);
const { lower, upper, level } = answer.interval<number>("total")!;
let refused = "";
try { answer.interval("link_flows"); } catch (error) { refused = String(error); }
if (level !== 0.9 || !refused.includes("fields with intervals: total")) throw new Error("an interval of nothing");
const { kind, mostlyNoise } = answer;
console.log(JSON.stringify({ kind, epsilon: plan.price.epsilon, total, flows, mostlyNoise, width: upper - lower }));
