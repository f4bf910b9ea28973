-- Who may spend which share of a source's blocks, and jobs that wait for budget.

ALTER TABLE jobs DROP CONSTRAINT jobs_state;
ALTER TABLE jobs ADD CONSTRAINT jobs_state CHECK (
  state IN ('queued', 'awaiting_agents', 'waiting', 'running', 'succeeded', 'failed', 'cancelled'));

CREATE TABLE source_rules (
  source_id text NOT NULL REFERENCES sources,
  version integer NOT NULL,
  tenant_id text NOT NULL REFERENCES tenants,
  shares jsonb NOT NULL,
  lent_days integer NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (source_id, version),
  CONSTRAINT source_rules_version CHECK (version > 0),
  CONSTRAINT source_rules_lent_days CHECK (lent_days BETWEEN 1 AND 3650)
);
COMMENT ON TABLE source_rules IS
  'Who may spend which share of each block of a source. The newest version counts; rows are added and never changed.';
COMMENT ON COLUMN source_rules.source_id IS 'which source';
COMMENT ON COLUMN source_rules.version IS 'from 1';
COMMENT ON COLUMN source_rules.tenant_id IS 'whose it is';
COMMENT ON COLUMN source_rules.shares IS 'millionths of each block by principal; together at most a million';
COMMENT ON COLUMN source_rules.lent_days IS 'what of a block is unused is lent to all, linearly over so many days from its first version on';
COMMENT ON COLUMN source_rules.created_by IS 'the principal who said so';
COMMENT ON COLUMN source_rules.created_at IS 'when that was';
ALTER TABLE source_rules ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_rules FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON source_rules USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE TABLE source_uses (
  source_id text NOT NULL REFERENCES sources,
  block text NOT NULL,
  principal text NOT NULL,
  tenant_id text NOT NULL,
  epsilon numeric(38, 0) NOT NULL,
  delta numeric(38, 0) NOT NULL,
  rho numeric(38, 0) NOT NULL,
  delta_z numeric(38, 0) NOT NULL,
  PRIMARY KEY (source_id, block, principal)
);
COMMENT ON TABLE source_uses IS
  'What each principal has spent or reserved on a block, so that shares can be held. The ledger has the last word: this admits nothing.';
COMMENT ON COLUMN source_uses.source_id IS 'which source';
COMMENT ON COLUMN source_uses.block IS 'which block of it';
COMMENT ON COLUMN source_uses.principal IS 'who asked for the jobs';
COMMENT ON COLUMN source_uses.tenant_id IS 'whose all of them are';
COMMENT ON COLUMN source_uses.epsilon IS 'the sum of this column of the prices of jobs that reserved, and were not released since';
COMMENT ON COLUMN source_uses.delta IS 'as epsilon';
COMMENT ON COLUMN source_uses.rho IS 'as epsilon';
COMMENT ON COLUMN source_uses.delta_z IS 'as epsilon';
ALTER TABLE source_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_uses FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON source_uses USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE TABLE job_waits (
  job_id text PRIMARY KEY REFERENCES jobs,
  source_id text NOT NULL REFERENCES sources,
  tenant_id text NOT NULL,
  place float8 NOT NULL,
  until timestamptz NOT NULL,
  next_try timestamptz NOT NULL,
  block text NOT NULL
);
COMMENT ON TABLE job_waits IS 'A job that waits for budget. It has reserved nothing. The row goes when it is decided or cancelled.';
COMMENT ON COLUMN job_waits.job_id IS 'which job';
COMMENT ON COLUMN job_waits.source_id IS 'whose blocks it reads';
COMMENT ON COLUMN job_waits.tenant_id IS 'whose both are';
COMMENT ON COLUMN job_waits.place IS 'its place in the order of those who wait, which never changes: small ones first';
COMMENT ON COLUMN job_waits.until IS 'when its wait is over: it is decided by then';
COMMENT ON COLUMN job_waits.next_try IS 'when shares let it pass, if nothing comes free before: it is decided then';
COMMENT ON COLUMN job_waits.block IS 'the block that lets it pass last';
CREATE INDEX job_waits_place ON job_waits (source_id, place, job_id);
CREATE INDEX job_waits_next ON job_waits (next_try);
ALTER TABLE job_waits ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_waits FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_waits USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE TABLE source_wakes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source_id text NOT NULL,
  tenant_id text NOT NULL
);
COMMENT ON TABLE source_wakes IS
  'Budget came free on a source: who waits is to be decided. Rows are only added, so that nobody who adds one waits for a decision.';
COMMENT ON COLUMN source_wakes.id IS 'which';
COMMENT ON COLUMN source_wakes.source_id IS 'on which source';
COMMENT ON COLUMN source_wakes.tenant_id IS 'whose it is';
ALTER TABLE source_wakes ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_wakes FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON source_wakes USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE FUNCTION count_use(_job text, _sign integer) RETURNS void
LANGUAGE sql AS $$
-- A job's price on each block that it reads: added to what its principal uses there (1), or taken away again (-1).
INSERT INTO source_uses AS u (source_id, block, principal, tenant_id, epsilon, delta, rho, delta_z)
  SELECT DISTINCT s.id, CASE s.cap_of WHEN 'block' THEN d.block ELSE '' END AS name, j.principal, j.tenant_id,
    _sign * (j.price ->> 'epsilon')::numeric, _sign * (j.price ->> 'delta')::numeric,
    _sign * (j.price ->> 'rho')::numeric, _sign * (j.price ->> 'delta_z')::numeric
  FROM jobs AS j
  JOIN job_blocks AS b ON b.job_id = j.id
  JOIN datasets AS d ON d.id = b.dataset_id
  JOIN sources AS s ON s.id = d.source_id
  WHERE j.id = _job ORDER BY name
  ON CONFLICT (source_id, block, principal) DO UPDATE SET epsilon = u.epsilon + excluded.epsilon,
    delta = u.delta + excluded.delta, rho = u.rho + excluded.rho, delta_z = u.delta_z + excluded.delta_z
$$;

CREATE FUNCTION jobs_turn_after_wait() RETURNS trigger
LANGUAGE plpgsql AS $$
-- A job that waited for budget takes its turn as of now: nobody's turn moved while it waited.
BEGIN
  NEW.fair_tag := fair_tag(NEW.tenant_id);
  RETURN NEW;
END
$$;
CREATE TRIGGER jobs_turn_after_wait BEFORE UPDATE OF state ON jobs
  FOR EACH ROW WHEN (OLD.state = 'waiting' AND NEW.state = 'queued') EXECUTE FUNCTION jobs_turn_after_wait();

CREATE FUNCTION jobs_budget_free() RETURNS trigger
LANGUAGE plpgsql AS $$
-- A job on blocks ended without a result. Where it waited, what it was promised is free; where it had touched nothing, what
-- it had reserved. Those who wait on that source are to be decided: also those whose wait is not committed yet.
DECLARE
  source text;
BEGIN
  SELECT d.source_id INTO source FROM job_blocks AS b JOIN datasets AS d ON d.id = b.dataset_id WHERE b.job_id = NEW.id LIMIT 1;
  IF source IS NULL OR NOT EXISTS (SELECT FROM source_rules AS r WHERE r.source_id = source) THEN
    RETURN NULL;
  END IF;
  IF OLD.state = 'waiting' THEN
    DELETE FROM job_waits AS w WHERE w.job_id = NEW.id;
  ELSIF NOT EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = NEW.id AND e.kind = 'data_touched') THEN
    PERFORM count_use(NEW.id, -1);
  END IF;
  INSERT INTO source_wakes (source_id, tenant_id) VALUES (source, NEW.tenant_id);
  RETURN NULL;
END
$$;
CREATE TRIGGER jobs_budget_free AFTER UPDATE OF state ON jobs
  FOR EACH ROW WHEN (NEW.dataset_id IS NULL AND NEW.state IN ('failed', 'cancelled') AND OLD.state <> NEW.state)
  EXECUTE FUNCTION jobs_budget_free();

REVOKE ALL ON FUNCTION count_use(text, integer), jobs_turn_after_wait(), jobs_budget_free() FROM PUBLIC;
