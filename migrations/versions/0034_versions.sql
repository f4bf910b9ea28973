-- A job on blocks has the set of their versions' numbers in its own row, where each version was a row of job_blocks, with two
-- index entries and a locked row of datasets: half a megabyte of log for a thousand blocks.

-- Nobody accepts a job, registers or erases a version between what is read here and the end.
LOCK TABLE datasets, jobs, job_blocks, source_rules IN ACCESS EXCLUSIVE MODE;
SELECT set_config('discreet.tenant', '*', true);

ALTER TABLE datasets ADD COLUMN number integer;
COMMENT ON COLUMN datasets.number IS
  'which of all versions of its source''s blocks it is, from 1, without gaps; null: it is not a block';
UPDATE datasets AS d SET number = n.number FROM (
  SELECT id, row_number() OVER (PARTITION BY source_id ORDER BY created_at, block, version) AS number
  FROM datasets WHERE source_id IS NOT NULL) AS n
WHERE n.id = d.id;
ALTER TABLE datasets DROP CONSTRAINT datasets_in_source, ADD CONSTRAINT datasets_in_source CHECK (
  (source_id IS NULL) = (block IS NULL) AND (source_id IS NULL) = (version IS NULL)
  AND (source_id IS NULL) = (number IS NULL));
CREATE UNIQUE INDEX datasets_number ON datasets (source_id, number) WHERE source_id IS NOT NULL;
-- By these it is found without a look at each version whether a job's are all there.
CREATE INDEX datasets_gone ON datasets (source_id, number) WHERE source_id IS NOT NULL AND deleted_at IS NOT NULL;
CREATE INDEX datasets_ends ON datasets (source_id, expires_at)
  WHERE source_id IS NOT NULL AND deleted_at IS NULL AND expires_at IS NOT NULL;

CREATE FUNCTION datasets_numbered() RETURNS trigger
LANGUAGE plpgsql AS $$
-- The next number in the source, whoever registers the version. Registrations of one source wait for each other (and the
-- index refuses whoever did not), rows are never deleted, and what is rolled back was no number: there are no gaps.
BEGIN
  NEW.number := 1 + coalesce(
    (SELECT d.number FROM datasets AS d WHERE d.source_id = NEW.source_id ORDER BY d.number DESC LIMIT 1), 0);
  RETURN NEW;
END
$$;
CREATE TRIGGER datasets_numbered BEFORE INSERT ON datasets
  FOR EACH ROW WHEN (NEW.source_id IS NOT NULL) EXECUTE FUNCTION datasets_numbered();

-- One lock a source stands for those of all its versions. Order of locks: decisions on a source, a version's row, the source,
-- accounts. Who accepts a job holds the source shared and no version's row; who erases one has its row, then the source alone,
-- and after that waits for nothing that an acceptance holds.
CREATE FUNCTION source_keep(_source text) RETURNS void
LANGUAGE sql AS $$
-- Shared: nothing of this source is erased before this transaction ends. Statements that follow see what was erased before.
SELECT pg_advisory_xact_lock_shared(hashtextextended(_source, 34))
$$;

CREATE FUNCTION source_alone(_source text) RETURNS void
LANGUAGE sql AS $$
-- Alone: jobs that read this source have been accepted and committed, or are accepted after this transaction.
SELECT pg_advisory_xact_lock(hashtextextended(_source, 34))
$$;

CREATE FUNCTION versions_offered(_tenant text, _source text, _versions int4multirange) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
-- Whether all these versions are there, of a source of this tenant: none was erased, and the time of none is over. Ask while
-- the source is kept. It looks at those that are not there, whatever the number of those that are.
BEGIN
  RETURN coalesce(
    NOT isempty(_versions) AND lower(_versions) >= 1
    AND upper(_versions) - 1 <= (SELECT d.number FROM datasets AS d
      WHERE d.source_id = _source AND d.tenant_id = _tenant ORDER BY d.number DESC LIMIT 1)
    AND NOT EXISTS (SELECT FROM datasets AS d WHERE d.source_id = _source AND d.deleted_at IS NOT NULL
      AND d.number >= lower(_versions) AND d.number < upper(_versions) AND _versions @> d.number)
    AND NOT EXISTS (SELECT FROM datasets AS d WHERE d.source_id = _source AND d.deleted_at IS NULL
      AND d.expires_at <= now() AND _versions @> d.number), false);
END
$$;

CREATE FUNCTION datasets_erased() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Whoever erases a version, code of any age, waits for jobs on its source that are being accepted, and they for it.
BEGIN
  PERFORM source_alone(NEW.source_id);
  RETURN NEW;
END
$$;
CREATE TRIGGER datasets_erased BEFORE UPDATE OF deleted_at ON datasets
  FOR EACH ROW WHEN (NEW.source_id IS NOT NULL AND NEW.deleted_at IS NOT NULL AND OLD.deleted_at IS NULL)
  EXECUTE FUNCTION datasets_erased();

ALTER TABLE jobs ADD COLUMN source_id text, ADD COLUMN versions int4multirange;
COMMENT ON COLUMN jobs.source_id IS
  'the source whose blocks it reads; whoever writes the row has seen its versions; null: it reads no blocks';
COMMENT ON COLUMN jobs.versions IS
  'which versions of them, by their numbers in the source; its problem names them in order, sealed';
UPDATE jobs AS j SET source_id = s.source_id, versions = s.versions FROM (
  SELECT b.job_id, min(d.source_id) AS source_id, range_agg(int4range(d.number, d.number, '[]')) AS versions
  FROM job_blocks AS b JOIN datasets AS d ON d.id = b.dataset_id GROUP BY b.job_id) AS s
WHERE s.job_id = j.id;
ALTER TABLE jobs ADD CONSTRAINT jobs_versions
  CHECK ((source_id IS NULL) = (versions IS NULL) AND (source_id IS NULL OR dataset_id IS NULL));
CREATE INDEX jobs_source ON jobs (source_id, state) WHERE source_id IS NOT NULL;

DROP TABLE job_blocks;
DROP FUNCTION job_blocks_counted();
-- The versions of blocks that jobs read, with the rights of who asks. A job writes none of these rows: it has its set of numbers.
CREATE VIEW job_blocks WITH (security_invoker = true) AS
SELECT j.id AS job_id, d.id AS dataset_id, j.tenant_id
FROM jobs AS j JOIN datasets AS d ON d.source_id = j.source_id AND d.tenant_id = j.tenant_id
  AND d.number >= lower(j.versions) AND d.number < upper(j.versions) AND j.versions @> d.number;

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
-- session, terms, budget, traceparent, seal, release_key (hex), released_by, name, objects, source, versions}. Without a
-- dataset and with released_by a job reads what these jobs released. objects are ids of the public objects that the problem
-- names; source has the blocks that it reads, of which versions are the numbers, as a multirange. Code from before schema
-- 0034 says blocks instead of both: ids of versions.
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
    IF one -> 'blocks' -> 0 IS NOT NULL THEN  -- a number for each, or one that nobody has
      SELECT min(d.source_id), range_agg(int4range(coalesce(d.number, 0), coalesce(d.number, 0), '[]')) INTO source, parts
        FROM jsonb_array_elements_text(one -> 'blocks') AS b(id) LEFT JOIN datasets AS d ON d.id = b.id AND d.tenant_id = _tenant
        HAVING count(DISTINCT d.source_id) = 1;
      IF NOT FOUND THEN
        source := '';
        parts := '{[0,1)}';
      END IF;
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
      PERFORM source_keep(source);
      IF NOT versions_offered(_tenant, source, parts) THEN
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

CREATE OR REPLACE FUNCTION count_use(_job text, _sign integer) RETURNS void
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

CREATE OR REPLACE FUNCTION jobs_budget_free() RETURNS trigger
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
DROP TRIGGER jobs_budget_free ON jobs;
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

REVOKE ALL ON FUNCTION datasets_numbered(), source_keep(text), source_alone(text),
  versions_offered(text, text, int4multirange), datasets_erased(), jobs_counted(), source_rules_first() FROM PUBLIC;

-- What most jobs on blocks ask of the ledger takes fewer statements: one run of neighbours, in one row of block_pages.
CREATE OR REPLACE FUNCTION ledger_write_blocks(
  _last ledger_entries, _chain accounts, _kind text, _job text, _actor text, _events text, _price jsonb,
  _totals_sign integer, _reserved_sign integer, _blocks int4multirange, _sums text, _pages block_pages[]
) RETURNS ledger_entries
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- One line in a chain of blocks whose lock the caller holds, and what ledger_blocks_after says of these blocks with it.
DECLARE
  one block_pages;
BEGIN
  IF _totals_sign = 0 AND _reserved_sign = 0 THEN
    NULL;
  ELSIF cardinality(_pages) = 1 THEN  -- a month of days: faster by itself
    one := _pages[1];
    UPDATE block_pages AS p SET added = one.added, delta = one.delta, delta_z = one.delta_z, epsilon = one.epsilon,
      rho = one.rho, reserved_delta = one.reserved_delta, reserved_delta_z = one.reserved_delta_z,
      reserved_epsilon = one.reserved_epsilon, reserved_rho = one.reserved_rho
    WHERE p.chain_id = _chain.id AND p.page = one.page;
  ELSE
    UPDATE block_pages AS p SET added = n.added, delta = n.delta, delta_z = n.delta_z, epsilon = n.epsilon, rho = n.rho,
      reserved_delta = n.reserved_delta, reserved_delta_z = n.reserved_delta_z, reserved_epsilon = n.reserved_epsilon,
      reserved_rho = n.reserved_rho
    FROM unnest(_pages) AS n WHERE p.chain_id = _chain.id AND p.page = n.page;
  END IF;
  RETURN ledger_write(_last, _chain, _kind, _job, _actor, NULL, _events, _price,
    CASE _totals_sign WHEN 0 THEN _last.totals ELSE ledger_add(_last.totals, _price, _totals_sign) END,
    CASE _reserved_sign WHEN 0 THEN _last.reserved ELSE ledger_add(_last.reserved, _price, _reserved_sign) END,
    '{}', '{}', _blocks, _sums);
END
$$;

CREATE OR REPLACE FUNCTION ledger_reserve_blocks(_job text, _accounts text[], _price jsonb, _events text, _actor text)
RETURNS TABLE (account_id text, scope text, subject text, admitted boolean, totals jsonb, reserved jsonb, cap jsonb)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- ledger_reserve where some of the accounts are those of blocks: one line in their chain, and one on each other account.
-- Neighbours may be named together, chain.1-30. How blocks stand is told only where nothing was written: who is admitted
-- does not ask.
DECLARE
  plain text[] := '{}';
  chains text[];
  spans int4multirange[];
  first integer;
  final integer;
  named bigint;
  held accounts[];
  lasts ledger_entries[];
  account accounts;
  last ledger_entries;
  written ledger_entries;
  in_order boolean;
  after record;
  counted bigint := 0;
  within bigint := 0;
  bound text[] := '{}';
  changed block_pages[] := '{}';
  passes boolean;
  price_delta numeric := (_price->>'delta')::numeric;
  price_delta_z numeric := (_price->>'delta_z')::numeric;
  price_epsilon numeric := (_price->>'epsilon')::numeric;
  price_rho numeric := (_price->>'rho')::numeric;
BEGIN
  IF array_to_string(_accounts, ' ') !~
    '^[^ .]+([.][1-9][0-9]{0,8}(-[1-9][0-9]{0,8})?)?( [^ .]+([.][1-9][0-9]{0,8}(-[1-9][0-9]{0,8})?)?)*$'
  THEN
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  IF cardinality(_accounts) = 1 THEN  -- most jobs: neighbours, and no cap but theirs
    chains := ARRAY[split_part(_accounts[1], '.', 1)];
    first := split_part(split_part(_accounts[1], '.', 2), '-', 1)::integer;
    final := split_part(split_part(_accounts[1], '.', 2), '-', -1)::integer;
    spans := ARRAY[int4multirange(int4range(first, greatest(first, final), '[]'))];
    named := final - first + 1;
    in_order := first <= final;
  ELSE
    plain := ARRAY(SELECT n FROM unnest(_accounts) AS n WHERE strpos(n, '.') = 0);
    SELECT array_agg(c.chain ORDER BY c.chain), array_agg(c.span ORDER BY c.chain), sum(c.many), bool_and(c.in_order)
    INTO chains, spans, named, in_order
    FROM (
      SELECT b.chain, range_agg(int4range(b.first, greatest(b.first, b.last), '[]')) AS span,
        sum(b.last - b.first + 1) AS many, bool_and(b.first <= b.last) AS in_order
      FROM (SELECT split_part(n, '.', 1) AS chain, split_part(split_part(n, '.', 2), '-', 1)::integer AS first,
              split_part(split_part(n, '.', 2), '-', -1)::integer AS last
            FROM unnest(_accounts) AS n WHERE strpos(n, '.') > 0) AS b
      GROUP BY b.chain
    ) AS c;
  END IF;
  held := ledger_hold(plain || chains);
  IF NOT in_order OR cardinality(held) <> cardinality(plain) + cardinality(chains)
  THEN
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  FOREACH account IN ARRAY held LOOP
    IF (account.scope = 'source') <> (account.id = ANY (chains)) THEN
      RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
    END IF;
  END LOOP;
  lasts := ledger_ends(held);
  IF cardinality(lasts) <> cardinality(held) THEN
    RAISE EXCEPTION 'an account has no entry' USING ERRCODE = 'DL002';
  END IF;
  FOR n IN 1 .. cardinality(chains) LOOP
    after := ledger_blocks_after(chains[n], spans[n], _price, 1, 1);
    counted := counted + after.there;
    within := within + after.passed;
    bound := bound || after.sums;
    changed := CASE n WHEN 1 THEN after.pages ELSE changed || after.pages END;
  END LOOP;
  IF counted <> named THEN  -- fewer blocks are there than were named, or one was named twice
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  passes := within = named;
  IF passes AND cardinality(plain) > 0 THEN
    passes := NOT EXISTS (
      SELECT FROM unnest(lasts) AS l
      WHERE l.blocks IS NULL AND NOT coalesce(ledger_passes(ledger_add(l.totals, _price, 1), l.filters), false));
  END IF;
  IF cardinality(plain) > 0 THEN  -- before anything is written
    RETURN QUERY
      SELECT a.id, a.scope, a.subject, passes OR ledger_passes(ledger_add(l.totals, _price, 1), l.filters), l.totals,
        l.reserved, l.cap
      FROM unnest(held) AS a JOIN unnest(lasts) AS l ON l.account_id = a.id WHERE a.scope <> 'source';
  END IF;
  FOR n IN 1 .. cardinality(chains) LOOP
    IF passes THEN
      IF cardinality(held) = 1 THEN  -- most jobs: faster than to look for it
        account := held[1];
        last := lasts[1];
        written := ledger_write_blocks(last, account, 'reserve', _job, _actor, _events, _price, 1, 1, spans[n], bound[n], changed);
      ELSE
        SELECT a.* INTO STRICT account FROM unnest(held) AS a WHERE a.id = chains[n];
        SELECT l.* INTO STRICT last FROM unnest(lasts) AS l WHERE l.account_id = chains[n];
        written := ledger_write_blocks(last, account, 'reserve', _job, _actor, _events, _price, 1, 1, spans[n], bound[n],
          ARRAY(SELECT p FROM unnest(changed) AS p WHERE p.chain_id = chains[n]));
      END IF;
      CONTINUE;
    END IF;
    RETURN QUERY
      SELECT b.account_id, 'data', b.account_id, ledger_within(b.delta + price_delta, b.delta_z + price_delta_z,
          b.epsilon + price_epsilon, b.rho + price_rho, b.limits),
        ledger_amounts(b.delta, b.delta_z, b.epsilon, b.rho),
        ledger_amounts(b.reserved_delta, b.reserved_delta_z, b.reserved_epsilon, b.reserved_rho), b.cap
      FROM block_sums AS b
      WHERE b.chain_id = chains[n] AND b.number >= lower(spans[n]) AND b.number < upper(spans[n]) AND spans[n] @> b.number;
  END LOOP;
  IF passes AND cardinality(plain) > 0 THEN
    PERFORM ledger_write_all(
      ARRAY(SELECT l FROM unnest(lasts) AS l WHERE l.account_id = ANY (plain)),
      ARRAY(SELECT a FROM unnest(held) AS a WHERE a.id = ANY (plain)), 'reserve', _job, _actor, _events, _price, 1, 1);
  END IF;
END
$$;
