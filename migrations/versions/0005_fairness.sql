-- Whose turn it is: start-time fair queueing (Goyal, Vin, Cheng 1996) over tenants, with jobs of equal cost.

CREATE OR REPLACE FUNCTION fair_tag(_tenant text) RETURNS integer
LANGUAGE plpgsql SET enable_sort = off AS $$
-- The start tag of a tenant's next job: one more than that of the tenant's last, but at least the virtual time. Small tags
-- run first. The virtual time is the largest tag that has been started: it only grows, whatever long jobs still run, so that
-- nobody who comes is served before those who have waited. A tenant's last is the last that has been, or waits to be, started:
-- jobs that were cancelled before have cost nobody a turn. It looks at the tags of all tenants, in the system's scope.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  virtual_time integer;
  own integer;
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  SELECT j.fair_tag INTO virtual_time FROM jobs AS j WHERE j.started_at IS NOT NULL ORDER BY j.fair_tag DESC LIMIT 1;
  SELECT j.fair_tag INTO own FROM jobs AS j
    WHERE j.tenant_id = _tenant AND (j.started_at IS NOT NULL OR j.state = 'queued') ORDER BY j.fair_tag DESC LIMIT 1;
  PERFORM set_config('discreet.tenant', scope, true);
  RETURN greatest(coalesce(virtual_time, 0), coalesce(own, 0) + 1);
END
$$;

CREATE FUNCTION jobs_no_turn() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.fair_tag := 0;
  RETURN NEW;
END
$$;

-- A federated job waits for agents, not for a worker: it takes no turn, and its start moves no virtual time.
CREATE TRIGGER jobs_no_turn BEFORE UPDATE OF state ON jobs
  FOR EACH ROW WHEN (NEW.state = 'awaiting_agents') EXECUTE FUNCTION jobs_no_turn();
REVOKE ALL ON FUNCTION jobs_no_turn() FROM PUBLIC;
