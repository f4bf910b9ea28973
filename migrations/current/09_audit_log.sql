-- Every change by whom.

-- A change of anything but the ledger, which names its own actors: who made it. Rows are never altered or deleted.
CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- who comes later has a larger number; numbers may be missing
  tenant_id text NOT NULL,  -- whose object was changed
  at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when
  action text NOT NULL,  -- what was done, such as key.create
  object text,  -- to which object; null: the action says it
  principal text NOT NULL,  -- by whom: the name that budgets and the ledger call them
  role text NOT NULL,  -- with which role
  credential text NOT NULL,  -- by which key, or as which person (the id of their row)
  issuer text,  -- of a person: the identity provider; null: a key
  subject text,  -- of a person: what it calls them; null: a key
  details jsonb NOT NULL  -- further figures of the change; nothing private, no secret
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id);
CREATE INDEX audit_log_keys_made ON audit_log (credential) WHERE action = 'key.create';
ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON audit_log USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT ON audit_log TO discreet_app;

CREATE FUNCTION audit_log_refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'DL005';
END
$$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse_change();

REVOKE ALL ON FUNCTION audit_log_refuse_change() FROM PUBLIC;
