-- Turns by the time that jobs are planned to take, and a queue of their own for those that hold a worker's place for long.

CREATE FUNCTION planned_seconds(_plan jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
-- What a job's release takes, whatever the data, and what its plan says of the result: whole seconds, at least 1.
SELECT greatest(1, ceil(coalesce((_plan #>> '{resources,release_quantum_seconds}')::float8, 0)
  + coalesce((_plan #>> '{resources,result_seconds}')::float8, 0))::integer)
$$;

CREATE FUNCTION queue_of(_queue text, _plan jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
-- Jobs planned to take more than a minute have a queue of their own, from which a worker fills all places but one.
SELECT CASE WHEN planned_seconds(_plan) > 60 THEN _queue || '-long' ELSE _queue END
$$;

CREATE OR REPLACE FUNCTION fair_tag(_tenant text) RETURNS integer
LANGUAGE plpgsql SET enable_sort = off AS $$
-- The start tag of a tenant's next job: that of the tenant's last and the seconds which that is planned to take, but at
-- least the virtual time. Small tags run first. The virtual time is the largest tag that has been started: it only grows,
-- whatever long jobs still run, so that nobody who comes is served before those who have waited. A tenant's last is the last
-- that has been, or waits to be, started: jobs that were cancelled before have cost nobody a turn. It looks at the tags of
-- all tenants, in the system's scope.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  virtual_time integer;
  own integer;
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  SELECT j.fair_tag INTO virtual_time FROM jobs AS j WHERE j.started_at IS NOT NULL ORDER BY j.fair_tag DESC LIMIT 1;
  SELECT j.fair_tag + planned_seconds(j.plan) INTO own FROM jobs AS j
    WHERE j.tenant_id = _tenant AND (j.started_at IS NOT NULL OR j.state = 'queued') ORDER BY j.fair_tag DESC LIMIT 1;
  PERFORM set_config('discreet.tenant', scope, true);
  RETURN greatest(coalesce(virtual_time, 0), coalesce(own, 1));
END
$$;
REVOKE ALL ON FUNCTION planned_seconds(jsonb), queue_of(text, jsonb) FROM PUBLIC;
