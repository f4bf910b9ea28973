/** Files that survive a power cut, of mode 0600, and locks that end with the process that holds them. */

import { spawnSync } from "node:child_process";
import { closeSync, constants, fsyncSync, linkSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Bytes } from "./bytes.js";
import { AgentError } from "./errors.js";

const { O_APPEND, O_CREAT, O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = constants;

/** Writes all of `data`: one `writeSync` may write a part only, as on a disk that is nearly full. */
function writeAll(file: number, data: Bytes): void {
  for (let done = 0; done < data.length; ) done += writeSync(file, data, done);
}

/** Makes a rename or a new file inside the folder durable. */
function syncFolder(path: string): void {
  const folder = openSync(path, O_RDONLY | O_DIRECTORY);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * Writes `data` to `path`, whole or not at all; on disk when it returns. Without `replace` an existing file stays, and the
 * error has the code EEXIST: of two processes that write at once, one wins.
 */
export function writePrivate(path: string, data: Bytes, replace = true): void {
  const draft = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    const file = openSync(draft, O_WRONLY | O_CREAT | O_TRUNC, 0o600);
    try {
      writeAll(file, data);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    if (replace) renameSync(draft, path);
    else linkSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
  syncFolder(dirname(path));
}

/** Appends to a file, which is created if absent; on disk when it returns. */
export function appendDurably(path: string, data: Bytes): void {
  const file = openSync(path, O_WRONLY | O_CREAT | O_APPEND, 0o600);
  try {
    writeAll(file, data);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  syncFolder(dirname(path));
}

/**
 * Runs `work` while this process holds `path` exclusively, by the same lock (flock) as the Python agent takes. AgentError
 * if another process holds it for longer than `seconds`, or such locks do not exist here.
 *
 * Node has no call for it. The command `flock FD` (util-linux, busybox) locks the open file that it inherits, and a lock
 * belongs to the open file, not to a process: this process keeps it until the file is closed. BSD and macOS can lock a file
 * as they open it.
 */
export async function withLock<T>(path: string, seconds: number, work: () => Promise<T> | T): Promise<T> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const file = lock(path, seconds);
  try {
    return await work();
  } finally {
    closeSync(file);
  }
}

const O_EXLOCK = 0x20; // on BSD and macOS

function lock(path: string, seconds: number): number {
  if (process.platform === "darwin" || process.platform === "freebsd") {
    try {
      return openSync(path, O_RDWR | O_CREAT | O_EXLOCK | O_NONBLOCK, 0o600);
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === "EAGAIN" ? held(path) : error;
    }
  }
  const file = openSync(path, O_RDWR | O_CREAT, 0o600);
  const wait = seconds ? ["-w", String(seconds)] : ["-n"];
  const done = spawnSync("flock", [...wait, "3"], { stdio: ["ignore", "ignore", "ignore", file] });
  if (done.status === 0) return file;
  closeSync(file);
  if (done.error) throw new AgentError(`files cannot be locked here, so two processes might answer one round: ${done.error.message}`);
  throw held(path);
}

const held = (path: string): AgentError => new AgentError(`another process takes part with ${path}`);
