-- A job over many blocks is written to all of its accounts by one statement for each step of its life.

-- Each entry was looked up in accounts again, for longer than it took to write it. Whoever writes here holds the account's
-- row, and accounts are never deleted.
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_account_id_fkey;
COMMENT ON COLUMN ledger_entries.account_id IS 'whose chain it is; whoever writes holds the account''s row, and no account is ever deleted';

DROP FUNCTION ledger_lock(text);

CREATE OR REPLACE FUNCTION ledger_body(
  _account accounts, _seq bigint, _at timestamptz, _kind text, _job text, _actor text, _reason text, _events text,
  _price jsonb, _totals jsonb, _reserved jsonb, _cap jsonb, _filters text
) RETURNS text
LANGUAGE sql STABLE AS $$
  -- The canonical JSON of a line: what its hash covers. (STABLE as concat is: else it is not inlined.)
  SELECT concat(
    '{"account":', to_json((_account).id),
    ',"actor":', coalesce(to_json(_actor)::text, 'null'),
    ',"at":"', to_char(_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '","cap":{"delta":"', _cap->>'delta', '","epsilon":"', _cap->>'epsilon', '"}',
    ',"events":', _events,
    ',"filters":', _filters,
    ',"job":', coalesce(to_json(_job)::text, 'null'),
    ',"kind":', to_json(_kind),
    ',"price":', ledger_text(_price),
    ',"reason":', coalesce(to_json(_reason)::text, 'null'),
    ',"reserved":', ledger_text(_reserved),
    ',"scope":', to_json((_account).scope),
    ',"seq":', _seq,
    ',"subject":', to_json((_account).subject),
    ',"tenant":', to_json((_account).tenant_id),
    ',"totals":', ledger_text(_totals),
    ',"unit":', to_json((_account).unit),
    '}')
$$;

CREATE OR REPLACE FUNCTION ledger_write(
  _last ledger_entries, _account accounts, _kind text, _job text, _actor text, _reason text, _events text, _price jsonb,
  _totals jsonb, _reserved jsonb, _cap jsonb, _filters text
) RETURNS ledger_entries
LANGUAGE plpgsql AS $$
DECLARE
  entry ledger_entries;
BEGIN
  entry.account_id := _account.id;
  entry.tenant_id := _account.tenant_id;
  entry.seq := coalesce(_last.seq, 0) + 1;
  entry.kind := _kind;
  entry.job_id := _job;
  entry.at := clock_timestamp();
  entry.previous_hash := coalesce(_last.hash, '\x0000000000000000000000000000000000000000000000000000000000000000');
  entry.totals := _totals;
  entry.reserved := _reserved;
  entry.cap := _cap;
  entry.filters := _filters;
  entry.body := ledger_body(_account, entry.seq, entry.at, _kind, _job, _actor, _reason, _events, _price, _totals, _reserved,
    _cap, _filters);
  entry.hash := sha256(entry.previous_hash || convert_to(entry.body, 'UTF8'));
  INSERT INTO ledger_entries SELECT entry.*;
  RETURN entry;
END
$$;

CREATE OR REPLACE FUNCTION ledger_hold(_accounts text[]) RETURNS accounts[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- These accounts, locked in the order of their ids, so that no two who lock several wait for each other.
DECLARE
  account accounts;
BEGIN
  IF cardinality(_accounts) = 1 THEN
    SELECT * INTO account FROM accounts AS a WHERE a.id = _accounts[1] FOR UPDATE;
    RETURN CASE WHEN FOUND THEN ARRAY[account] ELSE '{}'::accounts[] END;
  END IF;
  RETURN ARRAY(SELECT h FROM (SELECT * FROM accounts AS a WHERE a.id = ANY (_accounts) ORDER BY a.id FOR UPDATE) AS h);
END
$$;

CREATE OR REPLACE FUNCTION ledger_ends(_accounts accounts[]) RETURNS ledger_entries[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off AS $$
-- The last entry of each account, from the ends of an index as ledger_last reads it. A statement of its own: it sees what
-- was committed while the caller waited for the accounts' locks.
BEGIN
  RETURN ARRAY(
    SELECT l FROM unnest(_accounts) AS a
    CROSS JOIN LATERAL (SELECT e.* FROM ledger_entries AS e WHERE e.account_id = a.id ORDER BY e.seq DESC LIMIT 1) AS l);
END
$$;

CREATE OR REPLACE FUNCTION ledger_write_all(
  _lasts ledger_entries[], _accounts accounts[], _kind text, _job text, _actor text, _events text, _price jsonb,
  _totals_sign integer, _reserved_sign integer
) RETURNS SETOF ledger_entries
LANGUAGE plpgsql AS $$
-- One entry after each of these last ones, of accounts whose locks the caller holds: the price is added to totals and to
-- what is reserved (1), taken away (-1), or only told (0). Many are written by one statement.
DECLARE
  last ledger_entries := _lasts[1];
  written_at timestamptz := clock_timestamp();
BEGIN
  IF cardinality(_lasts) = 1 THEN  -- most jobs: faster by itself
    RETURN NEXT ledger_write(last, _accounts[1], _kind, _job, _actor, NULL, _events, _price,
      CASE _totals_sign WHEN 0 THEN last.totals ELSE ledger_add(last.totals, _price, _totals_sign) END,
      CASE _reserved_sign WHEN 0 THEN last.reserved ELSE ledger_add(last.reserved, _price, _reserved_sign) END,
      last.cap, last.filters);
    RETURN;
  END IF;
  RETURN QUERY
    INSERT INTO ledger_entries
    SELECT l.account_id, l.seq + 1, l.tenant_id, _kind, _job, b.body, sha256(l.hash || convert_to(b.body, 'UTF8')), l.hash,
      t.totals, t.reserved, l.cap, l.filters, written_at
    FROM unnest(_lasts) AS l
    JOIN unnest(_accounts) AS a ON a.id = l.account_id
    CROSS JOIN LATERAL (SELECT
      CASE _totals_sign WHEN 0 THEN l.totals ELSE ledger_add(l.totals, _price, _totals_sign) END AS totals,
      CASE _reserved_sign WHEN 0 THEN l.reserved ELSE ledger_add(l.reserved, _price, _reserved_sign) END AS reserved
      OFFSET 0) AS t
    CROSS JOIN LATERAL (SELECT ledger_body(a, l.seq + 1, written_at, _kind, _job, _actor, NULL, _events, _price, t.totals,
      t.reserved, l.cap, l.filters) AS body OFFSET 0) AS b
    RETURNING ledger_entries.*;
END
$$;

CREATE OR REPLACE FUNCTION ledger_reserve(_job text, _accounts text[], _price jsonb, _events text, _actor text)
RETURNS TABLE (account_id text, scope text, subject text, admitted boolean, totals jsonb, reserved jsonb, cap jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- One row for each account, as it stood before. Either all are admitted, and each has its entry, or nothing is written.
DECLARE
  held accounts[] := ledger_hold(_accounts);
  lasts ledger_entries[];
  passes boolean;
BEGIN
  PERFORM ledger_check_price(_price);
  IF cardinality(held) = 0 OR cardinality(held) IS DISTINCT FROM cardinality(_accounts) THEN
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  lasts := ledger_ends(held);
  IF cardinality(lasts) <> cardinality(held) THEN
    RAISE EXCEPTION 'an account has no entry' USING ERRCODE = 'DL002';
  END IF;
  passes := (SELECT bool_and(coalesce(ledger_passes(ledger_add(l.totals, _price, 1), l.filters), false)) FROM unnest(lasts) AS l);
  IF passes THEN
    PERFORM ledger_write_all(lasts, held, 'reserve', _job, _actor, _events, _price, 1, 1);
  END IF;
  RETURN QUERY
    SELECT a.id, a.scope, a.subject, passes OR ledger_passes(ledger_add(l.totals, _price, 1), l.filters), l.totals, l.reserved, l.cap
    FROM unnest(held) AS a JOIN unnest(lasts) AS l ON l.account_id = a.id;
END
$$;

CREATE OR REPLACE FUNCTION ledger_lock(_job text) RETURNS accounts[]
LANGUAGE plpgsql AS $$
-- The accounts on which a job has reserved, locked. Entries of a job are found by the job alone: only the index that begins
-- with it can do that, whatever statistics say. Beside it and a scan of the whole table, which callers switch off, a
-- condition on the account would let an account's whole history be read.
BEGIN
  RETURN ledger_hold(ARRAY(SELECT e.account_id FROM ledger_entries AS e WHERE e.job_id = _job AND e.kind = 'reserve'));
END
$$;

CREATE OR REPLACE FUNCTION ledger_touch(_job text, _actor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
-- From here on the job is charged in full, whatever happens. A second call writes nothing. What the job has so far is read
-- once its accounts are locked, all of it at once.
DECLARE
  held accounts[] := ledger_lock(_job);
  settled boolean;
  touched text[];
BEGIN
  IF cardinality(held) = 0 THEN
    RAISE EXCEPTION 'job % has reserved nothing', _job USING ERRCODE = 'DL003';
  END IF;
  SELECT coalesce(bool_or(e.kind IN ('commit', 'release')), false),
    coalesce(array_agg(e.account_id) FILTER (WHERE e.kind = 'data_touched'), '{}')
  INTO settled, touched FROM ledger_entries AS e WHERE e.job_id = _job;
  IF settled THEN
    RAISE EXCEPTION 'job % is settled already', _job USING ERRCODE = 'DL003';
  END IF;
  held := ARRAY(SELECT a FROM unnest(held) AS a WHERE a.id <> ALL (touched));
  IF cardinality(held) > 0 THEN
    PERFORM ledger_write_all(ledger_ends(held), held, 'data_touched', _job, _actor, '[]', '{}', 0, 0);
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION ledger_settle(_job text, _actor text)
RETURNS TABLE (account_id text, seq bigint, kind text, hash bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
-- Commit when data were touched, else release; a second call finds nothing to settle. Returns the entries it wrote. Reads
-- the job's entries as ledger_touch does; those of one outcome and price are written together.
DECLARE
  locked accounts[] := ledger_lock(_job);
  held accounts[];
  outcome record;
BEGIN
  FOR outcome IN
    WITH entries AS MATERIALIZED (SELECT e.account_id, e.kind, e.body FROM ledger_entries AS e WHERE e.job_id = _job),
    states AS (
      SELECT n.account_id, bool_or(n.kind IN ('commit', 'release')) AS settled, bool_or(n.kind = 'data_touched') AS touched,
        max(n.body) FILTER (WHERE n.kind = 'reserve')::jsonb -> 'price' AS price
      FROM entries AS n GROUP BY n.account_id
    )
    SELECT s.touched, s.price, array_agg(s.account_id) AS names FROM states AS s WHERE NOT s.settled
    GROUP BY s.touched, s.price ORDER BY s.touched, s.price
  LOOP
    held := ARRAY(SELECT a FROM unnest(locked) AS a WHERE a.id = ANY (outcome.names));
    RETURN QUERY
      SELECT e.account_id, e.seq, e.kind, e.hash
      FROM ledger_write_all(ledger_ends(held), held, CASE WHEN outcome.touched THEN 'commit' ELSE 'release' END, _job, _actor,
        '[]', outcome.price, CASE WHEN outcome.touched THEN 0 ELSE -1 END, -1) AS e;
  END LOOP;
END
$$;

DROP TRIGGER ledger_entries_noted ON ledger_entries;

CREATE OR REPLACE FUNCTION log_note() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
-- What one statement wrote, at once; an account's entries in the order of its chain.
BEGIN
  INSERT INTO log_pending (tenant_id, account_id, seq)
  SELECT w.tenant_id, w.account_id, w.seq FROM written AS w ORDER BY w.seq;
  RETURN NULL;
END
$$;

CREATE TRIGGER ledger_entries_noted AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION log_note();

REVOKE ALL ON FUNCTION ledger_lock(text), ledger_hold(text[]), ledger_ends(accounts[]),
  ledger_body(accounts, bigint, timestamptz, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text),
  ledger_write_all(ledger_entries[], accounts[], text, text, text, text, jsonb, integer, integer) FROM PUBLIC;
