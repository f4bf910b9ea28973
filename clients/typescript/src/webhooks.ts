/** Checks that a webhook is from the service (Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`). */

import { ClientError } from "./errors.js";

/** The message is not from the holder of the secret, or it is old. */
export class WebhookRefused extends ClientError {}

export interface WebhookOptions {
  /** Seconds by which the timestamp may differ from the present, for clocks and delivery; default 300. */
  toleranceSeconds?: number;
  /** The present, in seconds since 1970; default the clock's. */
  now?: number;
}

/**
 * The message, parsed; WebhookRefused unless one of its signatures is by this secret (`whsec_` and base64) and its age is
 * within the tolerance. `body` is the text as it came. Remember the ids of handled messages: one may be delivered twice.
 */
export async function verifyWebhook(secret: string, headers: Headers, body: string, options: WebhookOptions = {}): Promise<unknown> {
  const [id, stamp, given] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => {
    const value = headers.get(name);
    if (value === null) throw new WebhookRefused(`the header ${name} is missing`);
    return value;
  }) as [string, string, string];
  if (!/^\d+$/.test(stamp)) throw new WebhookRefused("webhook-timestamp is not a number of seconds");
  if (Math.abs((options.now ?? Date.now() / 1000) - Number(stamp)) > (options.toleranceSeconds ?? 300)) {
    throw new WebhookRefused("the message is too old or from the future");
  }
  const material = bytes(secret.replace(/^whsec_/, ""));
  const key = await crypto.subtle.importKey("raw", material, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signed = new TextEncoder().encode(`${id}.${stamp}.${body}`);
  for (const one of given.split(" ")) {
    const [version, signature] = one.split(",", 2);
    let decoded: Uint8Array<ArrayBuffer>;
    try {
      decoded = bytes(signature ?? "");
    } catch {
      continue;
    }
    if (version === "v1" && (await crypto.subtle.verify("HMAC", key, decoded, signed))) return JSON.parse(body);
  }
  throw new WebhookRefused("the message has no signature by this secret");
}

function bytes(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
