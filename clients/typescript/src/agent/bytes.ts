/** The protocol's encodings and hashes: big-endian integers, UTF-8, hexadecimal, SHA-256 and HMAC-SHA-256. */

import { createHash, createHmac, timingSafeEqual } from "node:crypto";

export type Bytes = Uint8Array;

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

/** The text of UTF-8 bytes; TypeError if they are not UTF-8. */
export const textOf = (data: Bytes): string => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);

export const concat = (...parts: Bytes[]): Bytes => new Uint8Array(Buffer.concat(parts));

/** Whether two byte strings are equal, compared in constant time. */
export function same(one: Bytes, other: Bytes): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

export const hex = (data: Bytes): string => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");

/** The bytes of a hexadecimal text; RangeError if it is not hexadecimal. */
export function fromHex(text: string): Bytes {
  if (!/^(?:[0-9a-fA-F]{2})*$/.test(text)) throw new RangeError("this is not hexadecimal");
  return new Uint8Array(Buffer.from(text, "hex"));
}

export const base64 = (data: Bytes): string => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");

export const fromBase64 = (text: string): Bytes => new Uint8Array(Buffer.from(text, "base64"));

export function sha256(...parts: Bytes[]): Bytes {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return new Uint8Array(hash.digest());
}

export function hmac(key: Bytes, ...parts: Bytes[]): Bytes {
  const mac = createHmac("sha256", key);
  for (const part of parts) mac.update(part);
  return new Uint8Array(mac.digest());
}

export function u8(value: number): Bytes {
  return Uint8Array.of(value);
}

export function u16(value: number): Bytes {
  const data = new Uint8Array(2);
  new DataView(data.buffer).setUint16(0, value);
  return data;
}

export function u32(value: number): Bytes {
  const data = new Uint8Array(4);
  new DataView(data.buffer).setUint32(0, value);
  return data;
}

export function u64(value: bigint): Bytes {
  const data = new Uint8Array(8);
  new DataView(data.buffer).setBigUint64(0, value);
  return data;
}

/** The numbers of big-endian doubles; RangeError unless the length is a multiple of eight. */
export function doublesOf(data: Bytes): number[] {
  if (data.length % 8) throw new RangeError("a double has eight bytes");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: data.length / 8 }, (_, place) => view.getFloat64(8 * place));
}

export function double(value: number): Bytes {
  const data = new Uint8Array(8);
  new DataView(data.buffer).setFloat64(0, value);
  return data;
}

/** JSON with sorted names and no spaces. */
export function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).filter(([, one]) => one !== undefined);
    fields.sort(([one], [other]) => (one < other ? -1 : 1));
    return `{${fields.map(([name, one]) => `${JSON.stringify(name)}:${sortedJson(one)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}
