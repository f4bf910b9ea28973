-- Accepting a job: idempotency, reservation, job, queue entry and first event in one statement, hence in one round trip
-- and one transaction. It runs with the caller's rights, adds none, and so needs no search path of its own.

CREATE OR REPLACE FUNCTION submit_job(
  _tenant text, _principal text, _key text, _digest bytea, _job text, _dataset text, _kind text, _problem jsonb,
  _plan jsonb, _seed bigint, _total integer, _accounts text[], _price jsonb, _events text, _queue text, _task text,
  _channel text, _session text, _terms jsonb, _budget jsonb,
  OUT outcome text, OUT job_id text, OUT created_at timestamptz, OUT tag integer, OUT standings jsonb
)
LANGUAGE plpgsql AS $$
-- outcome, and what was written:
--   in_flight      another request holds this idempotency key now; nothing
--   known          the same request was accepted before, as job_id; nothing
--   reused         the key was used with another request; nothing
--   dataset_gone   nothing
--   refused        standings: each account as it stands, with the cap that does not let the price pass; nothing
--   accepted       everything
-- _accounts are those of the data (none: the data are public, and nothing is charged); caps on the tenant and on the
-- principal are added here, so that no caller can forget them.
-- With _session the job is federated: it waits for its agents instead of a worker. Nothing is reserved yet: the accounts are
-- those of the agents, who are known when the owner has signed the roster.
DECLARE
  known idempotent_requests;
BEGIN
  PERFORM set_config('discreet.tenant', _tenant, true);
  IF NOT pg_try_advisory_xact_lock(hashtextextended(_tenant || '/' || _principal || '/' || _key, 0)) THEN
    outcome := 'in_flight';
    RETURN;
  END IF;
  SELECT * INTO known FROM idempotent_requests AS r
    WHERE r.tenant_id = _tenant AND r.principal = _principal AND r.key = _key;
  IF FOUND THEN
    outcome := CASE WHEN known.request_digest = _digest THEN 'known' ELSE 'reused' END;
    job_id := known.job_id;
    RETURN;
  END IF;
  IF _dataset IS NOT NULL THEN
    -- Shared, so that the dataset cannot be erased before this transaction ends.
    PERFORM FROM datasets AS d WHERE d.id = _dataset AND d.tenant_id = _tenant AND d.deleted_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
      outcome := 'dataset_gone';
      RETURN;
    END IF;
  END IF;
  IF cardinality(_accounts) > 0 THEN
    SELECT jsonb_agg(to_jsonb(one)) FILTER (WHERE NOT all_admitted) INTO standings
      FROM (SELECT r.*, bool_and(r.admitted) OVER () AS all_admitted
            FROM ledger_reserve(_job, _accounts || ledger_caps(_tenant, _principal), _price, _events, _principal) AS r) AS one;
    IF standings IS NOT NULL THEN
      outcome := 'refused';
      RETURN;
    END IF;
  END IF;
  tag := fair_tag(_tenant);
  INSERT INTO jobs (id, tenant_id, dataset_id, principal, kind, problem, plan, price, seed, total, fair_tag)
    VALUES (_job, _tenant, _dataset, _principal, _kind, _problem, _plan, _price, _seed, _total, tag)
    RETURNING jobs.created_at INTO submit_job.created_at;
  INSERT INTO idempotent_requests (tenant_id, principal, key, request_digest, job_id)
    VALUES (_tenant, _principal, _key, _digest, _job);
  INSERT INTO job_events (job_id, seq, event, data) VALUES (_job, 1, 'state', '{"state": "queued"}');
  IF _session IS NULL THEN
    PERFORM procrastinate_defer_jobs_v1(ARRAY[
      ROW(_queue, _task, -tag, NULL, _job, jsonb_build_object('job_id', _job), NULL)]::procrastinate_job_to_defer_v1[]);
  ELSE
    INSERT INTO sessions (job_id, id, tenant_id, terms, budget) VALUES (_job, _session, _tenant, _terms, _budget);
    UPDATE jobs SET state = 'awaiting_agents' WHERE id = _job;
    INSERT INTO job_events (job_id, seq, event, data) VALUES (_job, 2, 'state', '{"state": "awaiting_agents"}');
  END IF;
  PERFORM pg_notify(_channel, _job);
  outcome := 'accepted';
  job_id := _job;
END
$$;
REVOKE ALL ON FUNCTION submit_job(text, text, text, bytea, text, text, text, jsonb, jsonb, bigint, integer, text[], jsonb,
  text, text, text, text, text, jsonb, jsonb) FROM PUBLIC;
