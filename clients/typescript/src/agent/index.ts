/**
 * An agent of federated sessions, for Node: multi-agent coordination, and coupled quadratic programs with scheme `masking`.
 * It implements docs/protocol.md; the README lists what it does not support.
 */

export { Agent, type AgentOptions } from "./agent.js";
export type { Tls } from "./connection.js";
export { type Optimum, type Part, solve } from "./coupledQp.js";
export { type Demands, demandsOf } from "./demands.js";
export type { Charge, Price, Roster } from "./documents.js";
export * from "./errors.js";
export { Identity } from "./identity.js";
export { type Entry, Ledger, unitsOf } from "./ledger.js";
export { type Link, parseLink } from "./link.js";
export { type Minimum, minimize } from "./multiAgent.js";
export type { Envelope } from "./receipts.js";
export type { Outcome, Round, Step } from "./rounds.js";
export type { QuadraticCost } from "./spds.js";
