-- Sources: data that keep coming, in blocks.

CREATE TABLE sources (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants,
  name text NOT NULL,
  kind text NOT NULL,
  public jsonb NOT NULL,
  mode text NOT NULL,
  block_by text NOT NULL,
  cap_of text NOT NULL,
  cap jsonb NOT NULL,
  block_bytes bigint NOT NULL,
  retention_days integer,
  account_id text REFERENCES accounts,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT sources_name UNIQUE (tenant_id, name),
  CONSTRAINT sources_mode CHECK (mode IN ('private', 'simulation')),
  CONSTRAINT sources_block_by CHECK (block_by IN ('day', 'month', 'label')),
  CONSTRAINT sources_cap_of CHECK (cap_of IN ('block', 'source') AND (cap_of = 'source') = (account_id IS NOT NULL))
);
CREATE INDEX sources_page ON sources (tenant_id, created_at, id);
ALTER TABLE sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE sources FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON sources USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
COMMENT ON TABLE sources IS 'A source: data that keep coming, in blocks of which each is a dataset. What it says of its blocks never changes.';
COMMENT ON COLUMN sources.id IS 'identifies the source';
COMMENT ON COLUMN sources.tenant_id IS 'whose it is';
COMMENT ON COLUMN sources.name IS 'what its owner calls it; no other source of the tenant is called so';
COMMENT ON COLUMN sources.kind IS 'of problem, as of all its blocks';
COMMENT ON COLUMN sources.public IS 'the public part of each of its blocks';
COMMENT ON COLUMN sources.mode IS 'private or simulation, as of all its blocks';
COMMENT ON COLUMN sources.block_by IS 'which records a block has: those of a day, of a month, or what the owner calls by its label';
COMMENT ON COLUMN sources.cap_of IS 'block: each block has an account of its own; source: all have one, charged once by each job';
COMMENT ON COLUMN sources.cap IS 'epsilon and delta, as of a cap of the ledger, that a new account begins with';
COMMENT ON COLUMN sources.block_bytes IS 'the most that the content of a block takes in memory; public, so that jobs go by it';
COMMENT ON COLUMN sources.retention_days IS 'the content of a version is erased after so many days; null: when somebody deletes it';
COMMENT ON COLUMN sources.account_id IS 'the account of all blocks; null: cap_of is block';
COMMENT ON COLUMN sources.created_by IS 'the principal who made it';
COMMENT ON COLUMN sources.created_at IS 'when that was';

ALTER TABLE datasets
  ADD COLUMN source_id text REFERENCES sources,
  ADD COLUMN block text,
  ADD COLUMN version integer,
  ADD CONSTRAINT datasets_in_source CHECK (
    (source_id IS NULL) = (block IS NULL) AND (source_id IS NULL) = (version IS NULL));
CREATE UNIQUE INDEX datasets_block ON datasets (source_id, block, version) WHERE source_id IS NOT NULL;
COMMENT ON COLUMN datasets.source_id IS 'the source of which it is a block; null: it stands alone';
COMMENT ON COLUMN datasets.block IS 'the block''s name in its source: a day, a month or a label; null: it is no block';
COMMENT ON COLUMN datasets.version IS 'which version of its block it is, from 1: a later one has late records; null: it is no block';

CREATE TABLE job_blocks (
  job_id text NOT NULL REFERENCES jobs,
  dataset_id text NOT NULL REFERENCES datasets,
  tenant_id text NOT NULL,
  PRIMARY KEY (job_id, dataset_id)
);
CREATE INDEX job_blocks_dataset ON job_blocks (dataset_id);
ALTER TABLE job_blocks ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_blocks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_blocks USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
COMMENT ON TABLE job_blocks IS 'A version of a block that a job reads. The job''s problem names them in order, under its tamper seal.';
COMMENT ON COLUMN job_blocks.job_id IS 'which job';
COMMENT ON COLUMN job_blocks.dataset_id IS 'which version';
COMMENT ON COLUMN job_blocks.tenant_id IS 'whose both are';

COMMENT ON COLUMN jobs.dataset_id IS 'what it reads; null: blocks of a source, what its problem holds, or agents'' data';
