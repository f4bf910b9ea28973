CREATE OR REPLACE FUNCTION accept_jobs(
  _tenant text, _principal text, _accounts text[], _queue text, _task text, _orders jsonb
)
RETURNS TABLE (outcome text, job_id text, created_at timestamptz, standings jsonb, reusable text[])
LANGUAGE plpgsql AS $$
-- Jobs of one principal on the same accounts, each on its own: one row for each, in order. outcome, and what was written:
--   in_flight      another request holds this idempotency key now; nothing
--   known          the same request was accepted before, as job_id; nothing
--   reused         the key was used with another request; nothing
--   dataset_gone   it, or a block that it names, was deleted, or its time is over; nothing
--   object_gone    a public object that it names was deleted; nothing
--   refused        standings: each account whose cap does not let the price pass; nothing
--   accepted       everything; reusable: earlier jobs that have released the same
-- Together, because whoever has an account's lock keeps it until the commit is on the disk; all lock the same accounts, so
-- that they do it in one order. An error writes nothing of any of them.
-- _orders is a list of {key, digest (hex), job, dataset, kind, problem, plan, seed, total, price, events (canonical text),
-- session, terms, budget, traceparent, seal, release_key (hex), released_by, name, objects, blocks}. Without a dataset and
-- with released_by a job reads what these jobs released. objects are ids of the public objects that the problem names,
-- blocks those of the versions of blocks that it reads.
-- _accounts are those of the data (none: the data are public, and nothing is charged); caps on the tenant and on the
-- principal are added here, so that no caller can forget them.
-- With a session a job is federated: it waits for its agents instead of a worker. Nothing is reserved yet: the accounts are
-- those of the agents, who are known when the owner has signed the roster.
-- It tells nobody: a NOTIFY takes a lock of the whole database until the commit is on the disk. The caller tells afterwards.
DECLARE
  scope text := set_config('discreet.tenant', _tenant, true) || set_config('discreet.tell', 'later', true);
  payers text[] := CASE WHEN cardinality(_accounts) > 0 THEN _accounts || ledger_caps(_tenant, _principal) END;
  one jsonb;
  job text;
  dataset text;
  idempotency_key text;
  request bytea;
  session text;
  known bytea;
  release bytea;
  tag integer;
  named text[];
  parts text[];
  there integer;
BEGIN
  FOR n IN 0 .. jsonb_array_length(_orders) - 1 LOOP
    one := _orders -> n;
    job := one ->> 'job';
    dataset := one ->> 'dataset';
    idempotency_key := one ->> 'key';
    request := decode(one ->> 'digest', 'hex');
    session := one ->> 'session';
    release := decode(one ->> 'release_key', 'hex');
    named := NULL;
    IF one -> 'objects' -> 0 IS NOT NULL THEN  -- most jobs name none, and shall not pay for a query that finds nothing
      named := ARRAY(SELECT DISTINCT jsonb_array_elements_text(one -> 'objects'));
    END IF;
    parts := NULL;
    IF one -> 'blocks' -> 0 IS NOT NULL THEN
      parts := ARRAY(SELECT DISTINCT jsonb_array_elements_text(one -> 'blocks'));
    END IF;
    job_id := NULL;
    created_at := NULL;
    standings := NULL;
    reusable := NULL;
    IF NOT pg_try_advisory_xact_lock(hashtextextended(_tenant || '/' || _principal || '/' || idempotency_key, 0)) THEN
      outcome := 'in_flight';
      RETURN NEXT;
      CONTINUE;
    END IF;
    SELECT r.request_digest, r.job_id INTO known, job_id FROM idempotent_requests AS r
      WHERE r.tenant_id = _tenant AND r.principal = _principal AND r.key = idempotency_key;
    IF FOUND THEN
      outcome := CASE WHEN known = request THEN 'known' ELSE 'reused' END;
      RETURN NEXT;
      CONTINUE;
    END IF;
    IF dataset IS NOT NULL THEN
      -- Shared, so that the dataset cannot be erased before this transaction ends.
      PERFORM FROM datasets AS d WHERE d.id = dataset AND d.tenant_id = _tenant AND d.deleted_at IS NULL
        AND (d.expires_at IS NULL OR d.expires_at > now())
        AND NOT (d.delete_after_job AND EXISTS (SELECT FROM jobs AS j WHERE j.dataset_id = d.id AND j.state = 'succeeded'))
        FOR SHARE OF d;
      IF NOT FOUND THEN
        outcome := 'dataset_gone';
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF parts IS NOT NULL THEN
      -- Shared as well, in the order of their ids: all of them are there, or the job reads none.
      PERFORM FROM datasets AS d WHERE d.id = ANY (parts) AND d.tenant_id = _tenant AND d.deleted_at IS NULL
        AND (d.expires_at IS NULL OR d.expires_at > now()) ORDER BY d.id FOR SHARE OF d;
      GET DIAGNOSTICS there = ROW_COUNT;
      IF there < cardinality(parts) THEN
        outcome := 'dataset_gone';
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF named IS NOT NULL THEN
      -- Shared as well: none can be deleted before the row that holds it is there.
      PERFORM FROM public_objects AS o WHERE o.tenant_id = _tenant AND o.id = ANY (named) FOR KEY SHARE OF o;
      GET DIAGNOSTICS there = ROW_COUNT;
      IF there < cardinality(named) THEN
        outcome := 'object_gone';
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF payers IS NOT NULL THEN
      SELECT jsonb_agg(to_jsonb(r)) FILTER (WHERE NOT r.admitted) INTO standings
        FROM ledger_reserve(job, payers, one -> 'price', one ->> 'events', _principal) AS r;
      IF standings IS NOT NULL THEN
        outcome := 'refused';
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    tag := CASE WHEN session IS NULL THEN fair_tag(_tenant) ELSE 0 END;
    INSERT INTO jobs (id, tenant_id, dataset_id, principal, kind, problem, plan, price, seed, tamper_seal, traceparent,
        total, fair_tag, released_by, release_key, name, state)
      VALUES (job, _tenant, dataset, _principal, one ->> 'kind', one -> 'problem', one -> 'plan', one -> 'price',
        (one ->> 'seed')::bigint, one ->> 'seal', one ->> 'traceparent', (one ->> 'total')::integer, tag,
        CASE WHEN jsonb_typeof(one -> 'released_by') = 'array'
          THEN ARRAY(SELECT jsonb_array_elements_text(one -> 'released_by')) END,
        release, one ->> 'name', CASE WHEN session IS NULL THEN 'queued' ELSE 'awaiting_agents' END)
      RETURNING jobs.created_at INTO created_at;
    INSERT INTO idempotent_requests (tenant_id, principal, key, request_digest, job_id)
      VALUES (_tenant, _principal, idempotency_key, request, job);
    IF named IS NOT NULL THEN
      INSERT INTO job_objects (job_id, object_id, tenant_id) SELECT job, o, _tenant FROM unnest(named) AS o;
    END IF;
    IF parts IS NOT NULL THEN
      INSERT INTO job_blocks (job_id, dataset_id, tenant_id) SELECT job, d, _tenant FROM unnest(parts) AS d;
    END IF;
    INSERT INTO job_events (job_id, seq, event, details) VALUES (job, 1, 'state', '{"state": "queued"}');
    IF session IS NULL THEN
      PERFORM procrastinate_defer_jobs_v1(ARRAY[
        ROW(queue_of(_queue, one -> 'plan'), _task, -tag, NULL, job, jsonb_build_object('job_id', job), NULL)]::procrastinate_job_to_defer_v1[]);
    ELSE
      INSERT INTO sessions (job_id, id, tenant_id, terms, budget)
        VALUES (job, session, _tenant, one -> 'terms', one -> 'budget');
      INSERT INTO job_events (job_id, seq, event, details) VALUES (job, 2, 'state', '{"state": "awaiting_agents"}');
    END IF;
    outcome := 'accepted';
    job_id := job;
    reusable := CASE WHEN release IS NOT NULL THEN reusable_jobs(_tenant, release) END;
    RETURN NEXT;
  END LOOP;
END
$$;
