-- Privacy budgets: accounts, the ledger, and its rules, which the database owns.
--
-- Every row of accounts and of ledger_entries is written by the functions below and by nothing else: the application role
-- may execute them, and may not INSERT, UPDATE or DELETE. They keep, for each account, one hash chain, the running totals
-- of all admitted prices, and the caps; a reservation passes the filters of every account it touches or writes nothing.
--
-- Amounts are non-negative integers in decimal strings, by price column: epsilon in 1e-9, delta, rho and delta_z in 1e-18.
-- A filter is a set of limits, one for each column it sums; which limits a cap (E, D) has is decided by
-- discreet.privacy.filters and stands in the row that sets the cap, so that admission here is a comparison of integers.
--
-- The functions run as the owner of the tables, and still under row-level security: they see the accounts of the
-- transaction's own tenant and no others. Only those that the application calls set a search path and may be executed by
-- it; the rest, called by them alone, inherit it.

-- What a privacy budget is charged to.
CREATE TABLE accounts (
  id text PRIMARY KEY,  -- identifies the account; lines of the ledger name it
  tenant_id text NOT NULL REFERENCES tenants,  -- whose account it is
  scope text NOT NULL,  -- what is protected or capped: a dataset's data, a tenant, a principal, an agent's data, or a source's chain of blocks
  subject text NOT NULL,  -- whose it is within the scope: an account of data, a tenant, a principal's name, a key's fingerprint
  unit text NOT NULL,  -- what neighbouring data differ by: a request, a person, an agent's data, ...
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was opened
  CONSTRAINT accounts_scope CHECK (scope IN ('data', 'tenant', 'principal', 'agent', 'source')),
  CONSTRAINT accounts_subject UNIQUE (tenant_id, scope, subject)
);
ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE accounts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON accounts USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT ON accounts TO discreet_app;

-- One line of an account's hash chain. The last line of an account is its whole state: there is no mutable balance.
CREATE TABLE ledger_entries (
  account_id text NOT NULL,  -- whose chain it is; who writes a line holds a lock on the account's row, and no account is ever deleted
  seq bigint NOT NULL,  -- the line's number in the chain, from 1 without a gap
  tenant_id text NOT NULL,  -- the account's, which has the foreign key: a check here would lock the tenant's row each time
  kind text NOT NULL,  -- what happened; a commit ends a reservation that touched data, a release one that did not
  job_id text,  -- the job that reserved, touched or settled; null for openings and grants
  body text NOT NULL,  -- canonical JSON (RFC 8785) of the whole line: what the hash covers; the other columns repeat it
  hash bytea NOT NULL,  -- SHA-256 of previous_hash and body
  previous_hash bytea NOT NULL,  -- the hash of the line before; 32 zero bytes for the first
  totals jsonb NOT NULL,  -- prices admitted so far and not released, by price column
  reserved jsonb NOT NULL,  -- the part of them that is still pending
  cap jsonb NOT NULL,  -- epsilon and delta that the account's owner allows
  filters text NOT NULL,  -- canonical JSON of the limits that follow from the cap, by filter
  at timestamptz NOT NULL,  -- when the line was written, by the database's clock
  blocks int4multirange,  -- the blocks that it is about, in the chain of a source; null in every other
  PRIMARY KEY (account_id, seq),
  CONSTRAINT ledger_entries_kind CHECK (kind IN ('open', 'grant', 'reserve', 'data_touched', 'commit', 'release')),
  CONSTRAINT ledger_entries_once UNIQUE (job_id, account_id, kind)
);
-- Kinds of lines that may be rare among many: a search for them does not read the others.
CREATE INDEX ledger_entries_rare ON ledger_entries (account_id, kind, seq) WHERE kind IN ('open', 'grant', 'release');
-- Lines by time. If the clock was set back this is not the order of the chain.
CREATE INDEX ledger_entries_time ON ledger_entries (account_id, at, seq);
ALTER TABLE ledger_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON ledger_entries USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT ON ledger_entries TO discreet_app;

-- A block of a source that has one chain. Its account has no lines of its own.
CREATE TABLE block_caps (
  chain_id text NOT NULL REFERENCES accounts,  -- the account, of scope source, whose lines are about the block
  number integer NOT NULL,  -- the block's number in that chain, from 1
  account_id text NOT NULL UNIQUE REFERENCES accounts,  -- the block's own account: chain, a dot and number
  tenant_id text NOT NULL,  -- whose both are
  cap jsonb NOT NULL,  -- epsilon and delta that the owner allows on the block
  limits numeric[] NOT NULL,  -- that follow from the cap: delta, delta_z, epsilon, rho of each filter; null: no limit
  PRIMARY KEY (chain_id, number)
);
ALTER TABLE block_caps ENABLE ROW LEVEL SECURITY;
ALTER TABLE block_caps FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON block_caps USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT ON block_caps TO discreet_app;

-- What was spent on one block: the sums of the prices admitted so far and not released, and the part that is still pending.
CREATE TYPE block_amounts AS (
  delta numeric, delta_z numeric, epsilon numeric, rho numeric,
  reserved_delta numeric, reserved_delta_z numeric, reserved_epsilon numeric, reserved_rho numeric
);

-- What was spent on such blocks, 32 of them in a row, so that a job over many rewrites few rows. A job over all blocks of a
-- row changes added alone, so of the row the log has that and no more. These sums follow from the chain, whose lines bind
-- them (sums), and change only together with it, under the lock of its account.
CREATE TABLE block_pages (
  chain_id text NOT NULL REFERENCES accounts,  -- the account, of scope source, whose lines say how the sums came about
  page integer NOT NULL,  -- page 0 has the blocks 1 to 32 of the chain, page 1 the next, and so on
  tenant_id text NOT NULL,  -- whose they are
  many integer NOT NULL,  -- how many blocks it has: 32, but the last of a chain
  added block_amounts NOT NULL,  -- belongs to the sums of each of its blocks: what they were charged together
  limits numeric[],  -- those that block_caps has for all blocks of the page; null: they differ
  delta numeric[] NOT NULL,  -- of each of its blocks, in order, beside what was added; one where all are the same
  delta_z numeric[] NOT NULL,  -- the same of delta_z
  epsilon numeric[] NOT NULL,  -- the same of epsilon
  rho numeric[] NOT NULL,  -- the same of rho
  reserved_delta numeric[] NOT NULL,  -- the same of reserved_delta
  reserved_delta_z numeric[] NOT NULL,  -- the same of reserved_delta_z
  reserved_epsilon numeric[] NOT NULL,  -- the same of reserved_epsilon
  reserved_rho numeric[] NOT NULL,  -- the same of reserved_rho
  PRIMARY KEY (chain_id, page),
  CONSTRAINT block_pages_sums CHECK (
    cardinality(delta) IN (1, many) AND cardinality(delta_z) IN (1, many) AND cardinality(epsilon) IN (1, many)
    AND cardinality(rho) IN (1, many) AND cardinality(reserved_delta) IN (1, many)
    AND cardinality(reserved_delta_z) IN (1, many) AND cardinality(reserved_epsilon) IN (1, many)
    AND cardinality(reserved_rho) IN (1, many))
);
-- Room for new sums next to the old ones, without compression, which would take longer than everything else.
ALTER TABLE block_pages SET (fillfactor = 50, toast_tuple_target = 8160);
ALTER TABLE block_pages ENABLE ROW LEVEL SECURITY;
ALTER TABLE block_pages FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON block_pages USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT ON block_pages TO discreet_app;

-- Both together, with one row per block: the view for readers.
CREATE VIEW block_sums WITH (security_invoker = true) AS
  SELECT c.chain_id, c.number, c.account_id, c.tenant_id, c.cap, c.limits,
    p.delta[least(i.place, cardinality(p.delta))] + (p.added).delta AS delta,
    p.delta_z[least(i.place, cardinality(p.delta_z))] + (p.added).delta_z AS delta_z,
    p.epsilon[least(i.place, cardinality(p.epsilon))] + (p.added).epsilon AS epsilon,
    p.rho[least(i.place, cardinality(p.rho))] + (p.added).rho AS rho,
    p.reserved_delta[least(i.place, cardinality(p.reserved_delta))] + (p.added).reserved_delta AS reserved_delta,
    p.reserved_delta_z[least(i.place, cardinality(p.reserved_delta_z))] + (p.added).reserved_delta_z AS reserved_delta_z,
    p.reserved_epsilon[least(i.place, cardinality(p.reserved_epsilon))] + (p.added).reserved_epsilon AS reserved_epsilon,
    p.reserved_rho[least(i.place, cardinality(p.reserved_rho))] + (p.added).reserved_rho AS reserved_rho
  FROM block_caps AS c
  JOIN block_pages AS p ON p.chain_id = c.chain_id AND p.page = (c.number - 1) / 32
  CROSS JOIN LATERAL (SELECT (c.number - 1) % 32 + 1 AS place) AS i;
GRANT SELECT ON block_sums TO discreet_app;

CREATE FUNCTION ledger_add(a jsonb, b jsonb, sign integer) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  -- a + sign b, column by column; every column is in the answer. (STABLE as jsonb_build_object is: else it is not inlined.)
  SELECT jsonb_build_object(
    'delta', (coalesce((a->>'delta')::numeric, 0) + sign * coalesce((b->>'delta')::numeric, 0))::text,
    'delta_z', (coalesce((a->>'delta_z')::numeric, 0) + sign * coalesce((b->>'delta_z')::numeric, 0))::text,
    'epsilon', (coalesce((a->>'epsilon')::numeric, 0) + sign * coalesce((b->>'epsilon')::numeric, 0))::text,
    'rho', (coalesce((a->>'rho')::numeric, 0) + sign * coalesce((b->>'rho')::numeric, 0))::text)
$$;

CREATE FUNCTION ledger_text(x jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  -- canonical JSON of amounts: of all price columns, or of none
  SELECT CASE WHEN x = '{}' THEN '{}' ELSE
    '{"delta":"' || (x->>'delta') || '","delta_z":"' || (x->>'delta_z') || '","epsilon":"' || (x->>'epsilon')
    || '","rho":"' || (x->>'rho') || '"}' END
$$;

CREATE FUNCTION ledger_filters_text(x jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  -- canonical JSON of the limits of each filter
  SELECT '{' || coalesce(string_agg(to_json(name)::text || ':{' || (
      SELECT string_agg('"' || key || '":"' || value || '"', ',' ORDER BY key COLLATE "C") FROM jsonb_each_text(limits)
    ) || '}', ',' ORDER BY name COLLATE "C"), '') || '}'
  FROM jsonb_each(x) AS filter(name, limits)
$$;

CREATE FUNCTION ledger_passes(totals jsonb, filters text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
-- True when at least one filter holds: each of its limits is met. What cannot be compared does not hold.
DECLARE
  limits jsonb;
BEGIN
  FOR limits IN SELECT value FROM jsonb_each(filters::jsonb) LOOP
    IF (NOT limits ? 'delta' OR (totals->>'delta')::numeric <= (limits->>'delta')::numeric)
      AND (NOT limits ? 'delta_z' OR (totals->>'delta_z')::numeric <= (limits->>'delta_z')::numeric)
      AND (NOT limits ? 'epsilon' OR (totals->>'epsilon')::numeric <= (limits->>'epsilon')::numeric)
      AND (NOT limits ? 'rho' OR (totals->>'rho')::numeric <= (limits->>'rho')::numeric)
    THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;

CREATE FUNCTION ledger_check(x jsonb, _columns text[], _all boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
-- x is an object of amounts by these columns: of all of them, or else of some
DECLARE
  column_name text;
  amount text;
  found integer := 0;
BEGIN
  IF jsonb_typeof(x) = 'object' THEN
    FOR column_name, amount IN SELECT key, value FROM jsonb_each_text(x) LOOP
      EXIT WHEN amount IS NULL OR amount !~ '^(0|[1-9][0-9]{0,36})$' OR column_name <> ALL (_columns);
      found := found + 1;
    END LOOP;
    IF found = (SELECT count(*) FROM jsonb_object_keys(x)) AND found > 0 AND (NOT _all OR found = cardinality(_columns)) THEN
      RETURN;
    END IF;
  END IF;
  RAISE EXCEPTION 'amounts are non-negative integers in decimal strings: %', array_to_string(_columns, ', ')
    USING ERRCODE = 'DL001';
END
$$;

CREATE FUNCTION ledger_check_price(x jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
-- the same for a price, which has every column
BEGIN
  IF jsonb_typeof(x) = 'object' AND x - '{delta,delta_z,epsilon,rho}'::text[] = '{}'
    AND (x->>'delta') ~ '^(0|[1-9][0-9]{0,36})$' AND (x->>'delta_z') ~ '^(0|[1-9][0-9]{0,36})$'
    AND (x->>'epsilon') ~ '^(0|[1-9][0-9]{0,36})$' AND (x->>'rho') ~ '^(0|[1-9][0-9]{0,36})$'
  THEN
    RETURN;
  END IF;
  PERFORM ledger_check(x, '{delta,delta_z,epsilon,rho}', true);
END
$$;

CREATE FUNCTION ledger_check_cap(_cap jsonb, _filters jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM ledger_check(_cap, '{epsilon,delta}', true);
  PERFORM ledger_check(value, '{delta,delta_z,epsilon,rho}', false) FROM jsonb_each(_filters);
END
$$;

CREATE FUNCTION ledger_last(_account text) RETURNS ledger_entries
LANGUAGE plpgsql SET enable_sort = off AS $$
-- The end of an index, also while the statistics of a young table let the planner think that sorting was as cheap.
DECLARE
  last ledger_entries;
BEGIN
  SELECT * INTO STRICT last FROM ledger_entries AS e WHERE e.account_id = _account ORDER BY e.seq DESC LIMIT 1;
  RETURN last;
END
$$;

CREATE FUNCTION ledger_body(
  _account accounts, _seq bigint, _at timestamptz, _kind text, _job text, _actor text, _reason text, _events text,
  _price jsonb, _totals jsonb, _reserved jsonb, _cap jsonb, _filters text, _blocks text, _sums text
) RETURNS text
LANGUAGE sql STABLE AS $$
  -- The canonical JSON of a line: what its hash covers. (STABLE as concat is: else it is not inlined.) concat leaves out
  -- what is null: only a line of a chain of blocks has blocks and sums, and no cap where it is about a job.
  SELECT concat(
    '{"account":', to_json((_account).id),
    ',"actor":', coalesce(to_json(_actor)::text, 'null'),
    ',"at":"', to_char(_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '"', ',"blocks":' || _blocks,
    ',"cap":{', '"delta":"' || (_cap->>'delta') || '","epsilon":"' || (_cap->>'epsilon') || '"', '}',
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
    ',"sums":' || _sums,
    ',"tenant":', to_json((_account).tenant_id),
    ',"totals":', ledger_text(_totals),
    ',"unit":', to_json((_account).unit),
    '}')
$$;

CREATE FUNCTION ledger_block(_number integer) RETURNS int4multirange
LANGUAGE sql IMMUTABLE AS $$
  SELECT int4multirange(int4range(_number, _number, '[]'))
$$;

CREATE FUNCTION ledger_page(_number integer) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
  -- the page of a block
  SELECT (_number - 1) / 32
$$;

CREATE FUNCTION ledger_amounts(_delta numeric, _delta_z numeric, _epsilon numeric, _rho numeric) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('delta', _delta::text, 'delta_z', _delta_z::text, 'epsilon', _epsilon::text, 'rho', _rho::text)
$$;

CREATE FUNCTION ledger_within(
  _delta numeric, _delta_z numeric, _epsilon numeric, _rho numeric, _limits numeric[]
) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  -- ledger_passes for sums and limits as block_caps has them, of one or two filters. (Written out, so that it is inlined.)
  SELECT (_delta <= _limits[1]) IS NOT false AND (_delta_z <= _limits[2]) IS NOT false
      AND (_epsilon <= _limits[3]) IS NOT false AND (_rho <= _limits[4]) IS NOT false
    OR cardinality(_limits) > 4
      AND (_delta <= _limits[5]) IS NOT false AND (_delta_z <= _limits[6]) IS NOT false
      AND (_epsilon <= _limits[7]) IS NOT false AND (_rho <= _limits[8]) IS NOT false
$$;

CREATE FUNCTION ledger_limits(_filters jsonb) RETURNS numeric[]
LANGUAGE plpgsql IMMUTABLE AS $$
-- The limits of one or two filters, as block_caps has them.
DECLARE
  limits numeric[] := ARRAY(
    SELECT (f.value ->> c.name)::numeric FROM jsonb_each(_filters) AS f
    CROSS JOIN unnest('{delta,delta_z,epsilon,rho}'::text[]) WITH ORDINALITY AS c(name, place) ORDER BY f.key COLLATE "C", c.place);
BEGIN
  IF cardinality(limits) NOT IN (4, 8) THEN
    RAISE EXCEPTION 'a block has one or two filters' USING ERRCODE = 'DL001';
  END IF;
  RETURN limits;
END
$$;

CREATE FUNCTION ledger_shared(_amounts numeric[]) RETURNS numeric[]
LANGUAGE sql IMMUTABLE AS $$
  -- amounts of blocks as block_pages has them: one where all are the same
  SELECT CASE WHEN _amounts[1] = ALL (_amounts) THEN _amounts[1:1] ELSE _amounts END
$$;

CREATE FUNCTION ledger_page_amounts(_amounts numeric[], _many integer, _added numeric) RETURNS numeric[]
LANGUAGE sql IMMUTABLE AS $$
  -- one amount of each block of a page, with what was added
  SELECT ARRAY(SELECT _amounts[least(n, cardinality(_amounts))] + _added FROM generate_series(1, _many) AS n)
$$;

CREATE FUNCTION ledger_page_blocks(
  _page integer, _many integer, _delta numeric[], _delta_z numeric[], _epsilon numeric[], _rho numeric[],
  _reserved_delta numeric[], _reserved_delta_z numeric[], _reserved_epsilon numeric[], _reserved_rho numeric[]
) RETURNS TABLE (
  number integer, delta numeric, delta_z numeric, epsilon numeric, rho numeric, reserved_delta numeric,
  reserved_delta_z numeric, reserved_epsilon numeric, reserved_rho numeric
)
LANGUAGE sql IMMUTABLE AS $$
  -- The blocks of a page in order, without what was added. (unnest of one amount gives it to the first row, and null to the
  -- others; what nobody asks for is not looked up, since this is inlined.)
  SELECT n.number, coalesce(n.delta, _delta[1]), coalesce(n.delta_z, _delta_z[1]), coalesce(n.epsilon, _epsilon[1]),
    coalesce(n.rho, _rho[1]), coalesce(n.reserved_delta, _reserved_delta[1]),
    coalesce(n.reserved_delta_z, _reserved_delta_z[1]), coalesce(n.reserved_epsilon, _reserved_epsilon[1]),
    coalesce(n.reserved_rho, _reserved_rho[1])
  FROM (
    SELECT generate_series(_page * 32 + 1, _page * 32 + _many) AS number, unnest(_delta) AS delta, unnest(_delta_z) AS delta_z,
      unnest(_epsilon) AS epsilon, unnest(_rho) AS rho, unnest(_reserved_delta) AS reserved_delta,
      unnest(_reserved_delta_z) AS reserved_delta_z, unnest(_reserved_epsilon) AS reserved_epsilon,
      unnest(_reserved_rho) AS reserved_rho
    OFFSET 0) AS n
$$;

CREATE FUNCTION ledger_blocks_after(
  _chain text, _blocks int4multirange, _price jsonb, _totals_sign integer, _reserved_sign integer,
  OUT there bigint, OUT passed bigint, OUT sums text, OUT pages block_pages[]
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- Blocks as they stand once the price is added to their sums (1), taken away (-1), or as they are (0): how many there are, how
-- many of them are then within their limits, what a line binds of them, and the pages that have them. What is bound, as a JSON
-- string, is the SHA-256 of the canonical JSON of [[number, reserved, totals], ...]. Jobs over many blocks spend most of their
-- time here, so pages of which all blocks are named, and within one filter by their largest amounts, come first: the price goes
-- to what was added, and what is the same in the texts of all blocks of a page is written once.
DECLARE
  spent_delta numeric := _totals_sign * coalesce((_price->>'delta')::numeric, 0);
  spent_delta_z numeric := _totals_sign * coalesce((_price->>'delta_z')::numeric, 0);
  spent_epsilon numeric := _totals_sign * coalesce((_price->>'epsilon')::numeric, 0);
  spent_rho numeric := _totals_sign * coalesce((_price->>'rho')::numeric, 0);
  held_delta numeric := _reserved_sign * coalesce((_price->>'delta')::numeric, 0);
  held_delta_z numeric := _reserved_sign * coalesce((_price->>'delta_z')::numeric, 0);
  held_epsilon numeric := _reserved_sign * coalesce((_price->>'epsilon')::numeric, 0);
  held_rho numeric := _reserved_sign * coalesce((_price->>'rho')::numeric, 0);
  named bigint := (SELECT sum(upper(r) - lower(r)) FROM unnest(_blocks) AS r);
  done integer[] := '{}';
  texts text[] := '{}';
  more record;
BEGIN
  there := 0;
  passed := 0;
  IF named >= 32 THEN
    SELECT coalesce(sum(p.many), 0), coalesce(array_agg(p.page ORDER BY p.page), '{}'),
      coalesce(array_agg(t.text ORDER BY p.page), '{}'),
      array_agg(ROW(p.chain_id, p.page, p.tenant_id, p.many, ROW(p.more_delta, p.more_delta_z, p.more_epsilon, p.more_rho,
          p.more_reserved_delta, p.more_reserved_delta_z, p.more_reserved_epsilon, p.more_reserved_rho)::block_amounts,
        p.limits, p.delta, p.delta_z, p.epsilon, p.rho, p.reserved_delta, p.reserved_delta_z, p.reserved_epsilon,
        p.reserved_rho)::block_pages)
    INTO there, done, texts, pages
    FROM (
      SELECT p.*, (p.added).delta + spent_delta AS more_delta, (p.added).delta_z + spent_delta_z AS more_delta_z,
        (p.added).epsilon + spent_epsilon AS more_epsilon, (p.added).rho + spent_rho AS more_rho,
        (p.added).reserved_delta + held_delta AS more_reserved_delta,
        (p.added).reserved_delta_z + held_delta_z AS more_reserved_delta_z,
        (p.added).reserved_epsilon + held_epsilon AS more_reserved_epsilon,
        (p.added).reserved_rho + held_rho AS more_reserved_rho
      FROM block_pages AS p
      WHERE p.chain_id = _chain AND p.page BETWEEN ledger_page(lower(_blocks)) AND ledger_page(upper(_blocks) - 1)
        AND _blocks @> int4range(p.page * 32 + 1, p.page * 32 + p.many, '[]')
      OFFSET 0) AS p
    CROSS JOIN LATERAL (  -- what all texts have up to epsilon; null where they differ
      SELECT CASE WHEN cardinality(p.reserved_delta) = 1 AND cardinality(p.reserved_delta_z) = 1 THEN
          ',{"delta":"' || p.reserved_delta[1] + p.more_reserved_delta || '","delta_z":"'
          || p.reserved_delta_z[1] + p.more_reserved_delta_z || '","epsilon":"' END AS reserved,
        CASE WHEN cardinality(p.delta) = 1 AND cardinality(p.delta_z) = 1 THEN
          '"},{"delta":"' || p.delta[1] + p.more_delta || '","delta_z":"' || p.delta_z[1] + p.more_delta_z || '","epsilon":"'
          END AS totals
      OFFSET 0) AS d
    CROSS JOIN LATERAL (  -- what they have up to rho
      SELECT CASE WHEN cardinality(p.reserved_epsilon) = 1 AND cardinality(p.reserved_rho) = 1 THEN
          d.reserved || p.reserved_epsilon[1] + p.more_reserved_epsilon || '","rho":"' || p.reserved_rho[1] + p.more_reserved_rho
          END AS reserved,
        CASE WHEN cardinality(p.epsilon) = 1 AND cardinality(p.rho) = 1 THEN
          d.totals || p.epsilon[1] + p.more_epsilon || '","rho":"' || p.rho[1] + p.more_rho END AS totals
      OFFSET 0) AS r
    CROSS JOIN LATERAL (
      SELECT string_agg(n.number
          || coalesce(r.reserved,
            coalesce(d.reserved, ',{"delta":"' || n.reserved_delta + p.more_reserved_delta || '","delta_z":"'
              || n.reserved_delta_z + p.more_reserved_delta_z || '","epsilon":"')
            || n.reserved_epsilon + p.more_reserved_epsilon || '","rho":"' || n.reserved_rho + p.more_reserved_rho)
          || coalesce(r.totals,
            coalesce(d.totals, '"},{"delta":"' || n.delta + p.more_delta || '","delta_z":"' || n.delta_z + p.more_delta_z
              || '","epsilon":"')
            || n.epsilon + p.more_epsilon || '","rho":"' || n.rho + p.more_rho),
          '"}],[') AS text
      FROM ledger_page_blocks(p.page, p.many, p.delta, p.delta_z, p.epsilon, p.rho,
          p.reserved_delta, p.reserved_delta_z, p.reserved_epsilon, p.reserved_rho) AS n) AS t
    WHERE p.limits IS NOT NULL AND (
        (p.limits[1] - p.more_delta >= ALL (p.delta)) IS NOT false
          AND (p.limits[2] - p.more_delta_z >= ALL (p.delta_z)) IS NOT false
          AND (p.limits[3] - p.more_epsilon >= ALL (p.epsilon)) IS NOT false
          AND (p.limits[4] - p.more_rho >= ALL (p.rho)) IS NOT false
        OR cardinality(p.limits) > 4
          AND (p.limits[5] - p.more_delta >= ALL (p.delta)) IS NOT false
          AND (p.limits[6] - p.more_delta_z >= ALL (p.delta_z)) IS NOT false
          AND (p.limits[7] - p.more_epsilon >= ALL (p.epsilon)) IS NOT false
          AND (p.limits[8] - p.more_rho >= ALL (p.rho)) IS NOT false);
    passed := there;
  END IF;
  IF there < named THEN  -- all other pages, block by block
    SELECT coalesce(sum(a.there), 0) AS there, coalesce(sum(a.passed), 0) AS passed, array_agg(p.page ORDER BY p.page) AS done,
      array_agg(a.text ORDER BY p.page) AS texts,
      array_agg(ROW(p.chain_id, p.page, p.tenant_id, p.many, '(0,0,0,0,0,0,0,0)'::block_amounts, p.limits,
        ledger_shared(a.delta), ledger_shared(a.delta_z), ledger_shared(a.epsilon), ledger_shared(a.rho),
        ledger_shared(a.reserved_delta), ledger_shared(a.reserved_delta_z), ledger_shared(a.reserved_epsilon),
        ledger_shared(a.reserved_rho))::block_pages) AS pages
    INTO more
    FROM (
      SELECT p.*, (p.added).delta AS plus_delta, (p.added).delta_z AS plus_delta_z, (p.added).epsilon AS plus_epsilon,
        (p.added).rho AS plus_rho,
        (p.added).reserved_delta AS plus_reserved_delta, (p.added).reserved_delta_z AS plus_reserved_delta_z,
        (p.added).reserved_epsilon AS plus_reserved_epsilon, (p.added).reserved_rho AS plus_reserved_rho
      FROM block_pages AS p
      WHERE p.chain_id = _chain AND p.page BETWEEN ledger_page(lower(_blocks)) AND ledger_page(upper(_blocks) - 1)
        AND _blocks && int4range(p.page * 32 + 1, p.page * 32 + 33) AND p.page <> ALL (done)
      OFFSET 0) AS p
    CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE b.named) AS there,
        count(*) FILTER (WHERE b.named AND ledger_within(b.delta, b.delta_z, b.epsilon, b.rho, b.limits)) AS passed,
        string_agg(b.number || ',{"delta":"' || b.reserved_delta || '","delta_z":"' || b.reserved_delta_z || '","epsilon":"'
          || b.reserved_epsilon || '","rho":"' || b.reserved_rho || '"},{"delta":"' || b.delta || '","delta_z":"' || b.delta_z
          || '","epsilon":"' || b.epsilon || '","rho":"' || b.rho, '"}],[') FILTER (WHERE b.named) AS text,
        array_agg(b.delta) AS delta, array_agg(b.delta_z) AS delta_z, array_agg(b.epsilon) AS epsilon, array_agg(b.rho) AS rho,
        array_agg(b.reserved_delta) AS reserved_delta, array_agg(b.reserved_delta_z) AS reserved_delta_z,
        array_agg(b.reserved_epsilon) AS reserved_epsilon, array_agg(b.reserved_rho) AS reserved_rho
      FROM (
        SELECT n.number, n.named, coalesce(p.limits, (
            SELECT c.limits FROM block_caps AS c WHERE c.chain_id = p.chain_id AND c.number = n.number)) AS limits,
          n.delta + p.plus_delta + CASE WHEN n.named THEN spent_delta ELSE 0 END AS delta,
          n.delta_z + p.plus_delta_z + CASE WHEN n.named THEN spent_delta_z ELSE 0 END AS delta_z,
          n.epsilon + p.plus_epsilon + CASE WHEN n.named THEN spent_epsilon ELSE 0 END AS epsilon,
          n.rho + p.plus_rho + CASE WHEN n.named THEN spent_rho ELSE 0 END AS rho,
          n.reserved_delta + p.plus_reserved_delta + CASE WHEN n.named THEN held_delta ELSE 0 END AS reserved_delta,
          n.reserved_delta_z + p.plus_reserved_delta_z + CASE WHEN n.named THEN held_delta_z ELSE 0 END AS reserved_delta_z,
          n.reserved_epsilon + p.plus_reserved_epsilon + CASE WHEN n.named THEN held_epsilon ELSE 0 END AS reserved_epsilon,
          n.reserved_rho + p.plus_reserved_rho + CASE WHEN n.named THEN held_rho ELSE 0 END AS reserved_rho
        FROM (
          SELECT o.*, _blocks @> o.number AS named
          FROM ledger_page_blocks(p.page, p.many, p.delta, p.delta_z, p.epsilon, p.rho,
          p.reserved_delta, p.reserved_delta_z, p.reserved_epsilon, p.reserved_rho) AS o
          OFFSET 0) AS n
        OFFSET 0) AS b
    ) AS a;
    there := there + more.there;
    passed := passed + more.passed;
    pages := pages || more.pages;
    IF cardinality(done) = 0 THEN
      texts := more.texts;
    ELSE
      texts := ARRAY(SELECT u.text FROM unnest(done || more.done, texts || more.texts) AS u(page, text) ORDER BY u.page);
    END IF;
  END IF;
  sums := '"' || encode(sha256(convert_to('[[' || array_to_string(texts, '"}],[') || '"}]]', 'UTF8')), 'hex') || '"';
END
$$;

CREATE FUNCTION ledger_blocks_text(_blocks int4multirange) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  -- canonical JSON of blocks: first and last of each run of neighbours, in order
  SELECT '[' || string_agg(concat('[', lower(r), ',', upper(r) - 1, ']'), ',' ORDER BY lower(r)) || ']' FROM unnest(_blocks) AS r
$$;

CREATE FUNCTION ledger_write(
  _last ledger_entries, _account accounts, _kind text, _job text, _actor text, _reason text, _events text, _price jsonb,
  _totals jsonb, _reserved jsonb, _cap jsonb, _filters text, _blocks int4multirange, _sums text
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
  entry.blocks := _blocks;
  entry.body := ledger_body(_account, entry.seq, entry.at, _kind, _job, _actor, _reason, _events, _price, _totals, _reserved,
    _cap, _filters, ledger_blocks_text(_blocks), _sums);
  entry.hash := sha256(entry.previous_hash || convert_to(entry.body, 'UTF8'));
  INSERT INTO ledger_entries SELECT entry.*;
  RETURN entry;
END
$$;

CREATE FUNCTION ledger_open(
  _account text, _tenant text, _scope text, _subject text, _unit text, _cap jsonb, _filters jsonb, _actor text,
  _reason text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  account accounts;
BEGIN
  PERFORM ledger_check_cap(_cap, _filters);
  IF _scope = 'source' OR strpos(_account, '.') > 0 THEN
    RAISE EXCEPTION 'chains of sources and their blocks are opened otherwise' USING ERRCODE = 'DL001';
  END IF;
  INSERT INTO accounts (id, tenant_id, scope, subject, unit) VALUES (_account, _tenant, _scope, _subject, _unit)
  RETURNING * INTO account;
  PERFORM ledger_write(NULL, account, 'open', NULL, _actor, _reason, '[]', '{}',
    ledger_add('{}', '{}', 1), ledger_add('{}', '{}', 1), _cap, ledger_filters_text(_filters), NULL, NULL);
END
$$;

CREATE FUNCTION ledger_open_chain(_account text, _tenant text, _unit text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- The chain of a source, which has no lines before its first block.
BEGIN
  IF strpos(_account, '.') > 0 THEN
    RAISE EXCEPTION 'the id of a chain has no dot' USING ERRCODE = 'DL001';
  END IF;
  INSERT INTO accounts (id, tenant_id, scope, subject, unit) VALUES (_account, _tenant, 'source', _account, _unit);
END
$$;

CREATE FUNCTION ledger_open_block(_chain text, _cap jsonb, _filters jsonb, _actor text, _reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- The next block of a chain, and its account, whose id is returned.
DECLARE
  chain accounts;
  last ledger_entries;
  block block_caps;
  zero jsonb := ledger_add('{}', '{}', 1);
BEGIN
  PERFORM ledger_check_cap(_cap, _filters);
  SELECT * INTO STRICT chain FROM accounts WHERE id = _chain AND accounts.scope = 'source' FOR UPDATE;
  SELECT * INTO last FROM ledger_entries AS e WHERE e.account_id = _chain ORDER BY e.seq DESC LIMIT 1;
  block.number := coalesce((SELECT max(b.number) FROM block_caps AS b WHERE b.chain_id = _chain), 0) + 1;
  block.account_id := _chain || '.' || block.number;
  INSERT INTO accounts (id, tenant_id, scope, subject, unit)
    VALUES (block.account_id, chain.tenant_id, 'data', block.account_id, chain.unit);
  INSERT INTO block_caps (chain_id, number, account_id, tenant_id, cap, limits)
    VALUES (_chain, block.number, block.account_id, chain.tenant_id, _cap, ledger_limits(_filters)) RETURNING * INTO block;
  INSERT INTO block_pages
    VALUES (_chain, ledger_page(block.number), chain.tenant_id, 1, '(0,0,0,0,0,0,0,0)', block.limits,
      '{0}', '{0}', '{0}', '{0}', '{0}', '{0}', '{0}', '{0}')
    ON CONFLICT (chain_id, page) DO UPDATE SET many = block_pages.many + 1, added = EXCLUDED.added,
      limits = CASE WHEN block_pages.limits = EXCLUDED.limits THEN EXCLUDED.limits END,
      delta = ledger_shared(
        ledger_page_amounts(block_pages.delta, block_pages.many, (block_pages.added).delta) || 0::numeric),
      delta_z = ledger_shared(
        ledger_page_amounts(block_pages.delta_z, block_pages.many, (block_pages.added).delta_z) || 0::numeric),
      epsilon = ledger_shared(
        ledger_page_amounts(block_pages.epsilon, block_pages.many, (block_pages.added).epsilon) || 0::numeric),
      rho = ledger_shared(
        ledger_page_amounts(block_pages.rho, block_pages.many, (block_pages.added).rho) || 0::numeric),
      reserved_delta = ledger_shared(
        ledger_page_amounts(block_pages.reserved_delta, block_pages.many, (block_pages.added).reserved_delta) || 0::numeric),
      reserved_delta_z = ledger_shared(
        ledger_page_amounts(block_pages.reserved_delta_z, block_pages.many, (block_pages.added).reserved_delta_z) || 0::numeric),
      reserved_epsilon = ledger_shared(
        ledger_page_amounts(block_pages.reserved_epsilon, block_pages.many, (block_pages.added).reserved_epsilon) || 0::numeric),
      reserved_rho = ledger_shared(
        ledger_page_amounts(block_pages.reserved_rho, block_pages.many, (block_pages.added).reserved_rho) || 0::numeric);
  PERFORM ledger_write(last, chain, 'open', NULL, _actor, _reason, '[]', '{}', coalesce(last.totals, zero),
    coalesce(last.reserved, zero), _cap, ledger_filters_text(_filters), ledger_block(block.number),
    (ledger_blocks_after(_chain, ledger_block(block.number), '{}', 0, 0)).sums);
  RETURN block.account_id;
END
$$;

CREATE FUNCTION ledger_grant_block(_account text, _cap jsonb, _filters jsonb, _actor text, _reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
-- ledger_grant for a block of a chain.
DECLARE
  chain accounts;
  last ledger_entries;
  block block_sums;
BEGIN
  SELECT * INTO STRICT chain FROM accounts WHERE id = split_part(_account, '.', 1) AND accounts.scope = 'source' FOR UPDATE;
  SELECT * INTO STRICT block FROM block_sums AS b WHERE b.account_id = _account;
  IF NOT ledger_within(block.delta, block.delta_z, block.epsilon, block.rho, ledger_limits(_filters)) THEN
    RETURN false;
  END IF;
  UPDATE block_caps AS b SET cap = _cap, limits = ledger_limits(_filters)
    WHERE b.chain_id = block.chain_id AND b.number = block.number;
  UPDATE block_pages AS p SET limits = (
      SELECT CASE count(DISTINCT b.limits) WHEN 1 THEN min(b.limits) END FROM block_caps AS b
      WHERE b.chain_id = p.chain_id AND b.number BETWEEN p.page * 32 + 1 AND p.page * 32 + 32)
    WHERE p.chain_id = block.chain_id AND p.page = ledger_page(block.number);
  last := ledger_last(chain.id);
  PERFORM ledger_write(last, chain, 'grant', NULL, _actor, _reason, '[]', '{}', last.totals, last.reserved, _cap,
    ledger_filters_text(_filters), ledger_block(block.number),
    (ledger_blocks_after(chain.id, ledger_block(block.number), '{}', 0, 0)).sums);
  RETURN true;
END
$$;

CREATE FUNCTION ledger_grant(_account text, _cap jsonb, _filters jsonb, _actor text, _reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- false, and nothing written, when what is spent or reserved would pass the new cap
DECLARE
  account accounts;
  last ledger_entries;
BEGIN
  PERFORM ledger_check_cap(_cap, _filters);
  IF strpos(_account, '.') > 0 THEN
    RETURN ledger_grant_block(_account, _cap, _filters, _actor, _reason);
  END IF;
  SELECT * INTO STRICT account FROM accounts WHERE id = _account AND accounts.scope <> 'source' FOR UPDATE;
  last := ledger_last(_account);
  IF NOT ledger_passes(last.totals, _filters::text) THEN
    RETURN false;
  END IF;
  PERFORM ledger_write(last, account, 'grant', NULL, _actor, _reason, '[]', '{}', last.totals, last.reserved, _cap,
    ledger_filters_text(_filters), NULL, NULL);
  RETURN true;
END
$$;

CREATE FUNCTION ledger_hold(_accounts text[]) RETURNS accounts[]
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

CREATE FUNCTION ledger_ends(_accounts accounts[]) RETURNS ledger_entries[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off AS $$
-- The last entry of each account, from the ends of an index as ledger_last reads it. A statement of its own: it sees what
-- was committed while the caller waited for the accounts' locks.
BEGIN
  RETURN ARRAY(
    SELECT l FROM unnest(_accounts) AS a
    CROSS JOIN LATERAL (SELECT e.* FROM ledger_entries AS e WHERE e.account_id = a.id ORDER BY e.seq DESC LIMIT 1) AS l);
END
$$;

CREATE FUNCTION ledger_write_blocks(
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

CREATE FUNCTION ledger_write_all(
  _lasts ledger_entries[], _accounts accounts[], _kind text, _job text, _actor text, _events text, _price jsonb,
  _totals_sign integer, _reserved_sign integer
) RETURNS SETOF ledger_entries
LANGUAGE plpgsql AS $$
-- One entry after each of these last ones, of accounts whose locks the caller holds: the price is added to totals and to
-- what is reserved (1), taken away (-1), or only told (0). Many are written by one statement, those of chains of blocks
-- each by itself: about the blocks that the job has reserved there.
DECLARE
  last ledger_entries := _lasts[1];
  account accounts := _accounts[1];
  written_at timestamptz := clock_timestamp();
  named int4multirange;
  after record;
BEGIN
  IF cardinality(_lasts) = 1 AND account.scope <> 'source' THEN  -- most jobs: faster by itself
    RETURN NEXT ledger_write(last, account, _kind, _job, _actor, NULL, _events, _price,
      CASE _totals_sign WHEN 0 THEN last.totals ELSE ledger_add(last.totals, _price, _totals_sign) END,
      CASE _reserved_sign WHEN 0 THEN last.reserved ELSE ledger_add(last.reserved, _price, _reserved_sign) END,
      last.cap, last.filters, NULL, NULL);
    RETURN;
  END IF;
  FOREACH account IN ARRAY _accounts LOOP
    CONTINUE WHEN account.scope <> 'source';
    SELECT l.* INTO last FROM unnest(_lasts) AS l WHERE l.account_id = account.id;
    SELECT e.blocks INTO STRICT named FROM ledger_entries AS e
      WHERE e.job_id = _job AND e.account_id = account.id AND e.kind = 'reserve';
    SELECT * INTO after FROM ledger_blocks_after(account.id, named, _price, _totals_sign, _reserved_sign);
    IF after.there <> (SELECT sum(upper(r) - lower(r)) FROM unnest(named) AS r) THEN
      RAISE EXCEPTION 'a block is missing' USING ERRCODE = 'DL002';
    END IF;
    RETURN NEXT ledger_write_blocks(last, account, _kind, _job, _actor, _events, _price, _totals_sign, _reserved_sign, named,
      after.sums, after.pages);
  END LOOP;
  RETURN QUERY
    INSERT INTO ledger_entries
    SELECT l.account_id, l.seq + 1, l.tenant_id, _kind, _job, b.body, sha256(l.hash || convert_to(b.body, 'UTF8')), l.hash,
      t.totals, t.reserved, l.cap, l.filters, written_at
    FROM unnest(_lasts) AS l
    JOIN unnest(_accounts) AS a ON a.id = l.account_id AND a.scope <> 'source'
    CROSS JOIN LATERAL (SELECT
      CASE _totals_sign WHEN 0 THEN l.totals ELSE ledger_add(l.totals, _price, _totals_sign) END AS totals,
      CASE _reserved_sign WHEN 0 THEN l.reserved ELSE ledger_add(l.reserved, _price, _reserved_sign) END AS reserved
      OFFSET 0) AS t
    CROSS JOIN LATERAL (SELECT ledger_body(a, l.seq + 1, written_at, _kind, _job, _actor, NULL, _events, _price, t.totals,
      t.reserved, l.cap, l.filters, NULL, NULL) AS body OFFSET 0) AS b
    RETURNING ledger_entries.*;
END
$$;

CREATE FUNCTION ledger_reserve_blocks(_job text, _accounts text[], _price jsonb, _events text, _actor text)
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

CREATE FUNCTION ledger_reserve(_job text, _accounts text[], _price jsonb, _events text, _actor text)
RETURNS TABLE (account_id text, scope text, subject text, admitted boolean, totals jsonb, reserved jsonb, cap jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- One row for each account, as it stood before. Either all are admitted, and each has its entry, or nothing is written.
-- The account of a block has no lines of its own, and shares one with the others of its chain; its row is there only where
-- nothing was written.
DECLARE
  held accounts[];
  lasts ledger_entries[];
  passes boolean;
BEGIN
  PERFORM ledger_check_price(_price);
  IF strpos(array_to_string(_accounts, ' '), '.') > 0 THEN
    RETURN QUERY SELECT * FROM ledger_reserve_blocks(_job, _accounts, _price, _events, _actor);
    RETURN;
  END IF;
  held := ledger_hold(_accounts);
  IF cardinality(held) = 0 OR cardinality(held) IS DISTINCT FROM cardinality(_accounts) THEN
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  lasts := ledger_ends(held);
  IF cardinality(lasts) <> cardinality(held) OR 'source' = ANY (ARRAY(SELECT a.scope FROM unnest(held) AS a)) THEN
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

CREATE FUNCTION ledger_lock(_job text) RETURNS accounts[]
LANGUAGE plpgsql AS $$
-- The accounts on which a job has reserved, locked. Entries of a job are found by the job alone: only the index that begins
-- with it can do that, whatever statistics say. Beside it and a scan of the whole table, which callers switch off, a
-- condition on the account would let an account's whole history be read.
BEGIN
  RETURN ledger_hold(ARRAY(SELECT e.account_id FROM ledger_entries AS e WHERE e.job_id = _job AND e.kind = 'reserve'));
END
$$;

CREATE FUNCTION ledger_touch(_job text, _actor text) RETURNS void
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

CREATE FUNCTION ledger_settle(_job text, _actor text)
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

CREATE FUNCTION ledger_caps(_tenant text, _principal text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  -- the accounts of the caps that stand on a tenant and on a principal of it; every job of theirs is charged there too
  SELECT coalesce(array_agg(id), '{}') FROM accounts
  WHERE tenant_id = _tenant AND (scope, subject) IN (('tenant', _tenant), ('principal', _principal))
$$;

CREATE FUNCTION ledger_refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'DL004';
END
$$;

CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER block_caps_kept BEFORE DELETE OR TRUNCATE ON block_caps
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER block_pages_kept BEFORE DELETE OR TRUNCATE ON block_pages
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON accounts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

CREATE FUNCTION read_budgets(_tenant text, _account text)
RETURNS TABLE (id text, scope text, subject text, unit text, totals text, reserved text, cap text, datasets text)
LANGUAGE plpgsql SET enable_sort = off AS $$
-- The accounts of a tenant (_account: that one) in the order they were opened, as their last entries or the sums of blocks
-- say, with their datasets. Everything as text: equal text is an equal budget.
BEGIN
  PERFORM set_config('discreet.tenant', _tenant, true);
  RETURN QUERY
    SELECT a.id, a.scope, a.subject, a.unit, CASE WHEN b.number IS NULL THEN e.totals
        ELSE ledger_amounts(b.delta, b.delta_z, b.epsilon, b.rho) END::text,
      CASE WHEN b.number IS NULL THEN e.reserved
        ELSE ledger_amounts(b.reserved_delta, b.reserved_delta_z, b.reserved_epsilon, b.reserved_rho) END::text,
      coalesce(b.cap, e.cap)::text,
      coalesce((SELECT jsonb_agg(jsonb_build_object('id', d.id, 'name', d.name, 'deleted', d.deleted_at IS NOT NULL)
                                 ORDER BY d.created_at, d.id)
                FROM datasets AS d WHERE d.account_id = a.id), '[]')::text
    FROM accounts AS a
    LEFT JOIN block_sums AS b ON b.account_id = a.id
    LEFT JOIN LATERAL (SELECT l.totals, l.reserved, l.cap FROM ledger_entries AS l
                       WHERE l.account_id = a.id ORDER BY l.seq DESC LIMIT 1) AS e ON b.account_id IS NULL
    WHERE a.tenant_id = _tenant AND a.scope <> 'source' AND (_account IS NULL OR a.id = _account)
      AND (b.account_id IS NOT NULL OR e.totals IS NOT NULL)
    ORDER BY a.created_at, a.id;
END
$$;

REVOKE ALL ON FUNCTION ledger_add(jsonb, jsonb, integer), ledger_text(jsonb), ledger_filters_text(jsonb),
  ledger_passes(jsonb, text), ledger_check(jsonb, text[], boolean), ledger_check_price(jsonb),
  ledger_check_cap(jsonb, jsonb), ledger_last(text), ledger_lock(text),
  ledger_hold(text[]), ledger_ends(accounts[]),
  ledger_body(accounts, bigint, timestamptz, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text, text, text),
  ledger_write_all(ledger_entries[], accounts[], text, text, text, text, jsonb, integer, integer),
  ledger_write(
    ledger_entries, accounts, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text, int4multirange, text),
  ledger_write_blocks(
    ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[]),
  ledger_block(integer), ledger_blocks_text(int4multirange), ledger_blocks_after(text, int4multirange, jsonb, integer, integer),
  ledger_shared(numeric[]), ledger_page_amounts(numeric[], integer, numeric),
  ledger_page_blocks(
    integer, integer, numeric[], numeric[], numeric[], numeric[], numeric[], numeric[], numeric[], numeric[]),
  ledger_page(integer), ledger_amounts(numeric, numeric, numeric, numeric), ledger_limits(jsonb),
  ledger_within(numeric, numeric, numeric, numeric, numeric[]),
  ledger_open_chain(text, text, text), ledger_open_block(text, jsonb, jsonb, text, text),
  ledger_grant_block(text, jsonb, jsonb, text, text), ledger_reserve_blocks(text, text[], jsonb, text, text),
  ledger_open(text, text, text, text, text, jsonb, jsonb, text, text), ledger_grant(text, jsonb, jsonb, text, text),
  ledger_reserve(text, text[], jsonb, text, text), ledger_touch(text, text), ledger_settle(text, text),
  ledger_caps(text, text), ledger_refuse_change(),
  read_budgets(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger_amounts(numeric, numeric, numeric, numeric),
  ledger_open_chain(text, text, text), ledger_open_block(text, jsonb, jsonb, text, text),
  ledger_open(text, text, text, text, text, jsonb, jsonb, text, text), ledger_grant(text, jsonb, jsonb, text, text),
  ledger_reserve(text, text[], jsonb, text, text), ledger_touch(text, text), ledger_settle(text, text),
  ledger_caps(text, text), read_budgets(text, text) TO discreet_app;

-- A request to an owner to raise a cap. No ledger changes before an owner grants it.
CREATE TABLE budget_requests (
  id text PRIMARY KEY,  -- identifies the request
  tenant_id text NOT NULL REFERENCES tenants,  -- whose account it is about
  account_id text NOT NULL REFERENCES accounts,  -- the account whose cap should be raised
  principal text NOT NULL,  -- who asks
  more jsonb NOT NULL,  -- by how much: epsilon and delta in the units of the ledger
  reason text NOT NULL,  -- why; the reason of a grant that answers it repeats this
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was asked
  state text NOT NULL DEFAULT 'open',  -- open until an owner has granted or declined it
  answered_by text,  -- the owner who did; null: nobody yet
  answer text,  -- the owner's answer; null: none yet
  answered_at timestamptz,  -- when that was; null: not yet
  CONSTRAINT budget_requests_state CHECK (state IN ('open', 'granted', 'declined'))
);
CREATE INDEX budget_requests_account ON budget_requests (account_id, created_at, id);
CREATE INDEX budget_requests_open ON budget_requests (tenant_id, principal) WHERE state = 'open';
ALTER TABLE budget_requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_requests FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON budget_requests USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE (state, answered_by, answer, answered_at) ON budget_requests TO discreet_app;
