/** The kinds of problems in the contract: the types of requests and answers. */

import type { Interval } from "./intervals.js";
import type { Row, RowsOptions } from "./rows.js";
import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type Job = Schemas["JobAnswer"];
export type Dataset = Schemas["DatasetAnswer"];
/** What a file would be read as, and what is wrong with it. */
export type Look = Schemas["LookAnswer"];
export type Network = Schemas["NetworkAnswer"];
export type Plan = Schemas["PlanAnswer"];
export type Budget = Schemas["BudgetAnswer"];
export type Price = Schemas["Price"];

/** A dataset to register; `kind` is that of its problem. Its content is sent, is there since a look, or is read by the service from an address. */
export type DatasetBody = Schemas["DatasetRequest"] | PlacedBody | Schemas["DraftDatasetRequest"];
/** One whose content is at an address, where it may stay (`content_stays`). */
export type PlacedBody = Schemas["PlacedDatasetRequest"];

/** A problem of any kind; `kind` names it. */
export type Problem = Schemas["JobRequest"]["problem"];
export type Kind = Problem["kind"];
export type ProblemOf<K extends Kind> = Extract<Problem, { kind: K }>;

/** A problem whose dataset may be an id, a registered dataset, or a whole one to be registered first. */
export type WithDataset<P> = P extends { dataset?: infer D }
  ? Omit<P, "dataset"> & (undefined extends D ? { dataset?: D | Dataset | DatasetBody } : { dataset: D | Dataset | DatasetBody })
  : P;
export type Solvable<K extends Kind> = { kind: K } & WithDataset<ProblemOf<K>>;

export type Matrix = number[][];

/**
 * Fields of the results by kind. An optional one belongs to some methods or simulations only, or may have more than a
 * million numbers; in that case it is not in the JSON, and `tables` names it.
 */
export type Results = Schemas["Results"];

export interface Certificate {
  guarantee: { type: "approximate_dp" | "pure_dp" | "cryptographic" | "none"; [field: string]: unknown };
  events: Record<string, unknown>[];
  /** Holds if. */
  assumptions: string[];
  /** What the guarantee says nothing of. */
  not_covered?: string[];
  /** What the answer takes for granted; the guarantee does not rest on it. */
  model?: string[];
  /** SHA-256 of the result's canonical JSON (RFC 8785), hexadecimal; certificates of older services have none. */
  result_digest?: string;
  /** SHA-256 of the result's Parquet files, by name of the table. */
  tables?: Record<string, string>;
  [field: string]: unknown;
}

/** The answer of one kind. */
export interface Answer<K extends Kind> {
  kind: K;
  job: Job;
  price: Price;
  /** For a kind that this version of the contract does not know, any fields. */
  result: K extends keyof Results ? Results[K] : Record<string, unknown> & { tables: string[] };
  certificate: Certificate;
  /** Whether the result as a whole is mostly noise, so that its numbers tell little. */
  mostlyNoise: boolean;
  /** How far the noise may have moved a field of the result; undefined if the result does not state it. */
  interval<T = unknown>(field: string): Interval<T> | undefined;
  /**
   * A field as rows: for an array one row per number, with its positions, `{ link: 0, tail: …, head: …, link_flows: 940 }`;
   * for a list of objects one row each. `tail` and `head` of a link are the nodes of the job's network, by name if it has
   * names; the network is fetched for them, a stored one only once. Throws RangeError for a field that does not exist or is
   * too large for JSON (use `table`), TypeError for one that is not a table.
   */
  rows<F extends string & keyof Answer<K>["result"]>(field: F, options?: RowsOptions): Promise<Row<K, F>[]>;
}

/** A row of a rehearsal: for each method, epsilon and quantity the error, the interval's half width, and how many runs. */
export interface RehearsalRow {
  method: string;
  epsilon: number;
  delta: number;
  quantity: string;
  size: number;
  error: number;
  error_of_nine_in_ten: number;
  half_width: number | null;
  mostly_noise: number;
  runs: number;
}

/** The answer of a rehearsal; its certificate guarantees nothing. */
export interface Rehearsal {
  kind: "rehearsal";
  job: Job;
  result: { data: string; rows: RehearsalRow[]; refused: { method: string; epsilons: number[]; why: string }[] };
  certificate: Certificate;
}

/** The answer of any kind; `kind` names it. */
export type AnyAnswer = { [K in Kind]: Answer<K> }[Kind];
