-- What fills an installation with jobs and changes for benchmarks/scale.py.

CREATE FUNCTION pg_temp.fill_jobs(_template text, _others text[], _count integer) RETURNS void LANGUAGE plpgsql AS $$
-- Copies of one job, half of them of its tenant, the others of tenants `_others` in turn; of 100 there are 3 that failed,
-- 2 that were cancelled, 1 that waits on the queue; the others succeeded and have results.
DECLARE
  template jobs;
  own text;
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  SELECT * INTO STRICT template FROM jobs WHERE id = _template;
  own := template.tenant_id;
  INSERT INTO jobs (id, tenant_id, dataset_id, principal, kind, problem, plan, price, total, fair_tag, state, attempt, step,
      error_code, error_detail, created_at, started_at, finished_at)
    SELECT 'job_fill_' || n, CASE WHEN n % 2 = 0 THEN own ELSE _others[1 + n / 2 % cardinality(_others)] END,
      CASE WHEN n % 2 = 0 THEN template.dataset_id END, template.principal, template.kind, template.problem, template.plan,
      template.price, template.total, n / 2 + 1, state, 1, template.total, CASE WHEN state = 'failed' THEN 'solver_failed' END,
      CASE WHEN state = 'failed' THEN 'the solver did not finish' END, at,
      CASE WHEN state IN ('succeeded', 'failed') THEN at END, CASE WHEN state <> 'queued' THEN at END
    FROM (SELECT n, now() - make_interval(secs => 100 * (_count - n)) AS at,
            CASE WHEN n / 2 % 100 < 3 THEN 'failed' WHEN n / 2 % 100 < 5 THEN 'cancelled' WHEN n / 2 % 100 < 6 THEN 'queued'
              ELSE 'succeeded' END AS state
          FROM generate_series(1, _count) AS n) AS made;
  INSERT INTO job_events (job_id, seq, event, details)
    SELECT id, seq, 'state', jsonb_build_object('state', (ARRAY['queued', 'running', state])[seq])
    FROM jobs, generate_series(1, 3) AS seq WHERE id LIKE 'job_fill_%' AND (state <> 'queued' OR seq = 1);
  INSERT INTO job_results (job_id, result, certificate)
    SELECT id, convert_to(repeat('[0.123456789,1.5]', 60), 'UTF8'), plan FROM jobs
    WHERE id LIKE 'job_fill_%' AND state = 'succeeded';
  INSERT INTO idempotent_requests (tenant_id, principal, key, request_digest, job_id)
    SELECT tenant_id, principal, id, sha256(convert_to(id, 'UTF8')), id FROM jobs WHERE id LIKE 'job_fill_%';
  PERFORM procrastinate_defer_jobs_v1(array_agg(
      ROW('jobs', 'discreet.run_job', -fair_tag, NULL, id, jsonb_build_object('job_id', id), NULL)::procrastinate_job_to_defer_v1))
    FROM jobs WHERE id LIKE 'job_fill_%' AND state = 'queued';
END
$$;

CREATE FUNCTION pg_temp.fill_audit_log(_template text, _count integer) RETURNS void LANGUAGE sql AS $$
-- Changes by the owner of a job's tenant: keys that were made and revoked in turn.
INSERT INTO audit_log (tenant_id, at, action, object, principal, role, credential, details)
  SELECT j.tenant_id, now() - make_interval(secs => 100 * (_count - n)),
    CASE WHEN n % 2 = 0 THEN 'key.create' ELSE 'key.revoke' END, 'key_fill_' || n / 2, j.principal, 'owner', 'key_fill', '{}'
  FROM jobs AS j, generate_series(1, _count) AS n WHERE j.id = _template
$$;
