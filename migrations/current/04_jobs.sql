-- Jobs: acceptance, turns, events, releases and results.

-- A job: what was requested, what it will do, and its state.
CREATE TABLE jobs (
  id text PRIMARY KEY,  -- identifies the job
  tenant_id text NOT NULL REFERENCES tenants,  -- whose it is
  dataset_id text REFERENCES datasets,  -- what it reads; null: blocks of a source, what its problem holds, or agents' data
  principal text NOT NULL,  -- who asked for it
  kind text NOT NULL,  -- of problem
  problem jsonb NOT NULL,  -- the problem to solve, as it was requested
  plan jsonb NOT NULL,  -- what will be done: mechanisms with their noise, steps, limits
  price jsonb NOT NULL,  -- what is charged for that, by price column
  seed bigint,  -- of the noise of a simulation; null: noise is drawn anew, as it always is for private data
  tamper_seal text,  -- MAC over what it will do: key id, colon, hex (no colon: the digests' key); null: federated
  traceparent text,  -- the trace context of the request (W3C Trace Context); null: none
  state text NOT NULL DEFAULT 'queued',  -- its state
  attempt integer NOT NULL DEFAULT 0,  -- the fencing token: it grows by one each time that a process takes the job
  failures integer NOT NULL DEFAULT 0,  -- attempts that failed without a result; a job with too many is not tried again
  lease_until timestamptz,  -- when the lease of the worker that has the job ends; null: no worker has it
  cancel_requested boolean NOT NULL DEFAULT false,  -- the process that runs it must stop
  step integer NOT NULL DEFAULT 0,  -- progress, of total
  total integer NOT NULL DEFAULT 1,  -- the number of steps that the plan has
  fair_tag integer NOT NULL DEFAULT 0,  -- its turn: small tags run first; 0 for federated jobs, which wait for agents
  error_code text,  -- why it failed, as a stable code; null: it did not fail
  error_detail text,  -- the same in a sentence
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was accepted
  started_at timestamptz,  -- when it was first taken
  finished_at timestamptz,  -- when it reached its final state
  released_by text[],  -- the jobs whose releases it reuses, free of charge; null: it makes its own release
  release_key bytea,  -- SHA-256 of dataset, kind and all fields that its release fixes; null: it has no such release
  name text,  -- the name that its sender gave it; null: none
  mostly_noise boolean NOT NULL DEFAULT false,  -- its result says that it is mostly noise
  headline text,  -- the answer of its result, in a sentence; null: none, or deleted with the result
  result_gone_at timestamptz,  -- when its result, release and events were deleted by retention; null: they were not
  source_id text,  -- the source whose blocks it reads; whoever writes the row has seen its versions; null: it reads no blocks
  versions int4multirange,  -- which versions of them, by their numbers in the source; its problem names them in order, sealed
  CONSTRAINT jobs_state CHECK (
    state IN ('queued', 'awaiting_agents', 'waiting', 'running', 'succeeded', 'failed', 'cancelled')),
  CONSTRAINT jobs_headline CHECK (length(headline) <= 200),
  CONSTRAINT jobs_versions CHECK ((source_id IS NULL) = (versions IS NULL) AND (source_id IS NULL OR dataset_id IS NULL))
);
CREATE INDEX jobs_page ON jobs (tenant_id, created_at, id);
CREATE INDEX jobs_state ON jobs (tenant_id, state, created_at, id);
CREATE INDEX jobs_fair ON jobs (tenant_id, fair_tag) WHERE started_at IS NOT NULL OR state = 'queued';
CREATE INDEX jobs_turn ON jobs (fair_tag) WHERE started_at IS NOT NULL;
CREATE INDEX jobs_active ON jobs (fair_tag) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_dataset ON jobs (dataset_id) WHERE dataset_id IS NOT NULL;
CREATE INDEX jobs_source ON jobs (source_id, state) WHERE source_id IS NOT NULL;
-- Jobs that have not ended, among all that have, with everything that is counted of them.
CREATE INDEX jobs_open ON jobs (tenant_id, dataset_id) INCLUDE (state, kind, created_at, lease_until)
  WHERE state IN ('queued', 'awaiting_agents', 'waiting', 'running');
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND result_gone_at IS NULL;
CREATE INDEX jobs_lease ON jobs (lease_until) WHERE state = 'running';
CREATE INDEX jobs_released ON jobs (tenant_id, release_key, ((price ->> 'rho')::numeric) DESC, created_at DESC)
  WHERE release_key IS NOT NULL AND state = 'succeeded';
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON jobs USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
-- What was accepted cannot change: identity, problem, seed and MAC. Plan and price become final with a signed roster.
GRANT SELECT, INSERT,
  UPDATE (plan, price, state, attempt, failures, lease_until, cancel_requested, step, total, error_code, error_detail,
    started_at, finished_at, mostly_noise, headline) ON jobs TO discreet_app;

-- A public object that a job names, which cannot be deleted while the job exists.
CREATE TABLE job_objects (
  job_id text NOT NULL REFERENCES jobs,  -- which job
  object_id text NOT NULL,  -- which object
  tenant_id text NOT NULL,  -- whose both are
  PRIMARY KEY (job_id, object_id),
  CONSTRAINT job_objects_tenant_id_object_id_fkey FOREIGN KEY (tenant_id, object_id)
    REFERENCES public_objects (tenant_id, id)
);
CREATE INDEX job_objects_object ON job_objects (tenant_id, object_id);
ALTER TABLE job_objects ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_objects FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_objects USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT ON job_objects TO discreet_app;

-- The versions of blocks that jobs read, with the rights of who asks. A job writes none of these rows: it has its set of numbers.
CREATE VIEW job_blocks WITH (security_invoker = true) AS
SELECT j.id AS job_id, d.id AS dataset_id, j.tenant_id
FROM jobs AS j JOIN datasets AS d ON d.source_id = j.source_id AND d.tenant_id = j.tenant_id
  AND d.number >= lower(j.versions) AND d.number < upper(j.versions) AND j.versions @> d.number;
GRANT SELECT ON job_blocks TO discreet_app;

-- The events of a job's stream, in order. Rows are added and never changed; retention deletes all but the last.
CREATE TABLE job_events (
  job_id text NOT NULL REFERENCES jobs,  -- whose stream
  seq integer NOT NULL,  -- the event's number in the stream, from 1
  event text NOT NULL,  -- its type: state or progress
  details jsonb NOT NULL,  -- the state, or step and total
  PRIMARY KEY (job_id, seq),
  CONSTRAINT job_events_seq CHECK (seq > 0)
);
ALTER TABLE job_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_events FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_events
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id));
GRANT SELECT, INSERT ON job_events TO discreet_app;

-- What a job's mechanisms released, written before anything is computed from it, so that data are touched once, and kept as
-- long as the job's result, so that it can answer other questions.
CREATE TABLE releases (
  job_id text PRIMARY KEY REFERENCES jobs,  -- whose release; the row is deleted when the job fails or is cancelled
  attempt integer NOT NULL,  -- the fencing token of who wrote it
  content_key_id text NOT NULL,  -- the master key that wraps wrapped_key, or sealed the release where there is none
  wrapped_key bytea,  -- the release's own key, bound to terms; null: the release of a session
  terms bytea,  -- SHA-256 of what was accepted: tenant, problem, plan, price, dataset with public part; null: as for wrapped_key
  digest bytea,  -- SHA-256 of what was released, which certificates name; null: the row is deleted when the job ends
  sealed bytea NOT NULL,  -- the release under authenticated encryption
  at timestamptz NOT NULL DEFAULT now()  -- when it was written
);
ALTER TABLE releases ENABLE ROW LEVEL SECURITY;
ALTER TABLE releases FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON releases
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id));
GRANT SELECT, INSERT, DELETE, UPDATE (content_key_id, wrapped_key, sealed) ON releases TO discreet_app;

-- A share of a running release, which its worker offers to others after data were touched. What they found is sealed under a key
-- that wrapped_key holds, until their worker has it; the row goes when the release is kept, or its attempt ends in any way.
CREATE TABLE job_shares (
  job_id text NOT NULL REFERENCES jobs,  -- whose release
  number integer NOT NULL,  -- which share, from 0
  shares integer NOT NULL,  -- of how many, whatever the content
  attempt integer NOT NULL,  -- the fencing token of who offers it
  content_key_id text NOT NULL,  -- the master key that wraps wrapped_key
  wrapped_key bytea,  -- the key of what is found, which workers alone can unwrap; null: nothing is needed any more
  taken_by bigint,  -- the number in procrastinate_workers of the worker that reads it; 0: the one that offers it; null: nobody
  sealed bytea,  -- the sums that were found, under authenticated encryption; null: none yet, or fetched already
  PRIMARY KEY (job_id, number),
  CONSTRAINT job_shares_number CHECK (number >= 0 AND number < shares)
);
CREATE INDEX job_shares_open ON job_shares (job_id) WHERE taken_by IS NULL AND wrapped_key IS NOT NULL;
ALTER TABLE job_shares ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_shares FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON job_shares USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT, INSERT, DELETE, UPDATE (wrapped_key, taken_by, sealed) ON job_shares TO discreet_app;

-- A published result.
CREATE TABLE job_results (
  job_id text PRIMARY KEY REFERENCES jobs,  -- whose result
  result bytea,  -- JSON text, as the API returns it; null: deleted by retention
  certificate jsonb NOT NULL,  -- what was charged and released, with the result's digest, signed
  at timestamptz NOT NULL DEFAULT now()  -- when it was published
);
ALTER TABLE job_results ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_results FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON job_results
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id));
GRANT SELECT, INSERT ON job_results TO discreet_app;

-- A large field of a result.
CREATE TABLE result_tables (
  job_id text NOT NULL REFERENCES jobs,  -- whose result
  name text NOT NULL,  -- which field
  parquet bytea NOT NULL,  -- its rows, as a Parquet file
  PRIMARY KEY (job_id, name)
);
ALTER TABLE result_tables ENABLE ROW LEVEL SECURITY;
ALTER TABLE result_tables FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON result_tables
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id));
GRANT SELECT, INSERT ON result_tables TO discreet_app;

CREATE FUNCTION forget_results(_days integer, _most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- Jobs of all tenants that ended so many days ago, up to _most of them, oldest first, lose what they have made: result,
-- tables, release, a session's last message, what their page says of it, and all events but the last. Job, certificate
-- and ledger stay. One that is asked again by a job that has not ended waits for that. Returns how many jobs it was.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  old text[];
BEGIN
  IF _days IS NULL OR _days < 1 THEN
    RAISE EXCEPTION 'results are kept for a day at least' USING ERRCODE = 'DL001';
  END IF;
  PERFORM set_config('discreet.tenant', '*', true);
  old := ARRAY(
    SELECT j.id FROM jobs AS j
    WHERE j.finished_at < now() - make_interval(days => _days) AND j.result_gone_at IS NULL
      AND NOT EXISTS (SELECT FROM jobs AS again WHERE again.state IN ('queued', 'awaiting_agents', 'waiting', 'running')
        AND j.id = ANY (again.released_by))
    ORDER BY j.finished_at LIMIT _most FOR UPDATE OF j SKIP LOCKED);
  UPDATE jobs SET result_gone_at = now(), headline = NULL WHERE id = ANY (old);
  UPDATE job_results SET result = NULL WHERE job_id = ANY (old);
  DELETE FROM result_tables WHERE job_id = ANY (old);
  DELETE FROM releases WHERE job_id = ANY (old);
  UPDATE sessions SET sealed = NULL, content_key_id = NULL WHERE job_id = ANY (old);
  DELETE FROM job_events AS e WHERE e.job_id = ANY (old)
    AND e.seq < (SELECT max(last.seq) FROM job_events AS last WHERE last.job_id = e.job_id);
  PERFORM set_config('discreet.tenant', coalesce(scope, ''), true);
  RETURN cardinality(old);
END
$$;
REVOKE ALL ON FUNCTION forget_results(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_results(integer, integer) TO discreet_app;

-- An accepted request by its Idempotency-Key: the same request with the same key gets the same job again.
CREATE TABLE idempotent_requests (
  tenant_id text NOT NULL,  -- who asked
  principal text NOT NULL,  -- who of them
  key text NOT NULL,  -- the header's value
  request_digest bytea NOT NULL,  -- SHA-256 of the body: another request under this key is refused
  job_id text NOT NULL REFERENCES jobs,  -- the job that it made
  created_at timestamptz NOT NULL DEFAULT now(),  -- when the time starts for which the key is kept
  PRIMARY KEY (tenant_id, principal, key)
);
CREATE INDEX idempotent_requests_age ON idempotent_requests (created_at);
ALTER TABLE idempotent_requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotent_requests FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON idempotent_requests USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE ON idempotent_requests TO discreet_app;

-- The cost of a turn.
CREATE FUNCTION planned_seconds(_plan jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
-- What a job's release takes, whatever the data, and what its plan says of the result: whole seconds, at least 1.
SELECT greatest(1, ceil(coalesce((_plan #>> '{resources,release_quantum_seconds}')::float8, 0)
  + coalesce((_plan #>> '{resources,result_seconds}')::float8, 0))::integer)
$$;

-- Long jobs never take all places of a worker.
CREATE FUNCTION queue_of(_queue text, _plan jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
-- Jobs planned to take more than a minute have a queue of their own, from which a worker fills all places but one.
SELECT CASE WHEN planned_seconds(_plan) > 60 THEN _queue || '-long' ELSE _queue END
$$;

-- The order of jobs: start-time fair queueing (Goyal, Vin, Cheng 1996) over tenants, by the time that jobs are planned to take.
CREATE FUNCTION fair_tag(_tenant text) RETURNS integer
LANGUAGE plpgsql SET enable_sort = off AS $$
-- The start tag of a tenant's next job: that of the tenant's last and the seconds which that is planned to take, but at
-- least the virtual time. Small tags run first. The virtual time is the largest tag that has been started: it only grows,
-- whatever long jobs still run, so that nobody who comes is served before those who have waited. A tenant's last is the last
-- that has been, or waits to be, started: jobs that were cancelled before have cost nobody a turn. It looks at the tags of
-- all tenants, in the system's scope.
DECLARE
  scope text := current_setting('discreet.tenant', true);
  virtual_time integer;
  own integer;
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  SELECT j.fair_tag INTO virtual_time FROM jobs AS j WHERE j.started_at IS NOT NULL ORDER BY j.fair_tag DESC LIMIT 1;
  SELECT j.fair_tag + planned_seconds(j.plan) INTO own FROM jobs AS j
    WHERE j.tenant_id = _tenant AND (j.started_at IS NOT NULL OR j.state = 'queued') ORDER BY j.fair_tag DESC LIMIT 1;
  PERFORM set_config('discreet.tenant', scope, true);
  RETURN greatest(coalesce(virtual_time, 0), coalesce(own, 1));
END
$$;

-- A federated job waits for agents, not for a worker: it takes no turn, and its start moves no virtual time.
CREATE FUNCTION jobs_no_turn() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.fair_tag := 0;
  RETURN NEW;
END
$$;
CREATE TRIGGER jobs_no_turn BEFORE UPDATE OF state ON jobs
  FOR EACH ROW WHEN (NEW.state = 'awaiting_agents') EXECUTE FUNCTION jobs_no_turn();

-- Jobs that have already released what another job would, least noise first. They are shown to who asks a question.
CREATE FUNCTION reusable_jobs(_tenant text, _key bytea)
RETURNS text[]
LANGUAGE sql STABLE SET enable_sort = off AS $$
SELECT coalesce(array_agg(found.id), '{}') FROM (
  SELECT j.id FROM jobs AS j
    WHERE j.tenant_id = _tenant AND j.release_key = _key AND j.state = 'succeeded'
      AND EXISTS (SELECT FROM releases AS r WHERE r.job_id = j.id AND r.digest IS NOT NULL)
    ORDER BY (j.price ->> 'rho')::numeric DESC, j.created_at DESC LIMIT 10) AS found
$$;

-- Acceptance runs with the caller's rights, adds none, and so needs no search path of its own.
CREATE FUNCTION accept_jobs(
  _tenant text, _principal text, _accounts text[], _queue text, _task text, _orders jsonb
)
RETURNS TABLE (outcome text, job_id text, created_at timestamptz, standings jsonb, reusable text[])
LANGUAGE plpgsql AS $$
-- Jobs of one principal on the same accounts, each on its own: one row for each, in order. outcome, and what was written:
--   in_flight      another request holds this idempotency key now; nothing
--   known          the same request was accepted before, as job_id; nothing
--   reused         the key was used with another request; nothing
--   dataset_gone   it, or a block that it names, was deleted, or its time is over; nothing
--   dataset_changed  it, or the source, was corrected after the plan was made; nothing
--   object_gone    a public object that it names was deleted; nothing
--   refused        standings: each account whose cap does not let the price pass; nothing
--   accepted       everything; reusable: earlier jobs that have released the same
-- Together, because whoever has an account's lock keeps it until the commit is on the disk; all lock the same accounts, so
-- that they do it in one order. An error writes nothing of any of them.
-- _orders is a list of {key, digest (hex), job, dataset, kind, problem, plan, seed, total, price, events (canonical text),
-- session, terms, budget, traceparent, seal, release_key (hex), released_by, name, objects, source, versions, revision}: the
-- last is that of the dataset or of the source of which the plan was made. Without a
-- dataset and with released_by a job reads what these jobs released. objects are ids of the public objects that the problem
-- names; source has the blocks that it reads, of which versions are the numbers, as a multirange.
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
  source text;
  parts int4multirange;
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
    source := one ->> 'source';
    parts := (one ->> 'versions')::int4multirange;
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
      SELECT d.revision INTO there FROM datasets AS d WHERE d.id = dataset AND d.tenant_id = _tenant AND d.deleted_at IS NULL
        AND (d.expires_at IS NULL OR d.expires_at > now())
        AND NOT (d.delete_after_job AND EXISTS (SELECT FROM jobs AS j WHERE j.dataset_id = d.id AND j.state = 'succeeded'))
        FOR SHARE OF d;
      IF NOT FOUND THEN
        outcome := 'dataset_gone';
        RETURN NEXT;
        CONTINUE;
      END IF;
      IF there <> coalesce((one ->> 'revision')::integer, 1) THEN
        outcome := 'dataset_changed';
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF parts IS NOT NULL THEN
      PERFORM source_keep(source);
      IF NOT versions_offered(_tenant, source, parts) THEN
        outcome := 'dataset_gone';
        RETURN NEXT;
        CONTINUE;
      END IF;
      SELECT s.revision INTO there FROM sources AS s WHERE s.id = source AND s.tenant_id = _tenant;
      IF there <> coalesce((one ->> 'revision')::integer, 1) THEN
        outcome := 'dataset_changed';
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
        total, fair_tag, released_by, release_key, name, state, source_id, versions)
      VALUES (job, _tenant, dataset, _principal, one ->> 'kind', one -> 'problem', one -> 'plan', one -> 'price',
        (one ->> 'seed')::bigint, one ->> 'seal', one ->> 'traceparent', (one ->> 'total')::integer, tag,
        CASE WHEN jsonb_typeof(one -> 'released_by') = 'array'
          THEN ARRAY(SELECT jsonb_array_elements_text(one -> 'released_by')) END,
        release, one ->> 'name', CASE WHEN session IS NULL THEN 'queued' ELSE 'awaiting_agents' END, source, parts)
      RETURNING jobs.created_at INTO created_at;
    INSERT INTO idempotent_requests (tenant_id, principal, key, request_digest, job_id)
      VALUES (_tenant, _principal, idempotency_key, request, job);
    IF named IS NOT NULL THEN
      INSERT INTO job_objects (job_id, object_id, tenant_id) SELECT job, o, _tenant FROM unnest(named) AS o;
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

REVOKE ALL ON FUNCTION planned_seconds(jsonb), queue_of(text, jsonb), fair_tag(text), jobs_no_turn(), reusable_jobs(text, bytea),
  accept_jobs(text, text, text[], text, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION planned_seconds(jsonb), queue_of(text, jsonb), fair_tag(text), reusable_jobs(text, bytea),
  accept_jobs(text, text, text[], text, text, jsonb) TO discreet_app;
