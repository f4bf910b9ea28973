/** A client of server-sent events (WHATWG HTML, "Server-sent events"). */

import { refusal, Unreachable } from "./errors.js";
import { backoff, BUSY, sleep, type Fetch } from "./retries.js";
import type { components } from "./schema.js";

export type State = components["schemas"]["JobAnswer"]["state"];

/** An event of a job; `event` is its kind. */
export type JobEvent =
  | { event: "state"; data: { state: State } }
  | { event: "progress"; data: { step: number; total: number } };

export interface RawEvent {
  event: string;
  data: string;
  lastId: string;
}

/** Consecutive connections without a byte after which the server counts as unreachable. */
const ATTEMPTS = 7;
const FINAL: readonly State[] = ["succeeded", "failed", "cancelled"];

/** Turns parts of a stream into events; a part may end anywhere, also within a character or between CR and LF. */
export class EventParser {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private event = "";
  private data: string[] = [];

  constructor(private lastId = "") {}

  feed(part: Uint8Array): RawEvent[] {
    let text = this.rest + this.decoder.decode(part, { stream: true });
    let kept = "";
    if (text.endsWith("\r")) {
      kept = "\r"; // the LF of a CR LF may come with the next part
      text = text.slice(0, -1);
    }
    const lines = text.split(/\r\n|\r|\n/);
    this.rest = lines.pop() + kept;
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): RawEvent[] {
    if (line === "") {
      const found = this.data.length ? [{ event: this.event || "message", data: this.data.join("\n"), lastId: this.lastId }] : [];
      this.event = "";
      this.data = [];
      return found;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.event = value;
    else if (name === "data") this.data.push(value);
    else if (name === "id" && !value.includes("\0")) this.lastId = value;
    return []; // comments and unknown fields are ignored
  }
}

/** The events of a job until it ends, over as many connections as it takes. */
export async function* jobEvents(send: Fetch, url: string, headers: HeadersInit, signal?: AbortSignal): AsyncGenerator<JobEvent> {
  let lastId = "0";
  for (let silent = 1; ; silent++) {
    let asked: number | undefined;
    try {
      const own = new Headers(headers);
      own.set("Accept", "text/event-stream");
      own.set("Last-Event-ID", lastId);
      const response = await send(new Request(url, { headers: own, signal: signal ?? null }));
      if (!response.ok) {
        const error = await refusal(response);
        if (!BUSY.includes(error.status)) throw error;
        asked = error.retryAfter;
      } else if (response.body) {
        const reader = response.body.getReader();
        try {
          const parser = new EventParser(lastId);
          for (let part = await reader.read(); !part.done; part = await reader.read()) {
            silent = 0;
            for (const raw of parser.feed(part.value)) {
              lastId = raw.lastId;
              const found = { event: raw.event, data: JSON.parse(raw.data) } as JobEvent;
              yield found;
              if (found.event === "state" && FINAL.includes(found.data.state)) return;
            }
          }
        } finally {
          await reader.cancel().catch(() => undefined); // a broken stream cannot be cancelled
        }
      }
    } catch (error) {
      // fetch and its streams throw TypeError for a broken connection; the next one continues after the last event.
      if (signal?.aborted || !(error instanceof TypeError)) throw error;
      if (silent >= ATTEMPTS) throw new Unreachable("the server does not answer", { cause: error });
    }
    if (silent >= ATTEMPTS) throw new Unreachable("the server does not answer");
    await sleep(backoff(Math.max(silent, 1), asked), signal);
  }
}
