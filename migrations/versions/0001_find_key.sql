-- Who holds a key is asked before any tenant is known.
CREATE OR REPLACE FUNCTION find_key(_lookup text) RETURNS TABLE (tenant_id text, principal text, role text, id text, mac bytea)
LANGUAGE plpgsql AS $$
DECLARE
  scope text := current_setting('discreet.tenant', true);
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  RETURN QUERY
    SELECT k.tenant_id, k.principal, k.role, k.id, k.mac FROM keys AS k
    WHERE k.lookup = _lookup AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());
  PERFORM set_config('discreet.tenant', scope, true);
END
$$;
REVOKE ALL ON FUNCTION find_key(text) FROM PUBLIC;
