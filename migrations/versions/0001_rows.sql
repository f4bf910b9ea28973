-- Row-level security: a transaction sees the rows of the one tenant that it names in `discreet.tenant`, and none when it
-- names none. `*` is the system's own scope (workers, keys, operators).
--
-- It holds for the owner of the tables too (FORCE), and so inside the SECURITY DEFINER functions. It guards against a
-- query that forgets its WHERE, not against someone who runs SQL of their own as the application role: that one can name
-- any tenant. Foreign keys are checked without it.

CREATE FUNCTION enforce_tenant(_table regclass, _condition text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', _table);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', _table);
  EXECUTE format('CREATE POLICY own_tenant ON %s USING (%s)', _table, _condition);
END
$$;

SELECT enforce_tenant('tenants', $$current_setting('discreet.tenant', true) IN (id, '*')$$);

SELECT enforce_tenant(own, $$current_setting('discreet.tenant', true) IN (tenant_id, '*')$$)
FROM unnest('{keys,accounts,ledger_entries,datasets,jobs,idempotent_requests,sessions,group_members}'::regclass[]) AS own;

-- What belongs to a job or a dataset is seen by whoever sees that.
SELECT enforce_tenant(part, $$current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id)$$)
FROM unnest('{job_events,job_results,result_tables,releases,session_tokens,session_agents}'::regclass[]) AS part;

SELECT enforce_tenant('dataset_chunks',
  $$current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM datasets WHERE datasets.id = dataset_id)$$);

DROP FUNCTION enforce_tenant(regclass, text);
