-- Jobs that have not ended are counted as they come and go: operators ask often, of many.

-- Nobody changes a job's state between what is counted here and the triggers.
LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE;
SELECT set_config('discreet.tenant', '*', true);

-- How many jobs of a tenant and kind have not ended, by state: the rows of both add up. Whoever changes a job's state changes
-- one that nobody else is changing, so that nobody waits; where all are taken there is one more.
CREATE TABLE job_counts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text NOT NULL,
  kind text NOT NULL,
  queued integer NOT NULL DEFAULT 0,
  awaiting_agents integer NOT NULL DEFAULT 0,
  waiting integer NOT NULL DEFAULT 0,
  running integer NOT NULL DEFAULT 0,
  queued_since numeric NOT NULL DEFAULT 0
);
ALTER TABLE job_counts SET (fillfactor = 50);
CREATE INDEX job_counts_of ON job_counts (tenant_id, kind);
ALTER TABLE job_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_counts USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
COMMENT ON TABLE job_counts IS
  'How many jobs of a tenant and kind have not ended, by state: the rows of both add up. Whoever changes a job''s state changes'
  ' one that nobody else is changing, so that nobody waits; where all are taken there is one more.';
COMMENT ON COLUMN job_counts.id IS 'which';
COMMENT ON COLUMN job_counts.tenant_id IS 'whose jobs';
COMMENT ON COLUMN job_counts.kind IS 'of problem';
COMMENT ON COLUMN job_counts.queued IS 'this row''s part of the number that wait for a worker, which may be below 0, as all that follow';
COMMENT ON COLUMN job_counts.awaiting_agents IS 'of the number that wait for agents';
COMMENT ON COLUMN job_counts.waiting IS 'of the number that wait for budget';
COMMENT ON COLUMN job_counts.running IS 'of the number that run';
COMMENT ON COLUMN job_counts.queued_since IS 'of the sum of the times at which those were accepted that wait for a worker, in seconds since 1970';
INSERT INTO job_counts (tenant_id, kind, queued, awaiting_agents, waiting, running, queued_since)
  SELECT tenant_id, kind, count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'awaiting_agents'),
    count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'running'),
    coalesce(sum(extract(epoch FROM created_at)) FILTER (WHERE state = 'queued'), 0)
  FROM jobs WHERE state IN ('queued', 'awaiting_agents', 'waiting', 'running') GROUP BY tenant_id, kind;

CREATE FUNCTION jobs_count() RETURNS trigger
LANGUAGE plpgsql AS $$
-- A job came, or went from one state to another. A row that another transaction has is passed over: to wait for it here, with
-- accounts locked, could be to wait in a circle.
DECLARE
  before text := CASE TG_OP WHEN 'UPDATE' THEN OLD.state END;
  queue integer := (NEW.state = 'queued')::integer - coalesce((before = 'queued')::integer, 0);
  agents integer := (NEW.state = 'awaiting_agents')::integer - coalesce((before = 'awaiting_agents')::integer, 0);
  budget integer := (NEW.state = 'waiting')::integer - coalesce((before = 'waiting')::integer, 0);
  work integer := (NEW.state = 'running')::integer - coalesce((before = 'running')::integer, 0);
  since numeric := CASE queue WHEN 0 THEN 0 ELSE queue * extract(epoch FROM NEW.created_at) END;
BEGIN
  UPDATE job_counts AS c SET queued = c.queued + queue, awaiting_agents = c.awaiting_agents + agents,
      waiting = c.waiting + budget, running = c.running + work, queued_since = c.queued_since + since
    WHERE c.id = (SELECT free.id FROM job_counts AS free WHERE free.tenant_id = NEW.tenant_id AND free.kind = NEW.kind
      LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED);
  IF NOT FOUND THEN
    INSERT INTO job_counts (tenant_id, kind, queued, awaiting_agents, waiting, running, queued_since)
      VALUES (NEW.tenant_id, NEW.kind, queue, agents, budget, work, since);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER jobs_count_new AFTER INSERT ON jobs
  FOR EACH ROW WHEN (NEW.state IN ('queued', 'awaiting_agents', 'waiting', 'running')) EXECUTE FUNCTION jobs_count();
CREATE TRIGGER jobs_count_changed AFTER UPDATE OF state ON jobs
  FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION jobs_count();

CREATE FUNCTION oldest_queued(_tenant text) RETURNS timestamptz
LANGUAGE sql STABLE SET enable_sort = off AS $$
-- When the job of a tenant was accepted that has waited longest for a worker; null if none waits.
SELECT j.created_at FROM jobs AS j WHERE j.tenant_id = _tenant AND j.state = 'queued' ORDER BY j.created_at LIMIT 1
$$;

CREATE FUNCTION leases_over() RETURNS bigint
LANGUAGE sql STABLE SET enable_sort = off AS $$
-- How many jobs run whose lease is over: by the index of leases, whose order is asked for, not by that of all active jobs.
SELECT count(*) FROM (
  SELECT FROM jobs AS j WHERE j.state = 'running' AND j.lease_until < now() ORDER BY j.lease_until) AS over
$$;

REVOKE ALL ON FUNCTION jobs_count(), oldest_queued(text), leases_over() FROM PUBLIC;
