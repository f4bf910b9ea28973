-- ledger_touch and ledger_settle find what a job has in the ledger by the job, whatever statistics say.

CREATE OR REPLACE FUNCTION ledger_lock(_job text) RETURNS text[]
LANGUAGE plpgsql AS $$
-- The accounts on which a job has reserved, each locked, in the order of their ids. Entries of a job are found by the job
-- alone: only the index that begins with it can do that, whatever statistics say. Beside it and a scan of the whole table,
-- which callers switch off, a condition on the account would let an account's whole history be read.
DECLARE
  account_name text;
  names text[];
BEGIN
  names := ARRAY(SELECT e.account_id FROM ledger_entries AS e WHERE e.job_id = _job AND e.kind = 'reserve');
  names := ARRAY(SELECT name FROM unnest(names) AS name ORDER BY name);
  FOREACH account_name IN ARRAY names LOOP
    PERFORM FROM accounts AS a WHERE a.id = account_name FOR UPDATE;
  END LOOP;
  RETURN names;
END
$$;

CREATE OR REPLACE FUNCTION ledger_touch(_job text, _actor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
-- From here on the job is charged in full, whatever happens. A second call writes nothing. What the job has so far is read
-- once its accounts are locked, all of it at once.
DECLARE
  account accounts;
  last ledger_entries;
  state record;
BEGIN
  IF cardinality(ledger_lock(_job)) = 0 THEN
    RAISE EXCEPTION 'job % has reserved nothing', _job USING ERRCODE = 'DL003';
  END IF;
  FOR state IN
    WITH entries AS MATERIALIZED (SELECT e.account_id, e.kind FROM ledger_entries AS e WHERE e.job_id = _job)
    SELECT n.account_id, bool_or(n.kind IN ('commit', 'release')) AS settled, bool_or(n.kind = 'data_touched') AS touched
    FROM entries AS n GROUP BY n.account_id ORDER BY n.account_id
  LOOP
    IF state.settled THEN
      RAISE EXCEPTION 'job % is settled already', _job USING ERRCODE = 'DL003';
    END IF;
    CONTINUE WHEN state.touched;
    SELECT * INTO STRICT account FROM accounts AS a WHERE a.id = state.account_id;
    last := ledger_last(account.id);
    PERFORM ledger_write(last, account, 'data_touched', _job, _actor, NULL, '[]', '{}', last.totals, last.reserved, last.cap, last.filters);
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION ledger_settle(_job text, _actor text)
RETURNS TABLE (account_id text, seq bigint, kind text, hash bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
-- Commit when data were touched, else release; a second call finds nothing to settle. Returns the entries it wrote. Reads
-- the job's entries as ledger_touch does.
DECLARE
  account accounts;
  last ledger_entries;
  entry ledger_entries;
  state record;
BEGIN
  PERFORM ledger_lock(_job);
  FOR state IN
    WITH entries AS MATERIALIZED (SELECT e.account_id, e.kind, e.body FROM ledger_entries AS e WHERE e.job_id = _job)
    SELECT n.account_id, bool_or(n.kind IN ('commit', 'release')) AS settled, bool_or(n.kind = 'data_touched') AS touched,
      max(n.body) FILTER (WHERE n.kind = 'reserve')::jsonb -> 'price' AS price
    FROM entries AS n GROUP BY n.account_id ORDER BY n.account_id
  LOOP
    CONTINUE WHEN state.settled;
    SELECT * INTO STRICT account FROM accounts AS a WHERE a.id = state.account_id;
    last := ledger_last(account.id);
    entry := ledger_write(last, account, CASE WHEN state.touched THEN 'commit' ELSE 'release' END, _job, _actor, NULL, '[]', state.price,
      CASE WHEN state.touched THEN last.totals ELSE ledger_add(last.totals, state.price, -1) END,
      ledger_add(last.reserved, state.price, -1), last.cap, last.filters);
    account_id := entry.account_id;
    seq := entry.seq;
    kind := entry.kind;
    hash := entry.hash;
    RETURN NEXT;
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION ledger_lock(text) FROM PUBLIC;
