CREATE TABLE public_objects (
  tenant_id text NOT NULL REFERENCES tenants,
  id text NOT NULL,
  type text NOT NULL,
  name text NOT NULL,
  sizes jsonb NOT NULL,
  content bytea NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX public_objects_page ON public_objects (tenant_id, type, created_at, id);
ALTER TABLE public_objects ENABLE ROW LEVEL SECURITY;
ALTER TABLE public_objects FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON public_objects USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
COMMENT ON TABLE public_objects IS 'Something public that jobs name by its id, such as a road network. Neither id nor content ever changes.';
COMMENT ON COLUMN public_objects.tenant_id IS 'whose it is';
COMMENT ON COLUMN public_objects.id IS '130 bits of the content''s SHA-256 behind the prefix of its type: the same content, the same id';
COMMENT ON COLUMN public_objects.type IS 'what it is, in a word: network';
COMMENT ON COLUMN public_objects.name IS 'what who stored it first calls it';
COMMENT ON COLUMN public_objects.sizes IS 'what lists say of it: figures of its content';
COMMENT ON COLUMN public_objects.content IS 'its canonical JSON, in the clear';
COMMENT ON COLUMN public_objects.created_by IS 'the principal who stored it first';
COMMENT ON COLUMN public_objects.created_at IS 'when that was';

CREATE TABLE job_objects (
  job_id text NOT NULL REFERENCES jobs,
  object_id text NOT NULL,
  tenant_id text NOT NULL,
  PRIMARY KEY (job_id, object_id),
  CONSTRAINT job_objects_tenant_id_object_id_fkey FOREIGN KEY (tenant_id, object_id)
    REFERENCES public_objects (tenant_id, id)
);
CREATE INDEX job_objects_object ON job_objects (tenant_id, object_id);
ALTER TABLE job_objects ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_objects FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_objects USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
COMMENT ON TABLE job_objects IS 'A public object that a job names, and that stays as long as the job.';
COMMENT ON COLUMN job_objects.job_id IS 'which job';
COMMENT ON COLUMN job_objects.object_id IS 'which object';
COMMENT ON COLUMN job_objects.tenant_id IS 'whose both are';
