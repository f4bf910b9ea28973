CREATE INDEX audit_log_keys_made ON audit_log (credential) WHERE action = 'key.create';
