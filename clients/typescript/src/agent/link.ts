/** The text that invites an agent, `dsc://host:port/ses_…?token=…&server=…&owner=…&tls=…`: an address, and the keys to trust. */

import { isIPv4, isIPv6 } from "node:net";

import { BadLink } from "./errors.js";

const FINGERPRINT = /^[0-9a-f]{64}$/;
const FORM = "the token is not of the form dsc://host:port/ses_…?token=…&server=…&owner=…";

export interface Link {
  readonly host: string;
  readonly port: number;
  readonly session: string;
  /** Fingerprint of the key that signs for the operator. */
  readonly server: string;
  /** Fingerprint of the key that signs the roster. */
  readonly owner: string;
  readonly token: string;
  /** SHA-256 of the server's certificate, `ca`, or nothing. */
  readonly tls: string;
}

/** The link that the text describes; BadLink, whose message never repeats the text, since it holds a secret. */
export function parseLink(text: string): Link {
  const parts = /^dsc:\/\/(\[[0-9a-fA-F:.]+\]|[^\s:/?#@[\]]+):([0-9]{1,5})\/(ses_[0-9a-z]{1,64})\?([^#\s]*)$/.exec(text.trim());
  if (parts === null) throw new BadLink(FORM);
  const [, bracketed, digits, session, words] = parts as unknown as [string, string, string, string, string];
  const query = new URLSearchParams(words);
  const port = Number(digits);
  if (port < 1 || port > 65535) throw new BadLink(FORM);
  const found = { server: query.get("server") ?? "", owner: query.get("owner") ?? "" };
  for (const [name, value] of Object.entries(found)) {
    if (!FINGERPRINT.test(value)) throw new BadLink(`the token pins no ${name}: \`${name}\` is a fingerprint of 64 hexadecimal digits`);
  }
  const tls = query.get("tls") ?? "";
  if (tls !== "" && tls !== "ca" && !FINGERPRINT.test(tls)) throw new BadLink("`tls` is a fingerprint of 64 hexadecimal digits, or `ca`");
  const host = bracketed.replace(/^\[|\]$/g, "");
  if (bracketed.startsWith("[") && !isIPv6(host)) throw new BadLink(FORM);
  return { host, port, session, ...found, token: query.get("token") ?? "", tls };
}

export const addressOf = (link: Link): string => (link.host.includes(":") ? `[${link.host}]:${link.port}` : `${link.host}:${link.port}`);

/** Whether the host is certain to be this machine; no name is looked up. */
export function isLoopback(host: string): boolean {
  if (isIPv4(host)) return host.startsWith("127.");
  if (isIPv6(host)) return new URL(`http://[${host}]`).hostname === "[::1]";
  return host === "localhost";
}
