-- Datasets: their public part, and their sealed content; sources, whose blocks are datasets; and public objects,
-- which are public as a whole.

-- A source: data that keep arriving, in blocks, each of which is a dataset. Of its row only the public part may be corrected.
CREATE TABLE sources (
  id text PRIMARY KEY,  -- identifies the source
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  name text NOT NULL,  -- its owner's name for it, unique in the tenant
  kind text NOT NULL,  -- kind of problem, the same for all its blocks
  public jsonb NOT NULL,  -- the public part of each of its blocks
  mode text NOT NULL,  -- private or simulation, the same for all its blocks
  block_by text NOT NULL,  -- which records a block has: those of a day, of a month, or those to which the owner gives its label
  cap_of text NOT NULL,  -- block: each block has an account of its own; source: all have one, charged once by each job
  cap jsonb NOT NULL,  -- the cap (epsilon and delta) that a new account begins with
  block_bytes bigint NOT NULL,  -- the most memory that the content of a block takes; public, so that plans can use it
  retention_days integer,  -- the content of a version is erased after so many days; null: only on request
  account_id text REFERENCES accounts,  -- the account of all blocks; null: cap_of is block
  chain_id text REFERENCES accounts,  -- the chain that has the entries of all blocks; null: each block has a chain of its own
  created_by text NOT NULL,  -- the principal who made it
  created_at timestamptz NOT NULL DEFAULT now(),  -- when that was
  revision integer NOT NULL DEFAULT 1,  -- which public part that is: one more with each correction
  CONSTRAINT sources_name UNIQUE (tenant_id, name),
  CONSTRAINT sources_mode CHECK (mode IN ('private', 'simulation')),
  CONSTRAINT sources_block_by CHECK (block_by IN ('day', 'month', 'label')),
  CONSTRAINT sources_cap_of CHECK (cap_of IN ('block', 'source') AND (cap_of = 'source') = (account_id IS NOT NULL))
);
CREATE INDEX sources_page ON sources (tenant_id, created_at, id);
ALTER TABLE sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE sources FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON sources USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE (public, revision) ON sources TO discreet_app;

-- A registered dataset. Its content is stored sealed, in chunks or in an object, or stays where it lies; a keyed digest
-- tells it from others.
CREATE TABLE datasets (
  id text PRIMARY KEY,  -- identifies the dataset
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  account_id text NOT NULL REFERENCES accounts,  -- what jobs on it are charged to; datasets of the same data share one
  name text NOT NULL,  -- its owner's name for it
  kind text NOT NULL,  -- of problem; it decides the schema of the content
  public jsonb NOT NULL,  -- the public part of the dataset, which anybody may know
  mode text NOT NULL,  -- private: jobs are charged; simulation: the data are public, nothing is charged
  digest bytea NOT NULL,  -- HMAC-SHA256 of tenant and canonical content, so that the same content is registered once
  content_key_id text NOT NULL,  -- the master key that wraps wrapped_key, or sealed the chunks where there is none
  wrapped_key bytea,  -- the content's own key, bound to this row's terms; null: erased
  sealed_bytes bigint,  -- the length of the sealed content in bytes; null: erased
  object_name text,  -- where the sealed content lies in the object storage; null: in dataset_chunks
  expires_at timestamptz,  -- when the content is erased; null: only on request
  delete_after_job boolean NOT NULL DEFAULT false,  -- the content is erased when its first job has succeeded
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was registered
  deleted_at timestamptz,  -- when its content was erased; null: it exists
  source_id text REFERENCES sources,  -- the source of which it is a block; null: it stands alone
  block text,  -- the block's name in its source: a day, a month or a label; null: it is not a block
  version integer,  -- which version of its block it is, from 1: a later one adds late records; null: it is not a block
  number integer,  -- which of all versions of its source's blocks it is, from 1, without gaps; null: it is not a block
  stays text,  -- file, https, s3 or postgresql: the kind of place at which the content stays, to be fetched by each job; null: it is stored
  place bytea,  -- the address there, and for whom it is fetched, sealed under the content's own key; null: erased, or it is stored
  seen_at timestamptz,  -- when the content was last found unchanged at its place; null: it is stored
  revision integer NOT NULL DEFAULT 1,  -- which public part and content that are: one more with each correction
  zone_names bytea,  -- HMAC-SHA256 of the names of its zones in their order, by which its file was read; null: by numbers
  CONSTRAINT datasets_mode CHECK (mode IN ('private', 'simulation')),
  CONSTRAINT datasets_in_source CHECK (
    (source_id IS NULL) = (block IS NULL) AND (source_id IS NULL) = (version IS NULL)
    AND (source_id IS NULL) = (number IS NULL)),
  CONSTRAINT datasets_stays CHECK (
    (stays IS NULL OR stays IN ('file', 'https', 's3', 'postgresql') AND object_name IS NULL) AND (stays IS NULL) = (seen_at IS NULL)
    AND (place IS NULL OR stays IS NOT NULL))
);
CREATE INDEX datasets_live ON datasets (tenant_id, digest) WHERE deleted_at IS NULL;
CREATE INDEX datasets_page ON datasets (tenant_id, created_at, id);
CREATE INDEX datasets_expiry ON datasets (expires_at) WHERE deleted_at IS NULL;
CREATE INDEX ix_datasets_account_id ON datasets (account_id);
CREATE UNIQUE INDEX datasets_block ON datasets (source_id, block, version) WHERE source_id IS NOT NULL;
CREATE UNIQUE INDEX datasets_number ON datasets (source_id, number) WHERE source_id IS NOT NULL;
-- By these it is found without a look at each version whether a job's are all there.
CREATE INDEX datasets_gone ON datasets (source_id, number) WHERE source_id IS NOT NULL AND deleted_at IS NOT NULL;
CREATE INDEX datasets_ends ON datasets (source_id, expires_at)
  WHERE source_id IS NOT NULL AND deleted_at IS NULL AND expires_at IS NOT NULL;
ALTER TABLE datasets ENABLE ROW LEVEL SECURITY;
ALTER TABLE datasets FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON datasets USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, MAINTAIN,
  UPDATE (content_key_id, wrapped_key, sealed_bytes, object_name, expires_at, delete_after_job, deleted_at, stays, place,
    seen_at, public, digest, revision, zone_names)
  ON datasets TO discreet_app;  -- MAINTAIN to vacuum what was erased; before PostgreSQL 17, which has no such right, not

-- What a dataset was before a correction. Its digest still finds the account, so that no content comes to a second budget.
CREATE TABLE dataset_revisions (
  dataset_id text NOT NULL REFERENCES datasets,  -- which dataset
  revision integer NOT NULL,  -- which revision of it that was
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  digest bytea NOT NULL,  -- of the content that it had
  public jsonb NOT NULL,  -- the public part that it had
  corrected_by text NOT NULL,  -- the principal who corrected it
  corrected_at timestamptz NOT NULL DEFAULT now(),  -- when that was
  PRIMARY KEY (dataset_id, revision)
);
CREATE INDEX dataset_revisions_digest ON dataset_revisions (tenant_id, digest);
ALTER TABLE dataset_revisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE dataset_revisions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON dataset_revisions USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT ON dataset_revisions TO discreet_app;

CREATE FUNCTION datasets_numbered() RETURNS trigger
LANGUAGE plpgsql AS $$
-- The next number in the source, whoever registers the version. Registrations of one source wait for each other (and the
-- index refuses whoever did not), rows are never deleted, and what is rolled back was no number: there are no gaps.
BEGIN
  NEW.number := 1 + coalesce(
    (SELECT d.number FROM datasets AS d WHERE d.source_id = NEW.source_id ORDER BY d.number DESC LIMIT 1), 0);
  RETURN NEW;
END
$$;
CREATE TRIGGER datasets_numbered BEFORE INSERT ON datasets
  FOR EACH ROW WHEN (NEW.source_id IS NOT NULL) EXECUTE FUNCTION datasets_numbered();

-- One lock a source stands for those of all its versions. Order of locks: decisions on a source, a version's row, the source,
-- accounts. Who accepts a job holds the source shared and no version's row; who erases one has its row, then the source alone,
-- and after that waits for nothing that an acceptance holds.
CREATE FUNCTION source_keep(_source text) RETURNS void
LANGUAGE sql AS $$
-- Shared: nothing of this source is erased before this transaction ends. Statements that follow see what was erased before.
SELECT pg_advisory_xact_lock_shared(hashtextextended(_source, 34))
$$;

CREATE FUNCTION source_alone(_source text) RETURNS void
LANGUAGE sql AS $$
-- Alone: jobs that read this source have been accepted and committed, or are accepted after this transaction.
SELECT pg_advisory_xact_lock(hashtextextended(_source, 34))
$$;

CREATE FUNCTION versions_offered(_tenant text, _source text, _versions int4multirange) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
-- Whether all these versions are there, of a source of this tenant: none was erased, and the time of none is over. Ask while
-- the source is kept. It looks at those that are not there, whatever the number of those that are.
BEGIN
  RETURN coalesce(
    NOT isempty(_versions) AND lower(_versions) >= 1
    AND upper(_versions) - 1 <= (SELECT d.number FROM datasets AS d
      WHERE d.source_id = _source AND d.tenant_id = _tenant ORDER BY d.number DESC LIMIT 1)
    AND NOT EXISTS (SELECT FROM datasets AS d WHERE d.source_id = _source AND d.deleted_at IS NOT NULL
      AND d.number >= lower(_versions) AND d.number < upper(_versions) AND _versions @> d.number)
    AND NOT EXISTS (SELECT FROM datasets AS d WHERE d.source_id = _source AND d.deleted_at IS NULL
      AND d.expires_at <= now() AND _versions @> d.number), false);
END
$$;

CREATE FUNCTION datasets_erased() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Whoever erases a version, code of any age, waits for jobs on its source that are being accepted, and they for it.
BEGIN
  PERFORM source_alone(NEW.source_id);
  RETURN NEW;
END
$$;
CREATE TRIGGER datasets_erased BEFORE UPDATE OF deleted_at ON datasets
  FOR EACH ROW WHEN (NEW.source_id IS NOT NULL AND NEW.deleted_at IS NOT NULL AND OLD.deleted_at IS NULL)
  EXECUTE FUNCTION datasets_erased();

-- A sealed piece of a dataset's content.
CREATE TABLE dataset_chunks (
  dataset_id text NOT NULL REFERENCES datasets,  -- whose content
  index integer NOT NULL,  -- the piece's number, from 0
  sealed bytea NOT NULL,  -- its bytes under authenticated encryption, which binds dataset and number
  PRIMARY KEY (dataset_id, index)
);
ALTER TABLE dataset_chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE dataset_chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON dataset_chunks
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM datasets WHERE datasets.id = dataset_id));
GRANT SELECT, INSERT, DELETE, MAINTAIN ON dataset_chunks TO discreet_app;

-- A file that was sent to be looked at, before a dataset is registered from it. It stays for a day, or until it is
-- registered.
CREATE TABLE reads (
  id text PRIMARY KEY,  -- identifies it
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  principal text NOT NULL,  -- who sent it; nobody else sees it
  format text NOT NULL,  -- csv, parquet, json, xlsx or omx
  plain_bytes bigint NOT NULL,  -- the length of the file
  sealed_bytes bigint NOT NULL,  -- the length of the sealed file
  content_key_id text NOT NULL,  -- the master key that wraps wrapped_key
  wrapped_key bytea NOT NULL,  -- the file's own key
  object_name text,  -- where the sealed file lies in the object storage; null: in read_chunks
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it came
  expires_at timestamptz NOT NULL  -- when it is erased, unless it is registered before
);
CREATE INDEX reads_age ON reads (expires_at);
ALTER TABLE reads ENABLE ROW LEVEL SECURITY;
ALTER TABLE reads FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON reads USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE, MAINTAIN, UPDATE (content_key_id, wrapped_key) ON reads TO discreet_app;

-- A sealed piece of such a file.
CREATE TABLE read_chunks (
  read_id text NOT NULL REFERENCES reads ON DELETE CASCADE,  -- whose file
  index integer NOT NULL,  -- the piece's number, from 0
  sealed bytea NOT NULL,  -- its bytes under authenticated encryption
  PRIMARY KEY (read_id, index)
);
ALTER TABLE read_chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE read_chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON read_chunks
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM reads WHERE reads.id = read_id));
GRANT SELECT, INSERT, DELETE ON read_chunks TO discreet_app;

-- Something public that jobs name by its id, such as a road network. Neither id nor content ever changes.
CREATE TABLE public_objects (
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  id text NOT NULL,  -- 130 bits of the content's SHA-256 behind the prefix of its type: the same content, the same id
  type text NOT NULL,  -- its type, such as network
  name text NOT NULL,  -- the name that its first sender gave it
  sizes jsonb NOT NULL,  -- figures of its content that lists show
  content bytea NOT NULL,  -- its canonical JSON, in the clear
  created_by text NOT NULL,  -- the principal who stored it first
  created_at timestamptz NOT NULL DEFAULT now(),  -- when that was
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX public_objects_page ON public_objects (tenant_id, type, created_at, id);
ALTER TABLE public_objects ENABLE ROW LEVEL SECURITY;
ALTER TABLE public_objects FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON public_objects USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE, UPDATE (name) ON public_objects TO discreet_app;  -- a row is locked by a right to update

REVOKE ALL ON FUNCTION datasets_numbered(), source_keep(text), source_alone(text),
  versions_offered(text, text, int4multirange), datasets_erased() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION source_keep(text), source_alone(text), versions_offered(text, text, int4multirange)
  TO discreet_app;
