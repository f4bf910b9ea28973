#!/usr/bin/env node
/**
 * `discreet-agent`: an agent from a shell. Exit status: 0 done, 1 refused or failed (one line says why), 2 bad usage, 3 done, but the
 * sums had not settled: what is printed is no optimum.
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { Agent } from "./agent.js";
import { Broken } from "./connection.js";
import { solve } from "./coupledQp.js";
import { demandsOf } from "./demands.js";
import { isObject, type Json } from "./documents.js";
import { AgentError } from "./errors.js";
import { Identity } from "./identity.js";
import { Ledger } from "./ledger.js";
import { minimize } from "./multiAgent.js";
import type { Matrix } from "./spds.js";

const USAGE = `discreet-agent --problem FILE [--token dsc://…] [options]

  --token            dsc://…; or DISCREET_TOKEN, which ps does not show
  --problem          JSON file: kind and this agent's own part; stays here. For coupled_qp A_u, A_g, A_q, a_l, lower, upper,
                     primal, demands; for multi_agent name, announcement, initial
  --slope            module whose default export is the derivative of this agent's objective (multi_agent)
  --identity         key file, made on first use (agent.key)
  --ledger, --state  the agent's own ledger, and the folder of what must survive this process (beside the key)
  --name, --unit     what the owner sees (the key file's name); privacy unit of this agent's account (trajectory)
  --limit-epsilon, --limit-delta   refuse to spend more in all (1 and 0)
  --patience         seconds to wait for a silent server (600)
  --ca               authorities (PEM) to believe instead of the pinned certificate
  --certificate, --certificate-key   this agent's certificate and its key (PEM), for mutual TLS

discreet-agent receipt JOB [--identity FILE] [--ledger FILE] [--out FILE]

  what this agent let itself be charged, in an envelope (DSSE) that it signs`;

const NOT_SETTLED = 3;
const FILES = { ca: "authorities", certificate: "certificate", "certificate-key": "key" } as const;
const TEXTS = {
  identity: "identity",
  ledger: "ledger",
  state: "state",
  name: "name",
  unit: "unit",
  "limit-epsilon": "limitEpsilon",
  "limit-delta": "limitDelta",
} as const;

class BadUsage extends Error {}

async function main(): Promise<number> {
  if (process.argv[2] === "receipt") return receipt(process.argv.slice(3));
  const names = ["token", "problem", "slope", "patience", ...Object.keys(TEXTS), ...Object.keys(FILES)];
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]));
  let given: Record<string, unknown>;
  try {
    given = parseArgs({ options: { ...options, help: { type: "boolean" } } }).values;
  } catch (error) {
    throw new BadUsage((error as Error).message);
  }
  if (given.help) {
    console.log(USAGE);
    return 0;
  }
  const token = (given.token ?? process.env.DISCREET_TOKEN) as string | undefined;
  if (token === undefined || given.problem === undefined) throw new BadUsage("a token and a problem file are needed");
  const problem = read(given.problem as string);
  const chosen = <T extends Record<string, string>>(table: T): Record<string, string> =>
    Object.fromEntries(Object.entries(table).flatMap(([option, name]) => (given[option] === undefined ? [] : [[name, given[option] as string]])));
  const { name, unit, announcement, kind } = problem;
  const agent = Agent.fromToken(token, {
    ...(typeof name === "string" ? { name } : {}),
    ...(typeof unit === "string" ? { unit } : {}),
    ...chosen(TEXTS),
    tls: chosen(FILES),
    ...(isObject(announcement) ? { announcement } : {}),
    ...(given.patience === undefined ? {} : { patienceSeconds: Number(given.patience) }),
  });
  const program = Object.hasOwn(PROGRAMS, String(kind)) ? PROGRAMS[String(kind)] : undefined;
  if (program === undefined) throw new BadUsage(`this agent has no program for the kind ${String(kind)}`);
  console.error(`discreet-agent: this agent's fingerprint, for the owner to compare before signing: ${agent.identity.fingerprint}`);
  return program(agent, problem, given.slope as string | undefined);
}

function receipt(words: string[]): number {
  const text = { type: "string" as const };
  const parse = () => parseArgs({ args: words, allowPositionals: true, options: { identity: text, ledger: text, out: text } });
  let given: ReturnType<typeof parse>;
  try {
    given = parse();
  } catch (error) {
    throw new BadUsage((error as Error).message);
  }
  const [job, ...more] = given.positionals;
  if (job === undefined || more.length) throw new BadUsage("receipt takes the id of one job");
  const { identity = "agent.key", ledger = `${identity.slice(0, identity.length - extname(identity).length)}.ledger`, out } = given.values;
  if (!existsSync(identity)) throw new AgentError(`there is no key ${identity}`);
  const envelope = JSON.stringify(new Ledger(ledger, Identity.open(identity), { epsilon: undefined, delta: undefined }).receipt(job));
  if (out === undefined) console.log(envelope);
  else writeFileSync(out, envelope);
  return 0;
}

type Program = (agent: Agent, problem: Json, slope: string | undefined) => Promise<number>;

/** By kind. */
const PROGRAMS: Record<string, Program> = { multi_agent: found, coupled_qp: shared };

/** This agent's own state, by the derivative of its objective. */
async function found(agent: Agent, problem: Json, module: string | undefined): Promise<number> {
  if (module === undefined) throw new BadUsage("--slope names the module of the derivative of this agent's objective");
  const slope = (await import(pathToFileURL(resolve(module)).href)).default as (x: number) => number;
  const minimum = await minimize(agent, slope, problem.initial as number | undefined);
  if (minimum.state !== "succeeded") {
    throw new AgentError(`the session ${minimum.state}${minimum.code === "" ? "" : `: ${minimum.code}`}`);
  }
  console.log(JSON.stringify(minimum));
  return 0;
}

/** This agent's optimum of what all share; says so where the sums did not settle. */
async function shared(agent: Agent, problem: Json): Promise<number> {
  const found = await solve(agent, partOf(problem));
  const { violations, ...printed } = found;
  console.log(JSON.stringify(printed));
  if (found.settled !== false) return 0;
  console.error(
    `discreet-agent: after ${found.rounds} rounds x is no optimum: agents had not reached their best points, or constraints were ` +
      `exceeded (by ${violations.map((one) => one.toPrecision(3)).join(", ")}). It takes more iterations, other steps, or constraints that can be satisfied`,
  );
  return NOT_SETTLED;
}

function partOf(problem: Json): Parameters<typeof solve>[1] {
  const { A_u, A_g, A_q = [], a_l, lower = 0, upper, primal, demands = {}, budget, polytope, terms = [] } = problem;
  if (budget !== undefined && budget !== null) throw new BadUsage("this agent knows boxes alone, no budget of what x sums to: the Python agent does");
  if (polytope !== undefined && polytope !== null) throw new BadUsage("this agent knows boxes alone, no polytope: the Python agent does");
  if (!Array.isArray(terms) || terms.length) throw new BadUsage("this agent knows the costs A_q and a_l alone, no terms: the Python agent does");
  const isVector = (one: unknown): one is number[] => Array.isArray(one) && one.every((entry) => typeof entry === "number");
  const isMatrix = (one: unknown): one is Matrix => Array.isArray(one) && one.every(isVector);
  const isSide = (one: unknown): one is number | number[] => typeof one === "number" || isVector(one);
  if (!(isMatrix(A_u) && isMatrix(A_g) && isMatrix(A_q) && isVector(a_l) && isSide(lower) && isSide(upper) && isObject(demands))) {
    throw new BadUsage("the problem file needs A_u, A_g, a_l and upper, and may have A_q, lower, primal and demands");
  }
  if (primal !== undefined && primal !== null && !(typeof primal === "number" && primal > 0)) throw new BadUsage("primal is a positive number");
  return { A_u, A_g, cost: { A_q, a_l }, lower, upper, ...(typeof primal === "number" ? { primal } : {}), demands: demandsOf(demands) };
}

function read(path: string): Json {
  let problem: unknown;
  try {
    problem = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new BadUsage(`${path}: ${(error as Error).message}`);
  }
  if (!isObject(problem)) throw new BadUsage(`${path} holds no object`);
  return problem;
}

function failed(error: unknown): number {
  if (error instanceof BadUsage) {
    console.error(`${USAGE}\n\ndiscreet-agent: ${error.message}`);
    return 2;
  }
  const known = error instanceof AgentError || error instanceof Broken || (error as NodeJS.ErrnoException).code !== undefined;
  console.error(known ? `discreet-agent: ${(error as Error).name}: ${(error as Error).message}` : error);
  return 1;
}

main().then(
  (status) => (process.exitCode = status),
  (error) => (process.exitCode = failed(error)),
);
