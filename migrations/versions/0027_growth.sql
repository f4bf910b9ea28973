-- What keeps the cost of a question from growing with what has been, and what forgets results in their time.

-- Kinds of lines that may be rare among many: whoever looks for them does not read the others.
CREATE INDEX ledger_entries_rare ON ledger_entries (account_id, kind, seq) WHERE kind IN ('open', 'grant', 'release');
-- Lines by time. Where the clock was set back that is not the order of the chain.
CREATE INDEX ledger_entries_time ON ledger_entries (account_id, at, seq);

-- Jobs that have not ended, among all that have.
CREATE INDEX jobs_open ON jobs (tenant_id, dataset_id) WHERE state IN ('queued', 'awaiting_agents', 'waiting', 'running');

-- What was done seldom, and by whom.
CREATE INDEX audit_log_action ON audit_log (tenant_id, action, id);
CREATE INDEX audit_log_principal ON audit_log (tenant_id, principal, id);

ALTER TABLE job_results ALTER COLUMN result DROP NOT NULL;
ALTER TABLE jobs ADD COLUMN result_gone_at timestamptz;
COMMENT ON TABLE job_events IS
  'What the event stream of a job tells, in order. Rows are added and never changed; long after the end the last is left.';
COMMENT ON COLUMN job_results.result IS 'JSON text, as it is answered; null: it went, by retention';
COMMENT ON COLUMN jobs.headline IS
  'what its result answers, in a sentence; null: nothing, from before schema 0012, or gone with the result';
COMMENT ON COLUMN jobs.result_gone_at IS 'when its result, release and events went, by retention; null: they have not';
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND result_gone_at IS NULL;

CREATE FUNCTION forget_results(_days integer, _most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- Jobs of all tenants that ended so many days ago, up to _most of them, oldest first, lose what they have made: result,
-- tables, release, a session's last message, what their page says of it, and all events but the last. Job, certificate
-- and ledger stay. One that is asked again by a job that has not ended waits for that. Returns how many jobs it was.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  old text[];
BEGIN
  IF _days IS NULL OR _days < 1 THEN
    RAISE EXCEPTION 'results are kept for a day at least' USING ERRCODE = 'DL001';
  END IF;
  PERFORM set_config('discreet.tenant', '*', true);
  old := ARRAY(
    SELECT j.id FROM jobs AS j
    WHERE j.finished_at < now() - make_interval(days => _days) AND j.result_gone_at IS NULL
      AND NOT EXISTS (SELECT FROM jobs AS again WHERE again.state IN ('queued', 'awaiting_agents', 'waiting', 'running')
        AND j.id = ANY (again.released_by))
    ORDER BY j.finished_at LIMIT _most FOR UPDATE OF j SKIP LOCKED);
  UPDATE jobs SET result_gone_at = now(), headline = NULL WHERE id = ANY (old);
  UPDATE job_results SET result = NULL WHERE job_id = ANY (old);
  DELETE FROM result_tables WHERE job_id = ANY (old);
  DELETE FROM releases WHERE job_id = ANY (old);
  UPDATE sessions SET sealed = NULL, content_key_id = NULL WHERE job_id = ANY (old);
  DELETE FROM job_events AS e WHERE e.job_id = ANY (old)
    AND e.seq < (SELECT max(last.seq) FROM job_events AS last WHERE last.job_id = e.job_id);
  PERFORM set_config('discreet.tenant', coalesce(scope, ''), true);
  RETURN cardinality(old);
END
$$;
REVOKE ALL ON FUNCTION forget_results(integer, integer) FROM PUBLIC;
