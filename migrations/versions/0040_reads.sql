-- Files that were sent to be looked at, before a dataset is registered from them.

CREATE TABLE reads (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants,
  principal text NOT NULL,
  format text NOT NULL,
  plain_bytes bigint NOT NULL,
  sealed_bytes bigint NOT NULL,
  content_key_id text NOT NULL,
  wrapped_key bytea NOT NULL,
  object_name text,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
COMMENT ON TABLE reads IS 'A file that was sent to be looked at, before a dataset is registered from it. It stays for a day, or until it is registered.';
COMMENT ON COLUMN reads.id IS 'identifies it';
COMMENT ON COLUMN reads.tenant_id IS 'whose it is';
COMMENT ON COLUMN reads.principal IS 'who sent it; nobody else sees it';
COMMENT ON COLUMN reads.format IS 'csv, parquet, json, xlsx or omx';
COMMENT ON COLUMN reads.plain_bytes IS 'the length of the file';
COMMENT ON COLUMN reads.sealed_bytes IS 'the length of the sealed file';
COMMENT ON COLUMN reads.content_key_id IS 'the master key that wraps wrapped_key';
COMMENT ON COLUMN reads.wrapped_key IS 'the file''s own key';
COMMENT ON COLUMN reads.object_name IS 'where the sealed file lies in the object storage; null: in read_chunks';
COMMENT ON COLUMN reads.created_at IS 'when it came';
COMMENT ON COLUMN reads.expires_at IS 'when it is erased, unless it is registered before';
CREATE INDEX reads_age ON reads (expires_at);
ALTER TABLE reads ENABLE ROW LEVEL SECURITY;
ALTER TABLE reads FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON reads USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE TABLE read_chunks (
  read_id text NOT NULL REFERENCES reads ON DELETE CASCADE,
  index integer NOT NULL,
  sealed bytea NOT NULL,
  PRIMARY KEY (read_id, index)
);
COMMENT ON TABLE read_chunks IS 'A sealed piece of such a file.';
COMMENT ON COLUMN read_chunks.read_id IS 'whose file';
COMMENT ON COLUMN read_chunks.index IS 'the piece''s number, from 0';
COMMENT ON COLUMN read_chunks.sealed IS 'its bytes under authenticated encryption';
ALTER TABLE read_chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE read_chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON read_chunks
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM reads WHERE reads.id = read_id));
