/** The client: thin above openapi-fetch and the types of the contract. */

import createFetcher, { type Client as Fetcher } from "openapi-fetch";
import { requireResult, requireTable } from "./certificates.js";
import { apiError, Forbidden, JobFailed, NotFound, retryAfter, Unauthenticated, Unreachable, type ProblemDocument } from "./errors.js";
import { jobEvents, type JobEvent } from "./events.js";
import type { Answer, AnyAnswer, Budget, Certificate, Dataset, DatasetBody, Job, Kind, Look, Network, Plan, Rehearsal, Solvable } from "./kinds.js";
import { intervalOf, isMostlyNoise } from "./intervals.js";
import { rowsOf, type RoadNetwork, type RowsOptions } from "./rows.js";
import { retrying, type Fetch } from "./retries.js";
import type { components, paths } from "./schema.js";
import { formOf, type DatasetAbout, type FileContent, type LookAbout } from "./uploads.js";

export interface DiscreetOptions {
  baseUrl: string;
  key: string;
  /** How requests travel; the platform's fetch. */
  fetch?: Fetch;
}

export interface Spending {
  epsilon?: number;
  /** `"auto"`: chosen by a public rule, which the plan tells. */
  delta?: number | "auto";
  /** Instead of epsilon, with a delta: of jobs priced in rho most fit under a cap. */
  rho?: number;
  /** Instead of epsilon: 0.1, 1 or 4, with delta `"auto"` unless another is given. */
  preset?: "strict" | "usual" | "loose";
  unit?: string;
  /** For datasets of mode simulation only. */
  seed?: number;
}

export interface Asking extends Spending {
  /** Instead of epsilon: the smallest one that is expected to be as near; the plan's `privacy` is that budget. */
  accuracy?: components["schemas"]["Accuracy"];
}

export interface RehearsalOptions {
  /** The ladder; the service's own where neither is given. */
  epsilons?: number[];
  /** A ladder of this one step. */
  epsilon?: number;
  delta?: number | "auto";
  /** Another public part than that of the dataset, or that of one which is not registered yet. */
  public?: Record<string, unknown>;
  /** How many units the synthetic data have. */
  units?: number;
  /** A job: the data are made of what it released, instead of public figures alone. */
  around?: string;
  seed?: number;
  idempotencyKey?: string;
  onEvent?: (event: JobEvent) => void;
  signal?: AbortSignal;
}

export interface SolveOptions extends Spending {
  /** What you call the job, in lists and on its page. */
  name?: string;
  /** Paying once more for what earlier jobs have released is meant; `solve` warns on the console else. */
  anew?: boolean;
  /** The same key is the same job and the same charge; a new one by default. */
  idempotencyKey?: string;
  onEvent?: (event: JobEvent) => void;
  /** Stops waiting; the job goes on (`cancel` ends it). */
  signal?: AbortSignal;
}

/** Every call throws `ApiError` (and its kinds) when the server refuses, `Unreachable` when it does not answer. */
export interface Discreet {
  /** Every call of the API, typed by its contract; answers `{ data, error }` and throws nothing but `Unreachable`. */
  readonly api: Fetcher<paths>;
  /** Register a dataset. The same content again is the same dataset. */
  register(dataset: DatasetBody): Promise<Dataset>;
  readonly datasets: {
    /** Register a file: a File or Blob of a browser, or a stream. The same content again is the same dataset. */
    add(content: FileContent, about: DatasetAbout): Promise<Dataset>;
    /**
     * What a file would be read as, before anything is registered: its columns, a description to begin with, the first rows
     * as they are understood, and what is wrong. The file stays there sealed for a day: its id (`read_…`) is a content here,
     * to look again.
     */
    look(content: FileContent | string, about: LookAbout): Promise<Look>;
    /**
     * Correct the public part while nothing was spent or reserved on the dataset's account and no job on it waits or runs: the
     * fields that are different (null takes one away); a file where one of them decides how rows are read.
     */
    correct(dataset: string | Dataset, fields: Record<string, unknown>, content?: FileContent, filename?: string): Promise<Dataset>;
    /** All datasets, newest first. */
    list(): AsyncGenerator<Dataset>;
  };
  /** What a problem would do and cost, and whether it would be admitted; spends nothing. */
  plan<K extends Kind>(problem: Solvable<K>, options?: Asking): Promise<Plan>;
  /** Submit a problem and return at once. `reusable` of the job names earlier ones that have released the same. */
  submit<K extends Kind>(problem: Solvable<K>, options?: SolveOptions): Promise<Job>;
  /** Submit, follow, fetch the result. Throws `BudgetExhausted` (nothing was charged) and `JobFailed`. */
  solve<K extends Kind>(problem: Solvable<K>, options?: SolveOptions): Promise<Answer<K>>;
  /**
   * Another question about what a job released, at price 0: its problem with other values of some fields. Of several
   * answers of the same problem the releases are combined. Throws `Conflict` for fields that were fixed at the release.
   */
  askAgain<K extends Kind>(
    of: Answer<K> | readonly Answer<K>[],
    fields: Partial<Solvable<K>>,
    options?: Omit<SolveOptions, keyof Spending | "anew">,
  ): Promise<Answer<K>>;
  /**
   * Run a problem on synthetic data of the public shape of its dataset, for several values of epsilon: `result.rows` has the
   * error of each number. Costs nothing; of a dataset that stands in the problem only `public` is sent.
   */
  rehearse<K extends Kind>(problem: Solvable<K>, options?: RehearsalOptions): Promise<Rehearsal>;
  job(id: string): Promise<Job>;
  cancel(id: string): Promise<Job>;
  /** The events of a job until it ends, resumed where a connection broke. */
  events(id: string, options?: { signal?: AbortSignal }): AsyncGenerator<JobEvent>;
  /** The result of a job that has succeeded. Throws `ResultAltered` when it is not what its certificate binds. */
  answer(id: string): Promise<AnyAnswer>;
  /** A large field of a result, as the bytes of a Parquet file; compared with what `certificate` binds. */
  table(id: string, name: string, certificate?: Certificate): Promise<ArrayBuffer>;
  /** What is spent, reserved and left of an account (`account` of a dataset). */
  budget(account: string): Promise<Budget>;
  budgets(): Promise<Budget[]>;
  /** Road networks of the tenant: stored once, and named by jobs (`network: "net_…"`). */
  readonly networks: Networks;
}

export interface Networks {
  /** Store a network. The same network again is the same object, and keeps the name that it had. */
  add(network: components["schemas"]["RoadNetwork"], options: { name: string; zones?: number }): Promise<Network>;
  /** One network with all its links, and the SHA-256 that certificates name. */
  get(id: string): Promise<Network>;
  /** All networks without their links, newest first. */
  list(): AsyncGenerator<Network>;
}

export function createDiscreet({ baseUrl, key, fetch: send = (request) => fetch(request) }: DiscreetOptions): Discreet {
  const root = baseUrl.replace(/\/+$/, "");
  if (!/^https?:\/\//.test(root)) throw new Unreachable(`"${baseUrl}" is no address: it begins with http:// or https://`);
  // A line break that was read with a key is not part of it.
  const secret = (key ?? "").trim();
  if (!/^[!-~]+$/.test(secret)) {
    throw new Unauthenticated(401, { code: "key_malformed", detail: "the API key is empty, or holds what no key holds" });
  }
  const headers = { Authorization: `Bearer ${secret}` };
  const api = createFetcher<paths>({ baseUrl: root, headers, fetch: retrying(send) });
  const path = (id: string) => ({ params: { path: { job_id: id } } });

  async function datasetId(given: string | Dataset | DatasetBody): Promise<string> {
    if (typeof given === "string") return given;
    return "id" in given ? given.id : (await register(given)).id;
  }

  /** The body of a job; only a solve registers what is inline, a plan changes nothing. */
  function body(problem: object, { epsilon, delta, rho, preset, accuracy, unit, seed, name }: Asking & { name?: string }): components["schemas"]["JobRequest"] {
    const stated = Object.entries({ epsilon, delta, rho, preset, accuracy, unit }).filter(([, value]) => value !== undefined);
    const dataset = (problem as { dataset?: unknown }).dataset;
    const known = typeof dataset === "object" && dataset !== null && "id" in dataset ? { dataset: dataset.id } : {};
    return {
      problem: { ...problem, ...known },
      ...(stated.length ? { privacy: Object.fromEntries(stated.map(([key, value]) => [key, inSteps(key, value)])) } : {}),
      ...(seed === undefined ? {} : { seed }),
      ...(name === undefined ? {} : { name }),
    } as components["schemas"]["JobRequest"];
  }

  async function register(dataset: DatasetBody): Promise<Dataset> {
    return taken(await api.POST("/v1/datasets", { body: dataset }));
  }

  async function add(content: FileContent, about: DatasetAbout): Promise<Dataset> {
    const { filename, ...said } = about;
    const form = await formOf(content, said, filename);
    // The contract's types know the JSON body alone.
    return taken(await api.POST("/v1/datasets", { body: form as never, bodySerializer: () => form }));
  }

  async function look(content: FileContent | string, about: LookAbout): Promise<Look> {
    const { filename, ...said } = about;
    if (typeof content === "string") return taken(await api.POST("/v1/reads", { body: { ...said, draft: content } }));
    const form = await formOf(content, said, filename);
    return taken(await api.POST("/v1/reads", { body: form as never, bodySerializer: () => form }));
  }

  async function correct(
    dataset: string | Dataset,
    fields: Record<string, unknown>,
    content?: FileContent,
    filename?: string,
  ): Promise<Dataset> {
    const params = { path: { dataset_id: typeof dataset === "string" ? dataset : dataset.id } };
    const address = "/v1/datasets/{dataset_id}";
    if (content === undefined) return taken(await api.PATCH(address, { params, body: { public: fields } as never }));
    const form = await formOf(content, { public: fields }, filename);
    return taken(await api.PATCH(address, { params, body: form as never, bodySerializer: () => form }));
  }

  async function* list(): AsyncGenerator<Dataset> {
    for (let token: string | null | undefined; token !== null; ) {
      const page = taken(await api.GET("/v1/datasets", { params: { query: token ? { page_token: token } : {} } }));
      yield* page.datasets;
      token = page.next_page_token;
    }
  }

  async function submit<K extends Kind>(problem: Solvable<K>, options: SolveOptions = {}): Promise<Job> {
    const dataset = (problem as { dataset?: string | Dataset | DatasetBody | null }).dataset;
    const whole = dataset == null ? problem : { ...problem, dataset: await datasetId(dataset) };
    const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID();
    return taken(
      await api.POST("/v1/jobs", {
        body: body(whole, options),
        params: { header: { "idempotency-key": idempotencyKey } },
        ...(options.signal ? { signal: options.signal } : {}),
      }),
    );
  }

  function events(id: string, { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<JobEvent> {
    return jobEvents(send, `${root}/v1/jobs/${encodeURIComponent(id)}/events`, headers, signal);
  }

  async function answer(id: string): Promise<AnyAnswer> {
    const { job, result, certificate } = taken(await api.GET("/v1/jobs/{job_id}/result", path(id)));
    await requireResult(certificate as Certificate, result);
    let network: Promise<RoadNetwork | undefined> | undefined;
    const askedOnce = () =>
      (network ??= networkOf(id).catch((error: unknown) => {
        network = undefined; // it may come another time
        throw error;
      }));
    // The job's kind tells which of `Results` this is.
    return {
      kind: job.kind,
      job,
      price: job.price,
      result,
      certificate: certificate as Certificate,
      mostlyNoise: isMostlyNoise(result),
      interval: (field: string) => intervalOf(result, field),
      rows: (field: string, options?: RowsOptions) => rowsOf({ kind: job.kind, result }, field, askedOnce, options),
    } as unknown as AnyAnswer;
  }

  let stored: { id: string; network: Promise<RoadNetwork | undefined> } | undefined;

  /** The road network that a job names, or has in it; undefined where it is not there any more. A stored one is fetched once. */
  async function networkOf(id: string): Promise<RoadNetwork | undefined> {
    const named = (await job(id)).problem?.network as RoadNetwork | string | undefined;
    if (typeof named !== "string") return named;
    const asked = stored?.id === named ? stored : { id: named, network: networks.get(named).then((one) => one.network as RoadNetwork) };
    stored = asked;
    try {
      return await asked.network;
    } catch (error) {
      if (stored === asked) stored = undefined;
      if (error instanceof NotFound || error instanceof Forbidden) return undefined;
      throw error;
    }
  }

  async function job(id: string): Promise<Job> {
    return taken(await api.GET("/v1/jobs/{job_id}", path(id)));
  }

  async function solve<K extends Kind>(problem: Solvable<K>, options: SolveOptions = {}): Promise<Answer<K>> {
    const { id, reusable, simulation } = await submit(problem, options);
    if (reusable?.length && !options.anew && !simulation) {
      console.warn(`discreet: ${id} is charged for what ${reusable[0]} has released already, which askAgain asks for nothing; { anew: true } where it is meant`);
    }
    for await (const event of events(id, options)) options.onEvent?.(event);
    const ended = await job(id);
    if (ended.state !== "succeeded") throw new JobFailed(ended);
    return (await answer(id)) as unknown as Answer<K>;
  }

  const networks: Networks = {
    async add(network, { name, zones }) {
      return taken(await api.POST("/v1/networks", { body: { name, network, ...(zones === undefined ? {} : { zones }) } }));
    },
    async get(id) {
      return taken(await api.GET("/v1/networks/{network_id}", { params: { path: { network_id: id } } }));
    },
    async *list() {
      for (let token: string | null = null; ; ) {
        const query: { page_size: number; page_token?: string } = { page_size: 200, ...(token === null ? {} : { page_token: token }) };
        const page: components["schemas"]["NetworkPage"] = taken(await api.GET("/v1/networks", { params: { query } }));
        yield* page.networks;
        if ((token = page.next_page_token) === null) return;
      }
    },
  };

  return {
    api,
    networks,
    register,
    datasets: { add, look, correct, list },
    submit,
    events,
    answer,
    job,
    async plan(problem, options = {}) {
      return taken(await api.POST("/v1/plans", { body: body(problem, options) }));
    },
    solve,
    async askAgain<K extends Kind>(
      of: Answer<K> | readonly Answer<K>[],
      fields: Partial<Solvable<K>>,
      options: Omit<SolveOptions, keyof Spending | "anew"> = {},
    ): Promise<Answer<K>> {
      const jobs = [of].flat().map((one) => (one as { job: Job }).job.id);
      const { source: _, ...problem } = (await job(jobs[0] as string)).problem ?? {};
      const asked = { ...problem, ...fields, dataset: null, release: jobs.length === 1 ? jobs[0] : jobs };
      return solve<K>(asked as unknown as Solvable<K>, options);
    },
    async rehearse(problem, { idempotencyKey, onEvent, signal, epsilon, delta, ...options }: RehearsalOptions = {}) {
      if (epsilon !== undefined && options.epsilons !== undefined) throw new TypeError("either epsilon or epsilons");
      const { dataset } = problem as { dataset?: string | Dataset | DatasetBody };
      const inline = typeof dataset === "object" && !("id" in dataset);
      const rehearsed = inline ? { problem: { ...problem, dataset: "rehearsed" }, public: dataset.public } : body(problem, {});
      const { id } = taken(
        await api.POST("/v1/rehearsals", {
          body: {
            ...rehearsed,
            ...(epsilon === undefined ? {} : { epsilons: [inSteps("epsilon", epsilon)] }),
            ...(delta === undefined ? {} : { privacy: { epsilon: 1, delta } }),
            ...options,
            ...(options.epsilons === undefined ? {} : { epsilons: options.epsilons.map((one) => inSteps("epsilon", one)) }),
          } as components["schemas"]["RehearsalRequest"],
          params: { header: { "idempotency-key": idempotencyKey ?? crypto.randomUUID() } },
          ...(signal ? { signal } : {}),
        }),
      );
      for await (const event of events(id, signal ? { signal } : {})) onEvent?.(event);
      const ended = await job(id);
      if (ended.state !== "succeeded") throw new JobFailed(ended);
      return (await answer(id)) as unknown as Rehearsal;
    },
    async cancel(id) {
      return taken(await api.POST("/v1/jobs/{job_id}/cancel", path(id)));
    },
    async table(id, name, certificate) {
      const found = await api.GET("/v1/jobs/{job_id}/result/{table}", {
        params: { path: { job_id: id, table: name } },
        parseAs: "arrayBuffer",
      });
      const parquet = taken(found) as ArrayBuffer;
      if (certificate !== undefined) await requireTable(certificate, name, parquet);
      return parquet;
    },
    async budget(account) {
      return taken(await api.GET("/v1/budgets/{account_id}", { params: { path: { account_id: account } } }));
    },
    async budgets() {
      return taken(await api.GET("/v1/budgets")).budgets;
    },
  };
}

/** The data of an answer; throws what the server refused. */
/** Decimals in which the service counts; more it refuses. */
const DECIMALS: Record<string, number> = { epsilon: 9, delta: 18, rho: 18 };

/** A figure of a budget in the service's steps, rounded down, and said: 1 / 3 has more decimals. */
export function inSteps<T>(name: string, value: T): T | number {
  const most = DECIMALS[name];
  if (most === undefined || typeof value !== "number" || !Number.isFinite(value)) return value;
  const [written = "", power = "0"] = value.toExponential().split("e");
  const digits = written.replace(".", "");
  const last = Number(power) - digits.length + 1; // the power of ten of the last digit
  const kept = digits.slice(0, Math.max(0, digits.length + Math.min(0, last + most)));
  if (last + most >= 0 || !/[1-9]/.test(kept)) return value; // the service refuses what would be nothing
  const down = Number(`${kept}e${-most}`);
  console.warn(`${name} ${value} is sent as ${down}: the service counts in steps of 1e-${most}`);
  return down;
}

function taken<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (!answer.response.ok) {
    const problem = typeof answer.error === "object" && answer.error !== null ? (answer.error as ProblemDocument) : {};
    throw apiError(answer.response.status, problem, retryAfter(answer.response.headers));
  }
  return answer.data as T;
}
