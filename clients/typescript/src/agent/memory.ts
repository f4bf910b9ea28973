/**
 * An agent's state in one session, on disk before anything that follows from it is sent. A new process goes on from here:
 * it sends the same bytes again, and never computes two answers to one round.
 */

import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";

import { type Bytes, fromHex, hex, utf8 } from "./bytes.js";
import { AgentError } from "./errors.js";
import { withLock, writePrivate } from "./files.js";
import type { Blamed } from "./rounds.js";

/** The answer to one round. */
export interface Sent {
  readonly number: number;
  readonly body: Bytes;
  readonly answers: Bytes;
}

/** How the session ended. */
export interface Ended {
  readonly state: string;
  readonly code: string;
  readonly rounds: number;
  readonly broadcast: Bytes;
  readonly transcript: Bytes;
  readonly charged: boolean;
  readonly blamed: readonly Blamed[];
}

export interface Known {
  readonly account: string;
  readonly roster: Bytes;
  readonly sent: Sent | undefined;
  /** The state of the kind's own program, as text. */
  readonly state: string;
  readonly ended: Ended | undefined;
}

const PROGRAM = "discreet-client for TypeScript";
const NOTHING: Known = { account: "", roster: new Uint8Array(), sent: undefined, state: "", ended: undefined };

export class Memory {
  #known: Known;

  constructor(readonly path: string) {
    this.#known = load(path);
  }

  get known(): Known {
    return this.#known;
  }

  /** Locks the session against other processes while `work` runs, and loads what one of them may have saved. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    return withLock(this.path.replace(/\.json$/, ".lock"), 0, async () => {
      this.#known = load(this.path);
      return work();
    });
  }

  /** Changes these fields, on disk first: if they cannot be written, AgentError, and this object is unchanged. */
  keep(changes: Partial<Known>): void {
    const after = { ...this.#known, ...changes };
    const { sent, ended } = after;
    const fields = {
      program: PROGRAM,
      account: after.account,
      roster: hex(after.roster),
      sent: sent === undefined ? null : { number: sent.number, body: hex(sent.body), answers: hex(sent.answers) },
      state: after.state,
      ended: ended === undefined ? null : { ...ended, broadcast: hex(ended.broadcast), transcript: hex(ended.transcript) },
    };
    try {
      mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 });
      writePrivate(this.path, utf8(JSON.stringify(fields)));
    } catch (error) {
      throw new AgentError(`${this.path} cannot be written: ${(error as Error).message}`);
    }
    this.#known = after;
  }
}

function load(path: string): Known {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return NOTHING;
    throw error;
  }
  try {
    const read = JSON.parse(text);
    if (read.program !== PROGRAM) throw new AgentError(`${path} is that of another program: finish the session with the one that began it`);
    const { sent, ended } = read;
    return {
      account: read.account,
      roster: fromHex(read.roster),
      sent: sent === null ? undefined : { number: sent.number, body: fromHex(sent.body), answers: fromHex(sent.answers) },
      state: read.state,
      ended: ended === null ? undefined : { ...ended, broadcast: fromHex(ended.broadcast), transcript: fromHex(ended.transcript) },
    };
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw new AgentError(`${path} cannot be read`);
  }
}
