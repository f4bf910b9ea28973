/** The errors of this client, in the same tree as those of the Python client. */

import type { components } from "./schema.js";

export type Binding = components["schemas"]["Binding"];

/** One bad field: a JSON pointer (RFC 6901) into the request's body, and one sentence. */
export interface FieldError {
  pointer: string;
  detail: string;
}

/** A problem document (RFC 9457); parts that were not sent are missing. */
export type ProblemDocument = Partial<components["schemas"]["ProblemDocument"]>;

/** This client could not do what it was asked to. */
export class ClientError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server does not answer. */
export class Unreachable extends ClientError {}

/** A job that was waited for ended without a result. */
export class JobFailed extends ClientError {
  readonly code: string;

  constructor(readonly job: components["schemas"]["JobAnswer"]) {
    super(`job ${job.id} ${job.state}${job.error ? `: ${job.error.detail}` : ""}`);
    this.code = job.error?.code ?? job.state;
  }
}

/** The result is not the one for which its certificate was signed. */
export class ResultAltered extends ClientError {}

/** The server refused. `code` is the stable name of the error, `problem` the whole document. */
export class ApiError extends ClientError {
  readonly code: string;
  readonly errors: readonly FieldError[];
  readonly binding: Binding | undefined;

  constructor(
    readonly status: number,
    readonly problem: ProblemDocument,
    /** Seconds after which the server asks for another try, if it says so. */
    readonly retryAfter?: number | undefined,
  ) {
    const errors = problem.errors ?? [];
    const lines = errors.map((issue) => `${issue.pointer || "/"}: ${issue.detail}`);
    super(lines.join("; ") || problem.detail || `HTTP ${status}`);
    this.code = problem.code ?? "http_error";
    this.errors = errors;
    this.binding = problem.binding ?? undefined;
  }
}

/** A field of the request is not valid: 400, 413, 422. */
export class InvalidInput extends ApiError {}
/** A valid API key is needed. */
export class Unauthenticated extends ApiError {}
/** The role of this key does not allow this request. */
export class Forbidden extends ApiError {}
/** There is no such object. */
export class NotFound extends ApiError {}
/** The object is in a state that does not allow this request. */
export class Conflict extends ApiError {}
/** The privacy budget does not allow this request; nothing was charged. `binding` says which cap. */
export class BudgetExhausted extends Conflict {}
/** Too many requests with this key. */
export class RateLimited extends ApiError {}
/** The server failed, or cannot answer now. */
export class ServerError extends ApiError {}

const BY_STATUS: Record<number, typeof ApiError> = {
  400: InvalidInput,
  401: Unauthenticated,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  413: InvalidInput,
  422: InvalidInput,
  429: RateLimited,
};

/** The error of an unsuccessful response, whose body is read. */
export async function refusal(response: Response): Promise<ApiError> {
  let problem: ProblemDocument = {};
  try {
    const body: unknown = await response.json();
    if (typeof body === "object" && body !== null) problem = body;
  } catch {
    // The page of a proxy, or nothing: only the status is known.
  }
  return apiError(response.status, problem, retryAfter(response.headers));
}

export function apiError(status: number, problem: ProblemDocument, after?: number): ApiError {
  const kind =
    problem.code === "budget_exhausted" ? BudgetExhausted : (BY_STATUS[status] ?? (status >= 500 ? ServerError : ApiError));
  return new kind(status, problem, after);
}

/** Seconds of the header Retry-After, which may hold a number or a date. */
export function retryAfter(headers: Headers): number | undefined {
  const text = headers.get("retry-after")?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const moment = Date.parse(text);
  return Number.isNaN(moment) ? undefined : Math.max(0, (moment - Date.now()) / 1000);
}
