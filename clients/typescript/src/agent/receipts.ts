/**
 * An agent's receipt: the charge that it accepted in one session, as an in-toto statement in a DSSE envelope that it signs
 * itself (docs/transparency.md, "Federated sessions"). The predicate holds the ledger entry's own signature as well.
 */

import { canonical } from "../certificates.js";
import { base64, type Bytes, concat, hex, sha256, utf8 } from "./bytes.js";
import type { Identity } from "./identity.js";
import type { Entry } from "./ledger.js";

const PAYLOAD = "application/vnd.in-toto+json";

export interface Envelope {
  readonly payload: string;
  readonly payloadType: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

/** The receipt of a ledger entry of a charge. `givenBack`: whether a later entry returns it; only the agent vouches for that. */
export function sealed(identity: Identity, entry: Entry, givenBack: boolean): Envelope {
  const { body } = entry;
  const charge = body.charge as string;
  const { session } = JSON.parse(charge) as { session: string };
  const agent = identity.fingerprint;
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: `${String(body.job)}/charge/${agent}`, digest: { sha256: hex(sha256(utf8(charge))) } }],
    predicateType: "urn:discreet:receipt:v1",
    predicate: {
      session,
      job: body.job,
      agent,
      public_key: base64(identity.publicKey),
      charge,
      server_key: body.server_key,
      server_signature: body.server_signature,
      entry: { seq: entry.seq, link: hex(entry.link), hash: hex(entry.hash), signature: base64(entry.signature) },
      given_back: givenBack,
    },
  };
  const payload = utf8(canonical(statement));
  const signature = identity.sign(encoding(payload));
  return { payload: base64(payload), payloadType: PAYLOAD, signatures: [{ keyid: agent, sig: base64(signature) }] };
}

/** The bytes that DSSE signs: type and payload, each with its length. */
function encoding(payload: Bytes): Bytes {
  return concat(utf8(`DSSEv1 ${PAYLOAD.length} ${PAYLOAD} ${payload.length} `), payload);
}
