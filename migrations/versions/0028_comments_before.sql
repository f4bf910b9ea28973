-- The same comments as they were before.

COMMENT ON COLUMN tenants.name IS 'what operators call it';
COMMENT ON COLUMN keys.id IS 'names the key in lists and in requests to revoke it; tells nothing of the key';
COMMENT ON COLUMN keys.expires_at IS 'when it ends by itself; null: never';
COMMENT ON COLUMN keys.revoked_at IS 'since when it is refused; null: it is not';
COMMENT ON COLUMN keys.last_used_at IS 'when a process last asked for requests of it, so late by at most one window';
COMMENT ON TABLE identities IS
  'A person of an identity provider in one tenant. What they may do is said by each of their tokens anew.';
COMMENT ON COLUMN identities.tenant_id IS 'where they have a role';
COMMENT ON COLUMN identities.subject IS 'what it calls them, for ever and nobody else';
COMMENT ON COLUMN identities.name IS 'what people call them, as the newest token said; null: it did not';
COMMENT ON COLUMN identities.role IS 'what the newest token gave; nothing is decided by it';
COMMENT ON COLUMN identities.created_at IS 'when they first came';
COMMENT ON COLUMN identities.last_used_at IS
  'when a process last asked for requests of them, so late by at most one window';
COMMENT ON COLUMN identities.ended_at IS
  'logins and tokens that the provider made up to then count no more; null: all count';
COMMENT ON COLUMN identities.removed_at IS 'since when they are refused; null: they are not';
COMMENT ON COLUMN identities.everywhere IS 'an operator has removed them: from all tenants, and those to come';
COMMENT ON COLUMN web_sessions.expires_at IS 'when the cookie counts no more';
COMMENT ON COLUMN web_sessions.identity_id IS 'the person who logged in by an identity provider; null: a key did';
COMMENT ON COLUMN web_sessions.role IS 'what the person''s ID token gave them; null: the key says it';
COMMENT ON COLUMN web_sessions.sid IS 'what the provider calls its own session; null: it does not say';
COMMENT ON COLUMN login_links.expires_at IS 'when it counts no more';
COMMENT ON COLUMN accounts.id IS 'identifies the account; the ledger''s lines name it';
COMMENT ON COLUMN accounts.scope IS
  'what is protected or capped: data of a dataset, all of a tenant, a principal, an agent; source: a chain of blocks';
COMMENT ON COLUMN accounts.subject IS
  'which one of them: an account of data, a tenant, a principal''s name, a key''s fingerprint';
COMMENT ON TABLE ledger_entries IS
  'One line of an account''s hash chain. The last line of an account is its whole state: no mutable balance exists.';
COMMENT ON COLUMN ledger_entries.account_id IS
  'whose chain it is; whoever writes holds the account''s row, and no account is ever deleted';
COMMENT ON TABLE budget_requests IS 'Somebody asks an owner to raise a cap. No ledger changes before a grant answers.';
COMMENT ON COLUMN budget_requests.account_id IS 'the account whose cap shall be raised';
COMMENT ON COLUMN budget_requests.reason IS 'why; the reason of a grant that answers it repeats that';
COMMENT ON COLUMN budget_requests.answer IS 'what that owner said; null: nobody yet';
COMMENT ON TABLE sources IS
  'A source: data that keep coming, in blocks of which each is a dataset. What it says of its blocks never changes.';
COMMENT ON COLUMN sources.name IS 'what its owner calls it; no other source of the tenant is called so';
COMMENT ON COLUMN sources.kind IS 'of problem, as of all its blocks';
COMMENT ON COLUMN sources.mode IS 'private or simulation, as of all its blocks';
COMMENT ON COLUMN sources.block_by IS
  'which records a block has: those of a day, of a month, or what the owner calls by its label';
COMMENT ON COLUMN sources.cap IS 'epsilon and delta, as of a cap of the ledger, that a new account begins with';
COMMENT ON COLUMN sources.block_bytes IS
  'the most that the content of a block takes in memory; public, so that jobs go by it';
COMMENT ON COLUMN sources.retention_days IS
  'the content of a version is erased after so many days; null: when somebody deletes it';
COMMENT ON TABLE datasets IS
  'A registered dataset. Its content lies sealed in chunks or in an object, and is known by a keyed digest.';
COMMENT ON COLUMN datasets.name IS 'what its owner calls it';
COMMENT ON COLUMN datasets.public IS 'the part of the dataset that anybody may know';
COMMENT ON COLUMN datasets.sealed_bytes IS 'how long the sealed content is; null: registered by schema 0001';
COMMENT ON COLUMN datasets.expires_at IS 'when the content is erased; null: when somebody deletes it';
COMMENT ON COLUMN datasets.deleted_at IS 'since when its content is erased; null: it is there';
COMMENT ON COLUMN datasets.block IS 'the block''s name in its source: a day, a month or a label; null: it is no block';
COMMENT ON COLUMN datasets.version IS
  'which version of its block it is, from 1: a later one has late records; null: it is no block';
COMMENT ON COLUMN public_objects.type IS 'what it is, in a word: network';
COMMENT ON COLUMN public_objects.name IS 'what who stored it first calls it';
COMMENT ON COLUMN public_objects.sizes IS 'what lists say of it: figures of its content';
COMMENT ON TABLE jobs IS 'A job: what was asked, what it will do, and how far it is.';
COMMENT ON COLUMN jobs.problem IS 'what is to be solved, as it was asked';
COMMENT ON COLUMN jobs.traceparent IS 'the trace that the request came with (W3C Trace Context); null: none';
COMMENT ON COLUMN jobs.state IS 'how far it is';
COMMENT ON COLUMN jobs.attempt IS 'the fencing token: one more each time that somebody takes the job';
COMMENT ON COLUMN jobs.failures IS 'attempts that ended without a result and are not to be repeated for ever';
COMMENT ON COLUMN jobs.lease_until IS 'until when the worker that has the job is left alone; null: nobody has it';
COMMENT ON COLUMN jobs.cancel_requested IS 'whoever runs it shall stop';
COMMENT ON COLUMN jobs.error_code IS 'why it failed, as a stable word; null: it did not';
COMMENT ON COLUMN jobs.released_by IS
  'the jobs whose releases it finishes again, for nothing; null: it releases for itself';
COMMENT ON COLUMN jobs.name IS 'what who asked calls it; null: nothing';
COMMENT ON COLUMN jobs.mostly_noise IS 'its result says of itself that it is';
COMMENT ON COLUMN jobs.headline IS
  'what its result answers, in a sentence; null: nothing, from before schema 0012, or gone with the result';
COMMENT ON COLUMN jobs.result_gone_at IS 'when its result, release and events went, by retention; null: they have not';
COMMENT ON TABLE job_objects IS 'A public object that a job names, and that stays as long as the job.';
COMMENT ON TABLE job_events IS
  'What the event stream of a job tells, in order. Rows are added and never changed; long after the end the last is left.';
COMMENT ON COLUMN job_events.event IS 'what it tells: state or progress';
COMMENT ON TABLE releases IS
  'What a job''s mechanisms released, written before anything is made of it, so that data are touched once, and kept as long as the job''s result, so that other questions can be asked of it.';
COMMENT ON COLUMN releases.job_id IS 'whose release; the row goes when the job fails or is cancelled';
COMMENT ON COLUMN releases.wrapped_key IS
  'the release''s own key, bound to terms; null: a session''s, or of before schema 0009';
COMMENT ON COLUMN releases.terms IS
  'SHA-256 of what was accepted: tenant, problem, plan, price, dataset with public part; null: as there';
COMMENT ON COLUMN releases.digest IS
  'SHA-256 of what was released, which certificates name; null: the row goes with the end of the job';
COMMENT ON COLUMN job_results.result IS 'JSON text, as it is answered; null: it went, by retention';
COMMENT ON TABLE idempotent_requests IS
  'An accepted request by its Idempotency-Key: the same key answers the same job again.';
COMMENT ON COLUMN idempotent_requests.created_at IS 'from when on its promised time runs';
COMMENT ON COLUMN sessions.id IS 'what agents call it';
COMMENT ON COLUMN sessions.owner IS
  'fingerprint of the key that shall sign the roster; null: no enrolment links were made yet';
COMMENT ON COLUMN sessions.approved_at IS 'when the roster was taken';
COMMENT ON COLUMN sessions.lease_until IS 'until when it is left alone; null: nobody has it';
COMMENT ON COLUMN sessions.wanted IS
  'a process that agents have come to and that asks the holder for the session; null: none';
COMMENT ON COLUMN sessions.round IS 'how many steps the kept state is behind';
COMMENT ON COLUMN sessions.transcript IS 'the hash over all rounds so far, which agents compare';
COMMENT ON COLUMN session_tokens.job_id IS 'the session that it lets into';
COMMENT ON COLUMN session_tokens.expires_at IS 'when it counts no more';
COMMENT ON TABLE webhooks IS 'An address that is told of events.';
COMMENT ON COLUMN webhooks.failing_since IS 'since when no message came through; null: the last one did';
COMMENT ON COLUMN webhooks.last_error IS 'why the last message did not come through';
COMMENT ON COLUMN webhooks.disabled_at IS 'since when it is told nothing any more; null: it is';
COMMENT ON COLUMN webhook_deliveries.webhook_id IS 'who is told';
COMMENT ON COLUMN webhook_deliveries.subject IS
  'to which job or account, so that the same is not told twice in a short time';
COMMENT ON COLUMN webhook_deliveries.delivered_at IS 'when its server took it; null: not yet';
COMMENT ON COLUMN log_pending.id IS 'who comes first';
COMMENT ON TABLE log_checkpoints IS 'What was signed of the tree, each a text that anybody may have.';
COMMENT ON COLUMN log_checkpoints.size IS 'how many leaves the tree had';
COMMENT ON TABLE log_origin IS 'What the log is called, for ever: the first line of every checkpoint. One row.';
COMMENT ON TABLE audit_log IS
  'A change of anything but the ledger, which names its own actors: who made it. Rows are never altered or deleted.';
COMMENT ON COLUMN audit_log.id IS 'who comes later has a larger number; numbers may be missing';
COMMENT ON COLUMN audit_log.principal IS 'by whom: the name that budgets and the ledger call them';
COMMENT ON COLUMN audit_log.credential IS 'by which key, or as which person (the id of their row)';
COMMENT ON COLUMN audit_log.issuer IS 'of a person: the identity provider; null: a key';
COMMENT ON COLUMN audit_log.subject IS 'of a person: what it calls them; null: a key';
COMMENT ON TABLE processes IS
  'A process of the service: it makes its row when it starts, says every ten seconds that it lives, and removes it when it is told to end. Rows that stopped are of processes that were killed; a day later any other removes them.';
COMMENT ON COLUMN processes.part IS 'what it does';
COMMENT ON COLUMN processes.schema IS 'the schema that its code knows';
COMMENT ON COLUMN processes.places IS 'of a worker, how many jobs it runs at once';
COMMENT ON COLUMN processes.queue_worker IS
  'of a worker, its number in procrastinate_workers; null: it takes nothing yet';
COMMENT ON COLUMN processes.isolation IS
  'how well its children are shut in, as one of them tried; null: none was started yet';
COMMENT ON COLUMN processes.reached IS 'what that child reached and should not; null with the above';
COMMENT ON COLUMN processes.walls IS 'the walls that stood around it; null with the above';
COMMENT ON TABLE backups IS
  'A backup that was made, as far as anybody has said so: `discreet backup` does. It is not in that backup itself.';
COMMENT ON COLUMN backups.made_at IS 'the time whose state it holds';
COMMENT ON COLUMN backups.made_with IS
  '`discreet`: `discreet backup` wrote it; `other`: somebody said so, it knows no more';
COMMENT ON TABLE source_rules IS
  'Who may spend which share of each block of a source. The newest version counts; rows are added and never changed.';
COMMENT ON COLUMN source_rules.lent_days IS
  'what of a block is unused is lent to all, linearly over so many days from its first version on';
COMMENT ON COLUMN source_rules.created_by IS 'the principal who said so';
COMMENT ON TABLE source_uses IS
  'What each principal has spent or reserved on a block, so that shares can be held. The ledger has the last word: this admits nothing.';
COMMENT ON COLUMN source_uses.principal IS 'who asked for the jobs';
COMMENT ON COLUMN source_uses.tenant_id IS 'whose all of them are';
COMMENT ON COLUMN job_waits.place IS 'its place in the order of those who wait, which never changes: small ones first';
COMMENT ON COLUMN job_waits.until IS 'when its wait is over: it is decided by then';
COMMENT ON COLUMN job_waits.next_try IS 'when shares let it pass, if nothing comes free before: it is decided then';
COMMENT ON COLUMN job_waits.block IS 'the block that lets it pass last';
COMMENT ON TABLE source_wakes IS
  'Budget came free on a source: who waits is to be decided. Rows are only added, so that nobody who adds one waits for a decision.';
