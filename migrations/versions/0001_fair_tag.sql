CREATE OR REPLACE FUNCTION fair_tag(_tenant text) RETURNS integer
LANGUAGE plpgsql SET enable_sort = off AS $$
-- The start tag of a tenant's next job in start-time fair queueing (Goyal, Vin, Cheng 1996) with jobs of equal cost: one more
-- than the tenant's last, but at least the virtual time, which is the smallest tag that is active, or the last of all when none
-- is. Small tags run first. It looks at the tags of all tenants, in the system's scope.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  virtual_time integer;
  own integer;
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  SELECT j.fair_tag INTO virtual_time FROM jobs AS j WHERE j.state IN ('queued', 'running') ORDER BY j.fair_tag LIMIT 1;
  IF NOT FOUND THEN
    SELECT j.fair_tag INTO virtual_time FROM jobs AS j ORDER BY j.fair_tag DESC LIMIT 1;
  END IF;
  SELECT j.fair_tag INTO own FROM jobs AS j WHERE j.tenant_id = _tenant ORDER BY j.fair_tag DESC LIMIT 1;
  PERFORM set_config('discreet.tenant', scope, true);
  RETURN greatest(coalesce(virtual_time, 0), coalesce(own, 0) + 1);
END
$$;
REVOKE ALL ON FUNCTION fair_tag(text) FROM PUBLIC;
