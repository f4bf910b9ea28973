/** When a request is sent again, and after how long. */

import { refusal, Unreachable } from "./errors.js";

export const ATTEMPTS = 5;
export const BACKOFF_SECONDS = 0.2;
/** If the server asks for a longer wait than this, the caller gets the error at once. */
export const MAX_WAIT_SECONDS = 60;
export const BUSY: readonly number[] = [429, 503];

/** POST calls that have the same effect when they are repeated, even without an idempotency key. */
const HARMLESS = ["/v1/plans", "/v1/certificates:verify", "/v1/datasets"];
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

export type Fetch = (request: Request) => Promise<Response>;

/** Seconds to wait after failed attempt 1, 2, …: doubled each time, with jitter, and at least what the server asked for. */
export function backoff(attempt: number, asked = 0): number {
  return Math.max(BACKOFF_SECONDS * 2 ** (attempt - 1) * (1 + Math.random() / 4), asked);
}

export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) aborted();
    else signal?.addEventListener("abort", aborted, { once: true });
  });
}

/**
 * `fetch` that repeats a request after a broken connection, 429, 503, or while another request with the same idempotency
 * key is under way. The request and its idempotency key are the same each time. A POST that is not idempotent is repeated
 * only if it certainly had no effect: it was never sent, or was refused with 429.
 */
export function retrying(send: Fetch): Fetch {
  return async (request) => {
    const repeatable =
      request.method !== "POST" ||
      request.headers.has("idempotency-key") ||
      HARMLESS.some((path) => new URL(request.url).pathname.endsWith(path));
    for (let attempt = 1; ; attempt++) {
      let wait: number;
      try {
        const response = await send(request.clone());
        if (response.ok) return response;
        const error = await refusal(response.clone());
        const busy = BUSY.includes(error.status) || error.code === "request_in_flight";
        wait = backoff(attempt, error.retryAfter);
        const again = busy && (repeatable || error.status === 429) && wait <= MAX_WAIT_SECONDS;
        if (!again || attempt >= ATTEMPTS) return response;
        await response.body?.cancel();
      } catch (error) {
        if (request.signal.aborted) throw error;
        if (attempt >= ATTEMPTS || !(repeatable || neverSent(error))) {
          throw new Unreachable(`the server at ${new URL(request.url).origin} does not answer`, { cause: error });
        }
        wait = backoff(attempt);
      }
      await sleep(wait, request.signal);
    }
  };
}

function neverSent(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
  return cause?.code !== undefined && NEVER_SENT.has(cause.code);
}
