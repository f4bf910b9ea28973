CREATE OR REPLACE FUNCTION take_requests(
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

