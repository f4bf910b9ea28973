/** Compiled, never run: types narrow on `kind`, and what the contract does not allow does not compile. */

import type { AnyAnswer, Discreet, JobEvent, Problem } from "../src/index.js";

export function narrows(problem: Problem, answer: AnyAnswer, event: JobEvent): unknown[] {
  if (problem.kind === "routing") {
    const links: number = typeof problem.network === "string" ? 0 : problem.network.links.length;
    // @ts-expect-error - of demand response, not of routing
    return [links, problem.discomfort_weight];
  }
  if (answer.kind === "dr_ensemble") {
    const policy: number[][][] = answer.result.policy ?? []; // more than a million numbers are not in the JSON
    // @ts-expect-error - of routing, not of demand response
    return [policy, answer.result.link_flows];
  }
  if (event.event === "progress") {
    const step: number = event.data.step;
    // @ts-expect-error - of the event `state`
    return [step, event.data.state];
  }
  // @ts-expect-error - no such kind
  if (problem.kind === "knapsack") return [];
  // @ts-expect-error - a problem of which nothing else is known has no network
  return [problem.network];
}

export async function solves(discreet: Discreet): Promise<unknown> {
  const links = [{ tail: 1, head: 2, free_flow_time: 1, capacity: 10 }];
  const answer = await discreet.solve({ kind: "routing", dataset: "dst_1", network: { nodes: 2, links } }, { epsilon: 0.1 });
  const flows: number[] = answer.result.link_flows ?? [];
  for (const row of await answer.rows("link_flows", { intervals: true })) {
    const said: [number | string, number | string | undefined, number, number | null | undefined] = [row.link, row.tail, row.link_flows, row.lower];
    // @ts-expect-error - no axis of this field
    flows.push(said[2], row.origin);
  }
  for (const row of await answer.rows("select_link")) flows.push(row.trips);
  // @ts-expect-error - not a field of this kind's result
  await answer.rows("weights");
  // @ts-expect-error - not a field of this kind's result
  const weights: unknown = answer.result.weights;
  const stored = await discreet.networks.add({ nodes: 2, links }, { name: "Two towns" });
  await discreet.plan({ kind: "routing", dataset: "dst_1", network: stored.id });
  // @ts-expect-error - the network is missing
  await discreet.plan({ kind: "routing", dataset: "dst_1" });
  // @ts-expect-error - nodes is a number
  await discreet.plan({ kind: "routing", dataset: "dst_1", network: { nodes: "2", links } });
  // @ts-expect-error - no such path in the contract
  await discreet.api.GET("/v1/secrets");
  // @ts-expect-error - a field of more than a million numbers is not in the JSON
  const length: number = answer.result.link_flows.length;
  return [flows, weights, length];
}
