CREATE TABLE identities (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants,
  issuer text NOT NULL,
  subject text NOT NULL,
  name text,
  role text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,
  ended_at timestamptz,
  removed_at timestamptz,
  everywhere boolean NOT NULL DEFAULT false,
  used_window bigint,
  used_requests integer NOT NULL DEFAULT 0,
  CONSTRAINT identities_role CHECK (role IN ('operator', 'owner', 'analyst', 'auditor')),
  CONSTRAINT identities_person UNIQUE (issuer, subject, tenant_id)
);
ALTER TABLE identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE identities FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON identities USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

ALTER TABLE web_sessions ALTER COLUMN key_id DROP NOT NULL;
ALTER TABLE web_sessions
  ADD COLUMN identity_id text REFERENCES identities,
  ADD COLUMN role text,
  ADD COLUMN issued_at timestamptz,
  ADD COLUMN sid text,
  ADD COLUMN hint bytea,
  ADD CONSTRAINT web_sessions_whose CHECK ((key_id IS NULL) <> (identity_id IS NULL)),
  ADD CONSTRAINT web_sessions_role CHECK ((identity_id IS NULL) = (role IS NULL));
CREATE INDEX web_sessions_identity ON web_sessions (identity_id) WHERE identity_id IS NOT NULL;

CREATE FUNCTION identity_lock(_issuer text, _subject text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  -- the number of the advisory lock of a person: held while they are met for the first time, removed or restored
  SELECT hashtextextended(_issuer || '#' || _subject, 1717)
$$;

CREATE FUNCTION meet_identity(
  _new text, _tenant text, _issuer text, _subject text, _name text, _role text,
  OUT id text, OUT tenant text, OUT removed boolean, OUT ended_at timestamptz
)
LANGUAGE plpgsql AS $$
-- The person's row in the tenant of this name or, where none is called so, of this id; made at the first time, under the
-- id _new. tenant is null where there is none; removed people get no row.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  known identities;
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  removed := false;
  SELECT t.id INTO tenant FROM tenants AS t WHERE t.name = _tenant OR t.id = _tenant ORDER BY t.name <> _tenant LIMIT 1;
  IF tenant IS NOT NULL THEN
    SELECT * INTO known FROM identities AS i
      WHERE i.issuer = _issuer AND i.subject = _subject AND i.tenant_id = meet_identity.tenant;
    IF known.id IS NULL THEN
      PERFORM pg_advisory_xact_lock(identity_lock(_issuer, _subject));
      removed := EXISTS (SELECT FROM identities AS i WHERE i.issuer = _issuer AND i.subject = _subject
        AND i.everywhere AND i.removed_at IS NOT NULL);
      IF NOT removed THEN
        INSERT INTO identities AS i (id, tenant_id, issuer, subject, name, role)
          VALUES (_new, tenant, _issuer, _subject, _name, _role)
          ON CONFLICT ON CONSTRAINT identities_person DO UPDATE SET role = EXCLUDED.role
          RETURNING i.* INTO known;
      END IF;
    END IF;
    removed := removed OR known.removed_at IS NOT NULL;
    IF NOT removed AND (known.role <> _role OR known.name IS DISTINCT FROM coalesce(_name, known.name)) THEN
      UPDATE identities AS i SET role = _role, name = coalesce(_name, i.name) WHERE i.id = known.id;
    END IF;
    id := known.id;
    ended_at := known.ended_at;
  END IF;
  PERFORM set_config('discreet.tenant', scope, true);
END
$$;

CREATE OR REPLACE FUNCTION take_requests(
  _key text, _seconds integer, _quota integer, _block integer,
  OUT granted integer, OUT taken integer, OUT seconds_left double precision
)
LANGUAGE plpgsql AS $$
-- Set up to _block requests of a key, or of a person, aside for the process that asks, in the window of _seconds that is
-- now: all processes together get _quota and no more. granted is 0 when the window is used up; taken is what all have got
-- by now. Says on the way when the key was last used. Losing the last of these rows with the machine costs nobody
-- anything, so nobody waits for the disk.
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
  IF NOT FOUND THEN
    UPDATE identities AS k
      SET used_window = this_window,
          used_requests = greatest(old.before, least(_quota, old.before + _block)),
          last_used_at = clock_timestamp()
      FROM (SELECT o.id, CASE WHEN o.used_window = this_window THEN o.used_requests ELSE 0 END AS before
            FROM identities AS o WHERE o.id = _key FOR UPDATE) AS old
      WHERE k.id = old.id
      RETURNING k.used_requests - old.before, k.used_requests INTO granted, taken;
  END IF;
  granted := coalesce(granted, 0);
  taken := coalesce(taken, _quota);
  seconds_left := (this_window + 1) * _seconds::double precision - now_seconds;
END
$$;

CREATE TRIGGER identities_changed AFTER UPDATE OF ended_at, removed_at, everywhere ON identities
  FOR EACH ROW EXECUTE FUNCTION tell_key();

CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  action text NOT NULL,
  object text,
  principal text NOT NULL,
  role text NOT NULL,
  credential text NOT NULL,
  issuer text,
  subject text,
  details jsonb NOT NULL
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id);
ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON audit_log USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE FUNCTION audit_log_refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'DL005';
END
$$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse_change();

REVOKE ALL ON FUNCTION audit_log_refuse_change() FROM PUBLIC;
REVOKE ALL ON FUNCTION identity_lock(text, text), meet_identity(text, text, text, text, text, text) FROM PUBLIC;

COMMENT ON TABLE identities IS 'A person of an identity provider in one tenant. What they may do is said by each of their tokens anew.';
COMMENT ON COLUMN identities.id IS 'names the person in lists, and in requests to remove them';
COMMENT ON COLUMN identities.tenant_id IS 'where they have a role';
COMMENT ON COLUMN identities.issuer IS 'the provider that vouches for them';
COMMENT ON COLUMN identities.subject IS 'what it calls them, for ever and nobody else';
COMMENT ON COLUMN identities.name IS 'what people call them, as the newest token said; null: it did not';
COMMENT ON COLUMN identities.role IS 'what the newest token gave; nothing is decided by it';
COMMENT ON COLUMN identities.created_at IS 'when they first came';
COMMENT ON COLUMN identities.last_used_at IS 'when a process last asked for requests of them, so late by at most one window';
COMMENT ON COLUMN identities.ended_at IS 'logins and tokens that the provider made up to then count no more; null: all count';
COMMENT ON COLUMN identities.removed_at IS 'since when they are refused; null: they are not';
COMMENT ON COLUMN identities.everywhere IS 'an operator has removed them: from all tenants, and those to come';
COMMENT ON COLUMN identities.used_window IS 'the number of the window of time that used_requests counts in';
COMMENT ON COLUMN identities.used_requests IS 'requests of that window that were handed to processes';
COMMENT ON TABLE audit_log IS 'A change of anything but the ledger, which names its own actors: who made it. Rows are never altered or deleted.';
COMMENT ON COLUMN audit_log.id IS 'who comes later has a larger number; numbers may be missing';
COMMENT ON COLUMN audit_log.tenant_id IS 'whose object was changed';
COMMENT ON COLUMN audit_log.at IS 'when';
COMMENT ON COLUMN audit_log.action IS 'what was done, such as key.create';
COMMENT ON COLUMN audit_log.object IS 'to which object; null: the action says it';
COMMENT ON COLUMN audit_log.principal IS 'by whom: the name that budgets and the ledger call them';
COMMENT ON COLUMN audit_log.role IS 'with which role';
COMMENT ON COLUMN audit_log.credential IS 'by which key, or as which person (the id of their row)';
COMMENT ON COLUMN audit_log.issuer IS 'of a person: the identity provider; null: a key';
COMMENT ON COLUMN audit_log.subject IS 'of a person: what it calls them; null: a key';
COMMENT ON COLUMN audit_log.details IS 'further figures of the change; nothing private, no secret';
COMMENT ON TABLE web_sessions IS 'A login of the dashboard: a MAC of its cookie, never the cookie. It ends with the key, or the person''s access, that it came from.';
COMMENT ON COLUMN web_sessions.tenant_id IS 'of the key or the person';
COMMENT ON COLUMN web_sessions.key_id IS 'whose rights the login has; null: those of a person';
COMMENT ON COLUMN web_sessions.identity_id IS 'the person who logged in by an identity provider; null: a key did';
COMMENT ON COLUMN web_sessions.role IS 'what the person''s ID token gave them; null: the key says it';
COMMENT ON COLUMN web_sessions.issued_at IS 'when the provider made that token, by its clock; null: there is none';
COMMENT ON COLUMN web_sessions.sid IS 'what the provider calls its own session; null: it does not say';
COMMENT ON COLUMN web_sessions.hint IS 'the ID token for the provider''s logout, sealed: only with the cookie it opens; null: there is none';
