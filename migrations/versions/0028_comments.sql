-- What tables and columns are, in standard terms, as migrations/current explained them when this was applied.

COMMENT ON COLUMN tenants.name IS 'its name for operators';
COMMENT ON COLUMN keys.id IS 'names the key in lists and in requests to revoke it; reveals nothing about the key';
COMMENT ON COLUMN keys.expires_at IS 'when it expires; null: never';
COMMENT ON COLUMN keys.revoked_at IS 'when it was revoked; null: it was not';
COMMENT ON COLUMN keys.last_used_at IS 'when a process last took requests of its quota, so late by at most one window';
COMMENT ON TABLE identities IS
  'A person of an identity provider in one tenant. Each of their tokens decides anew what they may do.';
COMMENT ON COLUMN identities.tenant_id IS 'the tenant in which they have a role';
COMMENT ON COLUMN identities.subject IS 'the provider''s identifier for them, which never changes and is never reused';
COMMENT ON COLUMN identities.name IS 'their display name in the newest token; null: it had none';
COMMENT ON COLUMN identities.role IS 'the role that the newest token gave; nothing is decided by it';
COMMENT ON COLUMN identities.created_at IS 'when they first logged in';
COMMENT ON COLUMN identities.last_used_at IS
  'when a process last took requests of their quota, so late by at most one window';
COMMENT ON COLUMN identities.ended_at IS
  'logins and tokens that the provider made up to then are no longer valid; null: all are';
COMMENT ON COLUMN identities.removed_at IS 'when they were removed; null: they were not';
COMMENT ON COLUMN identities.everywhere IS 'an operator has removed them from all tenants, including future ones';
COMMENT ON COLUMN web_sessions.expires_at IS 'when the cookie expires';
COMMENT ON COLUMN web_sessions.identity_id IS
  'the person who logged in through an identity provider; null: a key was used';
COMMENT ON COLUMN web_sessions.role IS 'the role from the person''s ID token; null: the key has it';
COMMENT ON COLUMN web_sessions.sid IS 'the provider''s identifier of its own session; null: none was given';
COMMENT ON COLUMN login_links.expires_at IS 'when it expires';
COMMENT ON COLUMN accounts.id IS 'identifies the account; lines of the ledger name it';
COMMENT ON COLUMN accounts.scope IS
  'what is protected or capped: a dataset''s data, a tenant, a principal, an agent''s data, or a source''s chain of blocks';
COMMENT ON COLUMN accounts.subject IS
  'whose it is within the scope: an account of data, a tenant, a principal''s name, a key''s fingerprint';
COMMENT ON TABLE ledger_entries IS
  'One line of an account''s hash chain. The last line of an account is its whole state: there is no mutable balance.';
COMMENT ON COLUMN ledger_entries.account_id IS
  'whose chain it is; who writes a line holds a lock on the account''s row, and no account is ever deleted';
COMMENT ON TABLE budget_requests IS
  'A request to an owner to raise a cap. No ledger changes before an owner grants it.';
COMMENT ON COLUMN budget_requests.account_id IS 'the account whose cap should be raised';
COMMENT ON COLUMN budget_requests.reason IS 'why; the reason of a grant that answers it repeats this';
COMMENT ON COLUMN budget_requests.answer IS 'the owner''s answer; null: none yet';
COMMENT ON TABLE sources IS
  'A source: data that keep arriving, in blocks, each of which is a dataset. Its row never changes.';
COMMENT ON COLUMN sources.name IS 'its owner''s name for it, unique in the tenant';
COMMENT ON COLUMN sources.kind IS 'kind of problem, the same for all its blocks';
COMMENT ON COLUMN sources.mode IS 'private or simulation, the same for all its blocks';
COMMENT ON COLUMN sources.block_by IS
  'which records a block has: those of a day, of a month, or those to which the owner gives its label';
COMMENT ON COLUMN sources.cap IS 'the cap (epsilon and delta) that a new account begins with';
COMMENT ON COLUMN sources.block_bytes IS
  'the most memory that the content of a block takes; public, so that plans can use it';
COMMENT ON COLUMN sources.retention_days IS
  'the content of a version is erased after so many days; null: only on request';
COMMENT ON TABLE datasets IS
  'A registered dataset. Its content is stored sealed, in chunks or in an object, and is recognised by a keyed digest.';
COMMENT ON COLUMN datasets.name IS 'its owner''s name for it';
COMMENT ON COLUMN datasets.public IS 'the public part of the dataset, which anybody may know';
COMMENT ON COLUMN datasets.sealed_bytes IS 'the length of the sealed content in bytes; null: registered by schema 0001';
COMMENT ON COLUMN datasets.expires_at IS 'when the content is erased; null: only on request';
COMMENT ON COLUMN datasets.deleted_at IS 'when its content was erased; null: it exists';
COMMENT ON COLUMN datasets.block IS
  'the block''s name in its source: a day, a month or a label; null: it is not a block';
COMMENT ON COLUMN datasets.version IS
  'which version of its block it is, from 1: a later one adds late records; null: it is not a block';
COMMENT ON COLUMN public_objects.type IS 'its type, such as network';
COMMENT ON COLUMN public_objects.name IS 'the name that its first sender gave it';
COMMENT ON COLUMN public_objects.sizes IS 'figures of its content that lists show';
COMMENT ON TABLE jobs IS 'A job: what was requested, what it will do, and its state.';
COMMENT ON COLUMN jobs.problem IS 'the problem to solve, as it was requested';
COMMENT ON COLUMN jobs.traceparent IS 'the trace context of the request (W3C Trace Context); null: none';
COMMENT ON COLUMN jobs.state IS 'its state';
COMMENT ON COLUMN jobs.attempt IS 'the fencing token: it grows by one each time that a process takes the job';
COMMENT ON COLUMN jobs.failures IS 'attempts that failed without a result; a job with too many is not tried again';
COMMENT ON COLUMN jobs.lease_until IS 'when the lease of the worker that has the job ends; null: no worker has it';
COMMENT ON COLUMN jobs.cancel_requested IS 'the process that runs it must stop';
COMMENT ON COLUMN jobs.error_code IS 'why it failed, as a stable code; null: it did not fail';
COMMENT ON COLUMN jobs.released_by IS
  'the jobs whose releases it reuses, free of charge; null: it makes its own release';
COMMENT ON COLUMN jobs.name IS 'the name that its sender gave it; null: none';
COMMENT ON COLUMN jobs.mostly_noise IS 'its result says that it is mostly noise';
COMMENT ON COLUMN jobs.headline IS
  'the answer of its result, in a sentence; null: none, from before schema 0012, or deleted with the result';
COMMENT ON COLUMN jobs.result_gone_at IS
  'when its result, release and events were deleted by retention; null: they were not';
COMMENT ON TABLE job_objects IS 'A public object that a job names, which cannot be deleted while the job exists.';
COMMENT ON TABLE job_events IS
  'The events of a job''s stream, in order. Rows are added and never changed; retention deletes all but the last.';
COMMENT ON COLUMN job_events.event IS 'its type: state or progress';
COMMENT ON TABLE releases IS
  'What a job''s mechanisms released, written before anything is computed from it, so that data are touched once, and kept as long as the job''s result, so that it can answer other questions.';
COMMENT ON COLUMN releases.job_id IS 'whose release; the row is deleted when the job fails or is cancelled';
COMMENT ON COLUMN releases.wrapped_key IS
  'the release''s own key, bound to terms; null: the release of a session, or from before schema 0009';
COMMENT ON COLUMN releases.terms IS
  'SHA-256 of what was accepted: tenant, problem, plan, price, dataset with public part; null: as for wrapped_key';
COMMENT ON COLUMN releases.digest IS
  'SHA-256 of what was released, which certificates name; null: the row is deleted when the job ends';
COMMENT ON COLUMN job_results.result IS 'JSON text, as the API returns it; null: deleted by retention';
COMMENT ON TABLE idempotent_requests IS
  'An accepted request by its Idempotency-Key: the same request with the same key gets the same job again.';
COMMENT ON COLUMN idempotent_requests.created_at IS 'when the time starts for which the key is kept';
COMMENT ON COLUMN sessions.id IS 'its id for agents';
COMMENT ON COLUMN sessions.owner IS
  'fingerprint of the key that must sign the roster; null: no enrolment links exist yet';
COMMENT ON COLUMN sessions.approved_at IS 'when the roster was accepted';
COMMENT ON COLUMN sessions.lease_until IS 'when the holder''s lease ends; null: nobody has it';
COMMENT ON COLUMN sessions.wanted IS
  'a process to which agents have connected and that asks the holder for the session; null: none';
COMMENT ON COLUMN sessions.round IS 'number of steps that led to the stored state';
COMMENT ON COLUMN sessions.transcript IS 'the hash of all rounds so far, which agents compare';
COMMENT ON COLUMN session_tokens.job_id IS 'the session that it admits to';
COMMENT ON COLUMN session_tokens.expires_at IS 'when it expires';
COMMENT ON TABLE webhooks IS 'An address to which events are sent.';
COMMENT ON COLUMN webhooks.failing_since IS 'since when no message was delivered; null: the last one was';
COMMENT ON COLUMN webhooks.last_error IS 'why the last message was not delivered';
COMMENT ON COLUMN webhooks.disabled_at IS 'since when nothing is sent to it; null: it is enabled';
COMMENT ON COLUMN webhook_deliveries.webhook_id IS 'the webhook that it is sent to';
COMMENT ON COLUMN webhook_deliveries.subject IS
  'the job or account that it is about, so that the same is not sent twice in a short time';
COMMENT ON COLUMN webhook_deliveries.delivered_at IS 'when its server accepted it; null: not yet';
COMMENT ON COLUMN log_pending.id IS 'the order of entries';
COMMENT ON TABLE log_checkpoints IS 'Signed checkpoints of the tree, which anybody may read.';
COMMENT ON COLUMN log_checkpoints.size IS 'the number of leaves that the tree had';
COMMENT ON TABLE log_origin IS 'The name of the log, which never changes: the first line of every checkpoint. One row.';
COMMENT ON TABLE audit_log IS
  'A change of anything but the ledger, which names its own actors. Rows are never altered or deleted.';
COMMENT ON COLUMN audit_log.id IS 'later entries have larger numbers; numbers may be missing';
COMMENT ON COLUMN audit_log.principal IS 'who made the change, by their name in budgets and the ledger';
COMMENT ON COLUMN audit_log.credential IS 'the key that was used, or the person (the id of their row)';
COMMENT ON COLUMN audit_log.issuer IS 'the identity provider of a person; null for a key';
COMMENT ON COLUMN audit_log.subject IS 'the provider''s identifier for a person; null for a key';
COMMENT ON TABLE processes IS
  'A process of the service: it makes its row when it starts, reports every ten seconds that it lives, and removes it when it is told to end. Rows that stopped are of processes that were killed; a day later any other removes them.';
COMMENT ON COLUMN processes.part IS 'its part: api, rpc or worker';
COMMENT ON COLUMN processes.schema IS 'the schema that its code expects';
COMMENT ON COLUMN processes.places IS 'how many jobs a worker can run at once';
COMMENT ON COLUMN processes.queue_worker IS 'a worker''s number in procrastinate_workers; null: it takes no jobs yet';
COMMENT ON COLUMN processes.isolation IS
  'isolation of its children, as tested by one of them; null: none was started yet';
COMMENT ON COLUMN processes.reached IS 'what that child reached but should not have; null with the above';
COMMENT ON COLUMN processes.walls IS 'the walls that held; null with the above';
COMMENT ON TABLE backups IS
  'A backup that was reported, as `discreet backup` does. The row is not in that backup itself.';
COMMENT ON COLUMN backups.made_at IS 'the time of the state that it holds';
COMMENT ON COLUMN backups.made_with IS
  '`discreet`: `discreet backup` wrote it; `other`: it was reported with `discreet note-backup`';
COMMENT ON TABLE source_rules IS
  'Who may spend which share of each block of a source. The newest version applies; rows are added and never changed.';
COMMENT ON COLUMN source_rules.lent_days IS
  'the unused part of a block is lent to all, linearly over so many days from its first version on';
COMMENT ON COLUMN source_rules.created_by IS 'the principal who set it';
COMMENT ON TABLE source_uses IS
  'What each principal has spent or reserved on a block, so that shares can be enforced. Only the ledger admits jobs; this table does not.';
COMMENT ON COLUMN source_uses.principal IS 'who sent the jobs';
COMMENT ON COLUMN source_uses.tenant_id IS 'the tenant of all of them';
COMMENT ON COLUMN job_waits.place IS 'its place among waiting jobs, which never changes: small ones first';
COMMENT ON COLUMN job_waits.until IS 'when its wait ends: it is decided by then';
COMMENT ON COLUMN job_waits.next_try IS 'when shares suffice for it, if no budget is freed before: it is decided then';
COMMENT ON COLUMN job_waits.block IS 'the last block to allow it';
COMMENT ON TABLE source_wakes IS
  'Budget was freed on a source: its waiting jobs are to be decided. Rows are only added, so that nobody who adds one waits for a decision.';
