-- Shares of a release that is a sum over a large content, for idle workers to take.

-- A share of a running release, which its worker offers to others after data were touched. What they found is sealed under a key
-- that wrapped_key holds, until their worker has it; the row goes when the release is kept, or its attempt ends in any way.
CREATE TABLE job_shares (
  job_id text NOT NULL REFERENCES jobs,
  number integer NOT NULL,
  shares integer NOT NULL,
  attempt integer NOT NULL,
  content_key_id text NOT NULL,
  wrapped_key bytea,
  taken_by bigint,
  sealed bytea,
  PRIMARY KEY (job_id, number),
  CONSTRAINT job_shares_number CHECK (number >= 0 AND number < shares)
);
COMMENT ON TABLE job_shares IS
  'A share of a running release, which its worker offers to others after data were touched. What they found is sealed under a key'
  ' that wrapped_key holds, until their worker has it; the row goes when the release is kept, or its attempt ends in any way.';
COMMENT ON COLUMN job_shares.job_id IS 'whose release';
COMMENT ON COLUMN job_shares.number IS 'which share, from 0';
COMMENT ON COLUMN job_shares.shares IS 'of how many, whatever the content';
COMMENT ON COLUMN job_shares.attempt IS 'the fencing token of who offers it';
COMMENT ON COLUMN job_shares.content_key_id IS 'the master key that wraps wrapped_key';
COMMENT ON COLUMN job_shares.wrapped_key IS
  'the key of what is found, which workers alone can unwrap; null: nothing is needed any more';
COMMENT ON COLUMN job_shares.taken_by IS
  'the number in procrastinate_workers of the worker that reads it; 0: the one that offers it; null: nobody';
COMMENT ON COLUMN job_shares.sealed IS 'the sums that were found, under authenticated encryption; null: none yet, or fetched already';
CREATE INDEX job_shares_open ON job_shares (job_id) WHERE taken_by IS NULL AND wrapped_key IS NOT NULL;
ALTER TABLE job_shares ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_shares FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON job_shares USING (current_setting('discreet.tenant', true) = '*');
