-- Keys: who holds one, what it may still ask in this window of time, and news of its end. And budgets, read in one statement.

CREATE FUNCTION open_key(_lookup text)
RETURNS TABLE (tenant_id text, principal text, role text, id text, mac bytea, revoked boolean, seconds_left double precision)
LANGUAGE plpgsql AS $$
-- A key by its public part, whatever has become of it: only who shows the whole key is told that it was revoked.
-- seconds_left is null without an expiry; by this server's clock, so that no other one matters.
DECLARE
  scope text := current_setting('discreet.tenant', true);
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  RETURN QUERY
    SELECT k.tenant_id, k.principal, k.role, k.id, k.mac, k.revoked_at IS NOT NULL,
      extract(epoch FROM k.expires_at - clock_timestamp())::double precision
    FROM keys AS k WHERE k.lookup = _lookup;
  PERFORM set_config('discreet.tenant', scope, true);
END
$$;

CREATE FUNCTION take_requests(
  _key text, _seconds integer, _quota integer, _block integer,
  OUT granted integer, OUT taken integer, OUT seconds_left double precision
)
LANGUAGE plpgsql AS $$
-- Set up to _block requests of a key aside for the process that asks, in the window of _seconds that is now: all processes
-- together get _quota and no more. granted is 0 when the window is used up; taken is what all have got by now.
-- Says on the way when the key was last used. Losing the last of these rows with the machine costs nobody anything, so
-- nobody waits for the disk.
DECLARE
  now_seconds double precision := extract(epoch FROM clock_timestamp());
  this_window bigint := floor(now_seconds / _seconds);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM set_config('discreet.tenant', '*', true);
  UPDATE keys AS k
    SET used_window = this_window,
        used_requests = greatest(old.before, least(_quota, old.before + _block)),
        last_used_at = clock_timestamp()
    FROM (SELECT o.id, CASE WHEN o.used_window = this_window THEN o.used_requests ELSE 0 END AS before
          FROM keys AS o WHERE o.id = _key FOR UPDATE) AS old
    WHERE k.id = old.id
    RETURNING k.used_requests - old.before, k.used_requests INTO granted, taken;
  granted := coalesce(granted, 0);
  taken := coalesce(taken, _quota);
  seconds_left := (this_window + 1) * _seconds::double precision - now_seconds;
END
$$;

CREATE FUNCTION tell_key() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('discreet_keys', NEW.id);
  RETURN NULL;
END
$$;
CREATE TRIGGER keys_changed AFTER UPDATE OF role, principal, tenant_id, mac, expires_at, revoked_at ON keys
  FOR EACH ROW EXECUTE FUNCTION tell_key();

CREATE FUNCTION read_budgets(_tenant text, _account text)
RETURNS TABLE (id text, scope text, subject text, unit text, totals text, reserved text, cap text, datasets text)
LANGUAGE plpgsql AS $$
-- The accounts of a tenant (_account: that one) in the order they were opened, as their last entries say, with their
-- datasets. Everything as text: equal text is an equal budget.
BEGIN
  PERFORM set_config('discreet.tenant', _tenant, true);
  RETURN QUERY
    SELECT a.id, a.scope, a.subject, a.unit, e.totals::text, e.reserved::text, e.cap::text,
      coalesce((SELECT jsonb_agg(jsonb_build_object('id', d.id, 'name', d.name, 'deleted', d.deleted_at IS NOT NULL)
                                 ORDER BY d.created_at, d.id)
                FROM datasets AS d WHERE d.account_id = a.id), '[]')::text
    FROM accounts AS a
    CROSS JOIN LATERAL (SELECT l.totals, l.reserved, l.cap FROM ledger_entries AS l
                        WHERE l.account_id = a.id ORDER BY l.seq DESC LIMIT 1) AS e
    WHERE a.tenant_id = _tenant AND (_account IS NULL OR a.id = _account)
    ORDER BY a.created_at, a.id;
END
$$;

REVOKE ALL ON FUNCTION open_key(text), take_requests(text, integer, integer, integer), tell_key(), read_budgets(text, text)
  FROM PUBLIC;
