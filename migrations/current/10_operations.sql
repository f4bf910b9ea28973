-- What the processes of an installation report, and which backups are known, for its operators.

-- A process of the service: it makes its row when it starts, reports every ten seconds that it lives, and removes it when it
-- is told to end. Rows that stopped are of processes that were killed; a day later any other removes them.
CREATE TABLE processes (
  id text PRIMARY KEY,  -- random, new at each start
  part text NOT NULL,  -- its part: api, rpc or worker
  host text NOT NULL,  -- the name of its machine
  version text NOT NULL,  -- which version of discreet it runs
  schema text NOT NULL,  -- the schema that its code expects
  places integer,  -- how many jobs a worker can run at once
  queue_worker bigint,  -- a worker's number in procrastinate_workers; null: it takes no jobs yet
  isolation text,  -- isolation of its children, as tested by one of them; null: none was started yet
  reached text[],  -- what that child reached but should not have; null with the above
  walls text[],  -- the walls that held; null with the above
  started_at timestamptz NOT NULL DEFAULT now(),  -- when it started
  seen_at timestamptz NOT NULL DEFAULT now(),  -- when it last said that it lives
  CONSTRAINT processes_part CHECK (part IN ('api', 'rpc', 'worker')),
  CONSTRAINT processes_isolation CHECK (isolation IN ('full', 'partial', 'none'))
);
ALTER TABLE processes ENABLE ROW LEVEL SECURITY;
ALTER TABLE processes FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON processes USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT, INSERT, UPDATE, DELETE ON processes TO discreet_app;

-- A backup that was reported, as `discreet backup` does. The row is not in that backup itself.
CREATE TABLE backups (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- which
  made_at timestamptz NOT NULL,  -- the time of the state that it holds
  made_with text NOT NULL,  -- `discreet`: `discreet backup` wrote it; `other`: it was reported with `discreet note-backup`
  schema text NOT NULL,  -- the schema of the database then
  CONSTRAINT backups_made_with CHECK (made_with IN ('discreet', 'other'))
);
ALTER TABLE backups ENABLE ROW LEVEL SECURITY;
ALTER TABLE backups FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON backups USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT, INSERT ON backups TO discreet_app;

-- How many jobs of a tenant and kind have not ended, by state: the rows of both add up. Whoever changes a job's state changes
-- one that nobody else is changing, so that nobody waits; where all are taken there is one more.
CREATE TABLE job_counts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- which
  tenant_id text NOT NULL,  -- whose jobs
  kind text NOT NULL,  -- of problem
  queued integer NOT NULL DEFAULT 0,  -- this row's part of the number that wait for a worker, which may be below 0, as all that follow
  awaiting_agents integer NOT NULL DEFAULT 0,  -- of the number that wait for agents
  waiting integer NOT NULL DEFAULT 0,  -- of the number that wait for budget
  running integer NOT NULL DEFAULT 0,  -- of the number that run
  queued_since numeric NOT NULL DEFAULT 0  -- of the sum of the times at which those were accepted that wait for a worker, in seconds since 1970
);
ALTER TABLE job_counts SET (fillfactor = 50);  -- what changes stays on its page
CREATE INDEX job_counts_of ON job_counts (tenant_id, kind);
ALTER TABLE job_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_counts USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE (queued, awaiting_agents, waiting, running, queued_since) ON job_counts TO discreet_app;

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
GRANT EXECUTE ON FUNCTION oldest_queued(text), leases_over() TO discreet_app;
