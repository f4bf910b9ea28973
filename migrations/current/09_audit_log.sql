-- Every change, and who made it.

-- A change of anything but the ledger, which names its own actors. Rows are never altered or deleted.
CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- later entries have larger numbers; numbers may be missing
  tenant_id text NOT NULL,  -- whose object was changed
  at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when
  action text NOT NULL,  -- what was done, such as key.create
  object text,  -- to which object; null: the action says it
  principal text NOT NULL,  -- who made the change, by their name in budgets and the ledger
  role text NOT NULL,  -- with which role
  credential text NOT NULL,  -- the key that was used, or the person (the id of their row)
  issuer text,  -- the identity provider of a person; null for a key
  subject text,  -- the provider's identifier for a person; null for a key
  details jsonb NOT NULL  -- further figures of the change; nothing private, no secret
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id);
CREATE INDEX audit_log_keys_made ON audit_log (credential) WHERE action = 'key.create';
CREATE INDEX audit_log_action ON audit_log (tenant_id, action, id);
CREATE INDEX audit_log_principal ON audit_log (tenant_id, principal, id);
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
