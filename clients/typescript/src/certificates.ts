/** Checks that a result is the one for which its certificate was signed; the service checks the certificate's signature. */

import { ResultAltered } from "./errors.js";
import type { Certificate } from "./kinds.js";

/** Canonical JSON (RFC 8785): numbers as ECMAScript writes them, names in the order of their UTF-16 code units. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** Throws `ResultAltered` if the certificate binds another result; certificates of older services bind none. */
export async function requireResult(certificate: Certificate, result: unknown): Promise<void> {
  const bound = certificate.result_digest;
  if (bound !== undefined && (await sha256(new TextEncoder().encode(canonical(result)))) !== bound) {
    throw new ResultAltered("the result is not the one that its certificate was signed for");
  }
}

/** Throws `ResultAltered` if the certificate does not bind this Parquet file of a table. */
export async function requireTable(certificate: Certificate, name: string, parquet: ArrayBuffer): Promise<void> {
  if (certificate.tables !== undefined && (await sha256(new Uint8Array(parquet))) !== certificate.tables[name]) {
    throw new ResultAltered(`the table ${name} is not the one that its certificate was signed for`);
  }
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
