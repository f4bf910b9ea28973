/** Client of the discreet service. */

export { canonical, requireResult, requireTable } from "./certificates.js";
export { createDiscreet, type Discreet, type Asking, type DiscreetOptions, type Networks, type RehearsalOptions, type SolveOptions, type Spending } from "./client.js";
export * from "./errors.js";
export { EventParser, type JobEvent, type State } from "./events.js";
export { intervalOf, isMostlyNoise, type Interval } from "./intervals.js";
export type * from "./kinds.js";
export type { Ends, Label, Row, RowsOptions } from "./rows.js";
export type { components, paths } from "./schema.js";
export type { DatasetAbout, FileContent, LookAbout } from "./uploads.js";
export { verifyWebhook, WebhookRefused, type WebhookOptions } from "./webhooks.js";
