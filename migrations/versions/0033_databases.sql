-- Contents may stay in a PostgreSQL database.

ALTER TABLE datasets
  DROP CONSTRAINT datasets_stays,
  ADD CONSTRAINT datasets_stays CHECK (
    (stays IS NULL OR stays IN ('file', 'https', 's3', 'postgresql') AND object_name IS NULL) AND (stays IS NULL) = (seen_at IS NULL)
    AND (place IS NULL OR stays IS NOT NULL));
COMMENT ON COLUMN datasets.stays IS
  'file, https, s3 or postgresql: the kind of place at which the content stays, to be fetched by each job; null: it is stored';
