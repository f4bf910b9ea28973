/**
 * Errors of an agent.
 *
 *     AgentError
 *     ├── BadLink         the token's text cannot be read
 *     ├── BadIdentity     the key file cannot be used
 *     ├── NotTrusted      the other side is not the one that the token pins, or contradicts itself
 *     ├── Unacceptable    what the owner has signed is more than this agent agrees to, or can do
 *     ├── FolderLost      the folder of a session in which this agent has answered is gone
 *     ├── LimitExceeded   the charge would exceed the agent's own limit; it has declined
 *     ├── LedgerBroken    the agent's own ledger fails verification
 *     ├── NotDue          a frame of the sums is not authentic or not due; nothing has changed
 *     ├── Tampered        an authentic frame of the sums is wrong: a party deviates from the protocol
 *     ├── Reused          the journal shows that this was answered before; nothing was sent
 *     ├── OutOfRange      a value does not fit its place in a sum
 *     ├── Refused         the server refused for good; carries its code
 *     └── Lost            the server did not come back in time
 */

export class AgentError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

export class BadLink extends AgentError {}
export class BadIdentity extends AgentError {}
export class NotTrusted extends AgentError {}
export class Unacceptable extends AgentError {}
export class FolderLost extends AgentError {}
export class LimitExceeded extends AgentError {}
export class LedgerBroken extends AgentError {}
export class NotDue extends AgentError {}
export class Tampered extends AgentError {}
export class Reused extends AgentError {}
export class OutOfRange extends AgentError {}
export class Lost extends AgentError {}

/** `code` is stable, `status` the name of the gRPC status. */
export class Refused extends AgentError {
  constructor(
    readonly status: string,
    readonly code: string,
    detail: string,
  ) {
    super(code ? `${code}: ${detail}` : detail);
  }
}
