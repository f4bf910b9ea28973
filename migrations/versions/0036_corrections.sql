-- Corrections of public parts: a revision of datasets and sources, and what datasets were before.

ALTER TABLE sources ADD COLUMN revision integer NOT NULL DEFAULT 1;
COMMENT ON COLUMN sources.revision IS 'which public part that is: one more with each correction';
COMMENT ON TABLE sources IS 'A source: data that keep arriving, in blocks, each of which is a dataset. Of its row only the public part may be corrected.';
ALTER TABLE datasets ADD COLUMN revision integer NOT NULL DEFAULT 1;
COMMENT ON COLUMN datasets.revision IS 'which public part and content that are: one more with each correction';
-- One content may be two datasets of one account, with another public part each; registrations lock digests.
DROP INDEX datasets_live;
CREATE INDEX datasets_live ON datasets (tenant_id, digest) WHERE deleted_at IS NULL;

CREATE TABLE dataset_revisions (
  dataset_id text NOT NULL REFERENCES datasets,
  revision integer NOT NULL,
  tenant_id text NOT NULL REFERENCES tenants,
  digest bytea NOT NULL,
  public jsonb NOT NULL,
  corrected_by text NOT NULL,
  corrected_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (dataset_id, revision)
);
COMMENT ON TABLE dataset_revisions IS 'What a dataset was before a correction. Its digest still finds the account, so that no content comes to a second budget.';
COMMENT ON COLUMN dataset_revisions.dataset_id IS 'which dataset';
COMMENT ON COLUMN dataset_revisions.revision IS 'which revision of it that was';
COMMENT ON COLUMN dataset_revisions.tenant_id IS 'whose it is';
COMMENT ON COLUMN dataset_revisions.digest IS 'of the content that it had';
COMMENT ON COLUMN dataset_revisions.public IS 'the public part that it had';
COMMENT ON COLUMN dataset_revisions.corrected_by IS 'the principal who corrected it';
COMMENT ON COLUMN dataset_revisions.corrected_at IS 'when that was';
CREATE INDEX dataset_revisions_digest ON dataset_revisions (tenant_id, digest);
ALTER TABLE dataset_revisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE dataset_revisions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON dataset_revisions USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
