-- Uses of shares are counted by the database, so that a first rule misses none; who left waits no more; a job that had
-- touched data moves nobody's decision.

CREATE INDEX source_wakes_source ON source_wakes (source_id);

CREATE OR REPLACE FUNCTION jobs_budget_free() RETURNS trigger
LANGUAGE plpgsql AS $$
-- A job on blocks ended without a result. Where it waited, what it was promised is free; where it had touched nothing, what
-- it had reserved: those who wait on that source are to be decided, also those whose wait is not committed yet. One that had
-- touched data is charged, frees nothing, and moves nobody's decision: how it ended may tell of the data.
DECLARE
  source text;
BEGIN
  SELECT d.source_id INTO source FROM job_blocks AS b JOIN datasets AS d ON d.id = b.dataset_id WHERE b.job_id = NEW.id LIMIT 1;
  IF source IS NULL OR NOT EXISTS (SELECT FROM source_rules AS r WHERE r.source_id = source) THEN
    RETURN NULL;
  END IF;
  IF OLD.state = 'waiting' THEN
    DELETE FROM job_waits AS w WHERE w.job_id = NEW.id;
  ELSIF EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = NEW.id AND e.kind = 'data_touched') THEN
    RETURN NULL;
  ELSE
    PERFORM count_use(NEW.id, -1);
  END IF;
  INSERT INTO source_wakes (source_id, tenant_id) VALUES (source, NEW.tenant_id);
  RETURN NULL;
END
$$;

CREATE FUNCTION job_blocks_counted() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Jobs on blocks of a source with a rule that have reserved are uses of it, whoever accepted them: also who planned before
-- the rule was there. A first rule holds the source's blocks, so that each job is counted here or was there before.
DECLARE
  job text;
BEGIN
  FOR job IN
    SELECT DISTINCT n.job_id FROM named AS n JOIN datasets AS d ON d.id = n.dataset_id
    WHERE EXISTS (SELECT FROM source_rules AS r WHERE r.source_id = d.source_id)
      AND EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = n.job_id AND e.kind = 'reserve')
  LOOP
    PERFORM count_use(job, 1);
  END LOOP;
  RETURN NULL;
END
$$;
CREATE TRIGGER job_blocks_counted AFTER INSERT ON job_blocks REFERENCING NEW TABLE AS named
  FOR EACH STATEMENT EXECUTE FUNCTION job_blocks_counted();

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

REVOKE ALL ON FUNCTION job_blocks_counted(), waits_of_who_left() FROM PUBLIC;
