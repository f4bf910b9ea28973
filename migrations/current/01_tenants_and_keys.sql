-- Tenants, their API keys, people of an identity provider, and logins of the dashboard.
--
-- Row-level security, here and in every other file: a transaction sees the rows of the one tenant that it names in the
-- setting discreet.tenant, and none when it names none; '*' is the system's own scope (workers, keys, operators). FORCE
-- binds the owner of the tables too, and so the SECURITY DEFINER functions. It guards against a query that forgets its
-- WHERE, not against someone who runs SQL of their own as the application role: that one can name any tenant. Foreign keys
-- are checked without it.

-- One customer; every other row belongs to one.
CREATE TABLE tenants (
  id text PRIMARY KEY,  -- 'ten_' and 26 random characters; identifiers of all tables are made so
  name text NOT NULL UNIQUE,  -- its name for operators
  created_at timestamptz NOT NULL DEFAULT now()  -- when it was made
);
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenants USING (current_setting('discreet.tenant', true) IN (id, '*'));
GRANT SELECT, INSERT ON tenants TO discreet_app;

-- An API key of a principal: its public part and a MAC of the whole, never the key.
CREATE TABLE keys (
  id text PRIMARY KEY,  -- names the key in lists and in requests to revoke it; reveals nothing about the key
  tenant_id text NOT NULL REFERENCES tenants,  -- whose key it is
  principal text NOT NULL,  -- the person or program that holds it; keys of one principal share budgets and cap
  role text NOT NULL,  -- what its holder may do
  lookup text NOT NULL UNIQUE,  -- the part of the key by which it is found
  mac bytea NOT NULL,  -- HMAC-SHA256 of the whole key under a pepper
  pepper_id text NOT NULL,  -- which pepper that is
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was made
  expires_at timestamptz,  -- when it expires; null: never
  revoked_at timestamptz,  -- when it was revoked; null: it was not
  last_used_at timestamptz,  -- when a process last took requests of its quota, so late by at most one window
  used_window bigint,  -- the number of the window of time that used_requests counts in
  used_requests integer NOT NULL DEFAULT 0,  -- requests of that window that were handed to processes
  CONSTRAINT keys_role CHECK (role IN ('operator', 'owner', 'analyst', 'auditor'))
);
CREATE INDEX ix_keys_tenant_id ON keys (tenant_id);
ALTER TABLE keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE keys FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON keys USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT,
  UPDATE (mac, pepper_id, expires_at, revoked_at, last_used_at, used_window, used_requests) ON keys TO discreet_app;

-- A person of an identity provider in one tenant. Each of their tokens decides anew what they may do.
CREATE TABLE identities (
  id text PRIMARY KEY,  -- names the person in lists, and in requests to remove them
  tenant_id text NOT NULL REFERENCES tenants,  -- the tenant in which they have a role
  issuer text NOT NULL,  -- the provider that vouches for them
  subject text NOT NULL,  -- the provider's identifier for them, which never changes and is never reused
  name text,  -- their display name in the newest token; null: it had none
  role text NOT NULL,  -- the role that the newest token gave; nothing is decided by it
  created_at timestamptz NOT NULL DEFAULT now(),  -- when they first logged in
  last_used_at timestamptz,  -- when a process last took requests of their quota, so late by at most one window
  ended_at timestamptz,  -- logins and tokens that the provider made up to then are no longer valid; null: all are
  removed_at timestamptz,  -- when they were removed; null: they were not
  everywhere boolean NOT NULL DEFAULT false,  -- an operator has removed them from all tenants, including future ones
  used_window bigint,  -- the number of the window of time that used_requests counts in
  used_requests integer NOT NULL DEFAULT 0,  -- requests of that window that were handed to processes
  CONSTRAINT identities_role CHECK (role IN ('operator', 'owner', 'analyst', 'auditor')),
  CONSTRAINT identities_person UNIQUE (issuer, subject, tenant_id)
);
ALTER TABLE identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE identities FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON identities USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT,
  UPDATE (name, role, last_used_at, ended_at, removed_at, everywhere, used_window, used_requests) ON identities
  TO discreet_app;

-- A login of the dashboard: a MAC of its cookie, never the cookie. It ends with the key, or the person's access, that it
-- came from.
CREATE TABLE web_sessions (
  mac bytea PRIMARY KEY,  -- HMAC-SHA256 of the cookie
  tenant_id text NOT NULL REFERENCES tenants,  -- of the key or the person
  key_id text REFERENCES keys,  -- whose rights the login has; null: those of a person
  created_at timestamptz NOT NULL DEFAULT now(),  -- when somebody logged in
  expires_at timestamptz NOT NULL,  -- when the cookie expires
  identity_id text REFERENCES identities,  -- the person who logged in through an identity provider; null: a key was used
  role text,  -- the role from the person's ID token; null: the key has it
  issued_at timestamptz,  -- when the provider made that token, by its clock; null: there is none
  sid text,  -- the provider's identifier of its own session; null: none was given
  hint bytea,  -- the ID token for the provider's logout, sealed: only with the cookie it opens; null: there is none
  CONSTRAINT web_sessions_whose CHECK ((key_id IS NULL) <> (identity_id IS NULL)),
  CONSTRAINT web_sessions_role CHECK ((identity_id IS NULL) = (role IS NULL))
);
CREATE INDEX web_sessions_identity ON web_sessions (identity_id) WHERE identity_id IS NOT NULL;
CREATE INDEX web_sessions_age ON web_sessions (expires_at);
ALTER TABLE web_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE web_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON web_sessions USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE ON web_sessions TO discreet_app;

-- A link that logs in once. The row goes when the link is used.
CREATE TABLE login_links (
  mac bytea PRIMARY KEY,  -- HMAC-SHA256 of the link's token
  tenant_id text NOT NULL REFERENCES tenants,  -- of the key
  key_id text NOT NULL REFERENCES keys,  -- whose rights the login will have
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was asked for
  expires_at timestamptz NOT NULL  -- when it expires
);
CREATE INDEX login_links_age ON login_links (expires_at);
ALTER TABLE login_links ENABLE ROW LEVEL SECURITY;
ALTER TABLE login_links FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON login_links USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE ON login_links TO discreet_app;

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

CREATE FUNCTION take_requests(
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

CREATE FUNCTION tell_key() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('discreet_keys', NEW.id);
  RETURN NULL;
END
$$;
CREATE TRIGGER keys_changed AFTER UPDATE OF role, principal, tenant_id, mac, expires_at, revoked_at ON keys
  FOR EACH ROW EXECUTE FUNCTION tell_key();
CREATE TRIGGER identities_changed AFTER UPDATE OF ended_at, removed_at, everywhere ON identities
  FOR EACH ROW EXECUTE FUNCTION tell_key();

REVOKE ALL ON FUNCTION open_key(text), take_requests(text, integer, integer, integer), tell_key(),
  identity_lock(text, text), meet_identity(text, text, text, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION open_key(text), take_requests(text, integer, integer, integer), identity_lock(text, text),
  meet_identity(text, text, text, text, text, text) TO discreet_app;
