-- Who may spend which share of a source's blocks, and jobs that wait for budget.

-- Who may spend which share of each block of a source. The newest version applies; rows are added and never changed.
CREATE TABLE source_rules (
  source_id text NOT NULL REFERENCES sources,  -- which source
  version integer NOT NULL,  -- from 1
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  shares jsonb NOT NULL,  -- millionths of each block by principal; together at most a million
  lent_days integer NOT NULL,  -- the unused part of a block is lent to all, linearly over so many days from its first version on
  created_by text NOT NULL,  -- the principal who set it
  created_at timestamptz NOT NULL DEFAULT now(),  -- when that was
  PRIMARY KEY (source_id, version),
  CONSTRAINT source_rules_version CHECK (version > 0),
  CONSTRAINT source_rules_lent_days CHECK (lent_days BETWEEN 1 AND 3650)
);
ALTER TABLE source_rules ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_rules FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON source_rules USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT ON source_rules TO discreet_app;

-- What each principal has spent or reserved on a block, so that shares can be enforced. Only the ledger admits jobs; this table does not.
CREATE TABLE source_uses (
  source_id text NOT NULL REFERENCES sources,  -- which source
  block text NOT NULL,  -- which block of it
  principal text NOT NULL,  -- who sent the jobs
  tenant_id text NOT NULL,  -- the tenant of all of them
  epsilon numeric(38, 0) NOT NULL,  -- the sum of this column of the prices of jobs that reserved, and were not released since
  delta numeric(38, 0) NOT NULL,  -- as epsilon
  rho numeric(38, 0) NOT NULL,  -- as epsilon
  delta_z numeric(38, 0) NOT NULL,  -- as epsilon
  PRIMARY KEY (source_id, block, principal)
);
ALTER TABLE source_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_uses FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON source_uses USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE (epsilon, delta, rho, delta_z) ON source_uses TO discreet_app;

-- A job that waits for budget. It has reserved nothing. The row goes when it is decided or cancelled.
CREATE TABLE job_waits (
  job_id text PRIMARY KEY REFERENCES jobs,  -- which job
  source_id text NOT NULL REFERENCES sources,  -- whose blocks it reads
  tenant_id text NOT NULL,  -- whose both are
  place float8 NOT NULL,  -- its place among waiting jobs, which never changes: small ones first
  until timestamptz NOT NULL,  -- when its wait ends: it is decided by then
  next_try timestamptz NOT NULL,  -- when shares suffice for it, if no budget is freed before: it is decided then
  block text NOT NULL  -- the last block to allow it
);
CREATE INDEX job_waits_place ON job_waits (source_id, place, job_id);
CREATE INDEX job_waits_next ON job_waits (next_try);
ALTER TABLE job_waits ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_waits FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_waits USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE, UPDATE (next_try, block) ON job_waits TO discreet_app;

-- Budget was freed on a source: its waiting jobs are to be decided. Rows are only added, so that nobody who adds one waits for a decision.
CREATE TABLE source_wakes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- which
  source_id text NOT NULL,  -- on which source
  tenant_id text NOT NULL  -- whose it is
);
CREATE INDEX source_wakes_source ON source_wakes (source_id);
ALTER TABLE source_wakes ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_wakes FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON source_wakes USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE ON source_wakes TO discreet_app;

CREATE FUNCTION count_use(_job text, _sign integer) RETURNS void
LANGUAGE sql AS $$
-- A job's price on each block that it reads: added to what its principal uses there (1), or taken away again (-1).
INSERT INTO source_uses AS u (source_id, block, principal, tenant_id, epsilon, delta, rho, delta_z)
  SELECT DISTINCT s.id, CASE s.cap_of WHEN 'block' THEN d.block ELSE '' END AS name, j.principal, j.tenant_id,
    _sign * (j.price ->> 'epsilon')::numeric, _sign * (j.price ->> 'delta')::numeric,
    _sign * (j.price ->> 'rho')::numeric, _sign * (j.price ->> 'delta_z')::numeric
  FROM jobs AS j
  JOIN sources AS s ON s.id = j.source_id
  JOIN datasets AS d ON d.source_id = j.source_id AND d.number >= lower(j.versions) AND d.number < upper(j.versions)
    AND j.versions @> d.number
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
-- it had reserved: those who wait on that source are to be decided, also those whose wait is not committed yet. One that had
-- touched data is charged, frees nothing, and moves nobody's decision: how it ended may tell of the data.
BEGIN
  IF NOT EXISTS (SELECT FROM source_rules AS r WHERE r.source_id = NEW.source_id) THEN
    RETURN NULL;
  END IF;
  IF OLD.state = 'waiting' THEN
    DELETE FROM job_waits AS w WHERE w.job_id = NEW.id;
  ELSIF EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = NEW.id AND e.kind = 'data_touched') THEN
    RETURN NULL;
  ELSE
    PERFORM count_use(NEW.id, -1);
  END IF;
  INSERT INTO source_wakes (source_id, tenant_id) VALUES (NEW.source_id, NEW.tenant_id);
  RETURN NULL;
END
$$;
CREATE TRIGGER jobs_budget_free AFTER UPDATE OF state ON jobs
  FOR EACH ROW WHEN (NEW.source_id IS NOT NULL AND NEW.state IN ('failed', 'cancelled') AND OLD.state <> NEW.state)
  EXECUTE FUNCTION jobs_budget_free();

CREATE FUNCTION jobs_counted() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Jobs on blocks of a source with a rule that have reserved are uses of it, whoever accepted them: also who planned before
-- the rule was there. A first rule has the source alone, so that each job is counted here or was there before.
BEGIN
  IF EXISTS (SELECT FROM source_rules AS r WHERE r.source_id = NEW.source_id)
    AND EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = NEW.id AND e.kind = 'reserve')
  THEN
    PERFORM count_use(NEW.id, 1);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER jobs_counted AFTER INSERT ON jobs
  FOR EACH ROW WHEN (NEW.source_id IS NOT NULL) EXECUTE FUNCTION jobs_counted();

CREATE FUNCTION source_rules_first() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Jobs that are being accepted have committed, and whoever adds the first rule counts them, or see it and are counted under it.
BEGIN
  PERFORM source_alone(NEW.source_id);
  RETURN NEW;
END
$$;
CREATE TRIGGER source_rules_first BEFORE INSERT ON source_rules
  FOR EACH ROW WHEN (NEW.version = 1) EXECUTE FUNCTION source_rules_first();

CREATE FUNCTION waits_of_who_left() RETURNS trigger
LANGUAGE plpgsql AS $$
-- A key was revoked or a person removed: waits of theirs, if they have no other way in, are to end.
BEGIN
  INSERT INTO source_wakes (source_id, tenant_id)
    SELECT DISTINCT w.source_id, w.tenant_id FROM job_waits AS w WHERE w.tenant_id = NEW.tenant_id;
  RETURN NULL;
END
$$;
CREATE TRIGGER keys_left AFTER UPDATE OF revoked_at ON keys
  FOR EACH ROW EXECUTE FUNCTION waits_of_who_left();
CREATE TRIGGER identities_left AFTER UPDATE OF removed_at ON identities
  FOR EACH ROW EXECUTE FUNCTION waits_of_who_left();

REVOKE ALL ON FUNCTION count_use(text, integer), jobs_turn_after_wait(), jobs_budget_free(), jobs_counted(),
  source_rules_first(), waits_of_who_left() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_use(text, integer) TO discreet_app;
