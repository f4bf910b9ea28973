-- Contents that stay where they lie: fetched by each job and compared with their digest. The address is sealed.
ALTER TABLE datasets
  ADD COLUMN stays text,
  ADD COLUMN place bytea,
  ADD COLUMN seen_at timestamptz,
  ADD CONSTRAINT datasets_stays CHECK (
    (stays IS NULL OR stays IN ('file', 'https', 's3') AND object_name IS NULL) AND (stays IS NULL) = (seen_at IS NULL)
    AND (place IS NULL OR stays IS NOT NULL));
COMMENT ON TABLE datasets IS
  'A registered dataset. Its content is stored sealed, in chunks or in an object, or stays where it lies; a keyed digest tells it from others.';
COMMENT ON COLUMN datasets.stays IS
  'file, https or s3: the kind of place at which the content stays, to be fetched by each job; null: it is stored';
COMMENT ON COLUMN datasets.place IS
  'the address there, and for whom it is fetched, sealed under the content''s own key; null: erased, or it is stored';
COMMENT ON COLUMN datasets.seen_at IS 'when the content was last found unchanged at its place; null: it is stored';
