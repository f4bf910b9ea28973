/**
 * The records of a session that must survive the agent's process, so that it answers no round twice.
 *
 * A file holds the records of answers that may have been sent; those of the answer in progress are pending in the state
 * until it is saved. A state that lacks a record of the file is an older copy, and so is a file with fewer records than the
 * state knows.
 */

import { readFileSync } from "node:fs";

import { utf8 } from "./bytes.js";
import { Reused } from "./errors.js";
import { appendDurably } from "./files.js";

export class Journal {
  readonly #path: string;
  readonly #settled: Set<string>;
  #pending: string[];

  /** `settled`: how many records the file held when the state was saved. Reused when file and state do not fit. */
  constructor(path: string, settled = 0, pending: readonly string[] = []) {
    this.#path = path;
    const text = read(path);
    if (text && !text.endsWith("\n")) appendDurably(path, utf8("\n")); // a last line that was cut short counts as a record
    const held = text.split("\n").filter((line) => line);
    this.#settled = new Set(held);
    this.#pending = [...pending];
    if (held.slice(settled).some((record) => !pending.includes(record))) throw new Reused("the saved session is older than its journal");
    if (held.length < settled) throw new Reused("the journal is older than the saved session");
  }

  /** Adds a pending record; Reused if it is there already. */
  claim(record: string): void {
    if (this.records.includes(record)) throw new Reused(`${record} was claimed before`);
    this.#pending.push(record);
  }

  get records(): string[] {
    return [...new Set([...this.#settled, ...this.#pending])];
  }

  /** The journal's part of the state that is saved with an answer. */
  get saved(): { settled: number; pending: string[] } {
    return { settled: this.#settled.size, pending: [...this.#pending] };
  }

  /** Moves the pending records to the file, once their answer is saved and before it is sent. */
  settle(): void {
    const fresh = this.#pending.filter((record) => !this.#settled.has(record));
    if (fresh.length) appendDurably(this.#path, utf8(fresh.map((record) => `${record}\n`).join("")));
    for (const record of fresh) this.#settled.add(record);
    this.#pending = [];
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}
