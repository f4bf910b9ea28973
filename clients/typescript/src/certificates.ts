/** Whether a result is the one that its certificate was signed for. Digests only; who signed it says the service. */

import { ResultAltered } from "./errors.js";
import type { Certificate } from "./kinds.js";

/** JSON in its one canonical form (RFC 8785): numbers as ECMAScript writes them, names in the order of UTF-16. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** Throws `ResultAltered` when the certificate binds another result than this one; older ones bind none. */
export async function requireResult(certificate: Certificate, result: unknown): Promise<void> {
  const bound = certificate.result_digest;
  if (bound !== undefined && (await sha256(new TextEncoder().encode(canonical(result)))) !== bound) {
    throw new ResultAltered("the result is not the one that its certificate was signed for");
  }
}

/** The same of a table, as the bytes of its Parquet file. */
export async function requireTable(certificate: Certificate, name: string, parquet: ArrayBuffer): Promise<void> {
  if (certificate.tables !== undefined && (await sha256(new Uint8Array(parquet))) !== certificate.tables[name]) {
    throw new ResultAltered(`the table ${name} is not the one that its certificate was signed for`);
  }
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
