-- What a job charges to all 32 blocks of a row is added once, beside what these stand at: a job over many blocks rewrites little.
-- Entries say what they said, and the view has the sums that it had.

-- Nobody changes a sum or a cap between what is read of it here and the end: accounts come first, as in every function of the
-- ledger.
LOCK TABLE accounts, block_caps, block_pages IN ACCESS EXCLUSIVE MODE;

SELECT set_config('discreet.tenant', '*', true);
CREATE TEMPORARY TABLE pages_of_0026 ON COMMIT DROP AS TABLE block_pages;
DROP VIEW block_sums;
DROP FUNCTION ledger_write_blocks(
  ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[]);
DROP FUNCTION ledger_blocks_after(text, int4multirange, jsonb, integer, integer);
DROP FUNCTION ledger_block_text(block_amounts);
DROP FUNCTION ledger_page_sums(block_amounts[], integer);
DROP TABLE block_pages;

CREATE TABLE block_pages (
  chain_id text NOT NULL REFERENCES accounts,
  page integer NOT NULL,
  tenant_id text NOT NULL,
  many integer NOT NULL,
  added block_amounts NOT NULL,
  limits numeric[],
  delta numeric[] NOT NULL,
  delta_z numeric[] NOT NULL,
  epsilon numeric[] NOT NULL,
  rho numeric[] NOT NULL,
  reserved_delta numeric[] NOT NULL,
  reserved_delta_z numeric[] NOT NULL,
  reserved_epsilon numeric[] NOT NULL,
  reserved_rho numeric[] NOT NULL,
  PRIMARY KEY (chain_id, page),
  CONSTRAINT block_pages_sums CHECK (
    cardinality(delta) IN (1, many) AND cardinality(delta_z) IN (1, many) AND cardinality(epsilon) IN (1, many)
    AND cardinality(rho) IN (1, many) AND cardinality(reserved_delta) IN (1, many)
    AND cardinality(reserved_delta_z) IN (1, many) AND cardinality(reserved_epsilon) IN (1, many)
    AND cardinality(reserved_rho) IN (1, many))
);
ALTER TABLE block_pages SET (fillfactor = 50, toast_tuple_target = 8160);
ALTER TABLE block_pages ENABLE ROW LEVEL SECURITY;
ALTER TABLE block_pages FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON block_pages USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

COMMENT ON TABLE block_pages IS 'What was spent on such blocks, 32 of them in a row, so that a job over many rewrites few rows. A job over all blocks of a row changes added alone, so of the row the log has that and no more. These sums follow from the chain, whose lines bind them (sums), and change only together with it, under the lock of its account.';
COMMENT ON COLUMN block_pages.chain_id IS 'the account, of scope source, whose lines say how the sums came about';
COMMENT ON COLUMN block_pages.page IS 'page 0 has the blocks 1 to 32 of the chain, page 1 the next, and so on';
COMMENT ON COLUMN block_pages.tenant_id IS 'whose they are';
COMMENT ON COLUMN block_pages.many IS 'how many blocks it has: 32, but the last of a chain';
COMMENT ON COLUMN block_pages.added IS 'belongs to the sums of each of its blocks: what they were charged together';
COMMENT ON COLUMN block_pages.limits IS 'those that block_caps has for all blocks of the page; null: they differ';
COMMENT ON COLUMN block_pages.delta IS 'of each of its blocks, in order, beside what was added; one where all are the same';
COMMENT ON COLUMN block_pages.delta_z IS 'the same of delta_z';
COMMENT ON COLUMN block_pages.epsilon IS 'the same of epsilon';
COMMENT ON COLUMN block_pages.rho IS 'the same of rho';
COMMENT ON COLUMN block_pages.reserved_delta IS 'the same of reserved_delta';
COMMENT ON COLUMN block_pages.reserved_delta_z IS 'the same of reserved_delta_z';
COMMENT ON COLUMN block_pages.reserved_epsilon IS 'the same of reserved_epsilon';
COMMENT ON COLUMN block_pages.reserved_rho IS 'the same of reserved_rho';

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

INSERT INTO block_pages
  SELECT b.chain_id, b.page, b.tenant_id, b.many, '(0,0,0,0,0,0,0,0)', b.limits,
    ledger_shared(ARRAY(SELECT u.delta FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.delta_z FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.epsilon FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.rho FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.reserved_delta FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.reserved_delta_z FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.reserved_epsilon FROM unnest(b.sums) AS u)),
    ledger_shared(ARRAY(SELECT u.reserved_rho FROM unnest(b.sums) AS u))
  FROM pages_of_0026 AS b;

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

CREATE TRIGGER block_pages_kept BEFORE DELETE OR TRUNCATE ON block_pages
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

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

CREATE FUNCTION ledger_write_blocks(
  _last ledger_entries, _chain accounts, _kind text, _job text, _actor text, _events text, _price jsonb,
  _totals_sign integer, _reserved_sign integer, _blocks int4multirange, _sums text, _pages block_pages[]
) RETURNS ledger_entries
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- One line in a chain of blocks whose lock the caller holds, and what ledger_blocks_after says of these blocks with it.
BEGIN
  IF _totals_sign <> 0 OR _reserved_sign <> 0 THEN
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

CREATE OR REPLACE FUNCTION ledger_open_block(_chain text, _cap jsonb, _filters jsonb, _actor text, _reason text) RETURNS text
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

CREATE OR REPLACE FUNCTION ledger_grant_block(_account text, _cap jsonb, _filters jsonb, _actor text, _reason text) RETURNS boolean
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

CREATE OR REPLACE FUNCTION ledger_write_all(
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

CREATE OR REPLACE FUNCTION ledger_reserve_blocks(_job text, _accounts text[], _price jsonb, _events text, _actor text)
RETURNS TABLE (account_id text, scope text, subject text, admitted boolean, totals jsonb, reserved jsonb, cap jsonb)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- ledger_reserve where some of the accounts are those of blocks: one line in their chain, and one on each other account.
-- Neighbours may be named together, chain.1-30. How blocks stand is told only where nothing was written: who is admitted
-- does not ask.
DECLARE
  plain text[] := ARRAY(SELECT n FROM unnest(_accounts) AS n WHERE strpos(n, '.') = 0);
  chains text[];
  spans int4multirange[];
  named bigint;
  held accounts[];
  lasts ledger_entries[];
  account accounts;
  last ledger_entries;
  written ledger_entries;
  in_order boolean;
  counted bigint := 0;
  within bigint := 0;
  bound text[] := '{}';
  changed block_pages[];
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
    SELECT counted + a.there, within + a.passed, bound || a.sums, CASE n WHEN 1 THEN a.pages ELSE changed || a.pages END
    INTO counted, within, bound, changed FROM ledger_blocks_after(chains[n], spans[n], _price, 1, 1) AS a;
  END LOOP;
  IF counted <> named THEN  -- fewer blocks are there than were named, or one was named twice
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  passes := within = named AND (cardinality(plain) = 0 OR NOT EXISTS (
    SELECT FROM unnest(lasts) AS l
    WHERE l.blocks IS NULL AND NOT coalesce(ledger_passes(ledger_add(l.totals, _price, 1), l.filters), false)));
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

REVOKE ALL ON FUNCTION ledger_shared(numeric[]), ledger_page_amounts(numeric[], integer, numeric),
  ledger_page_blocks(
    integer, integer, numeric[], numeric[], numeric[], numeric[], numeric[], numeric[], numeric[], numeric[]),
  ledger_blocks_after(text, int4multirange, jsonb, integer, integer),
  ledger_write_blocks(
    ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[])
FROM PUBLIC;

-- Rows of job_blocks are written by accept_jobs alone, which locks these datasets and writes the job, and rows of neither are
-- ever deleted: checks of foreign keys found that out again for each block, in half of the time that a job over many took.
ALTER TABLE job_blocks DROP CONSTRAINT job_blocks_job_id_fkey, DROP CONSTRAINT job_blocks_dataset_id_fkey;
COMMENT ON COLUMN job_blocks.job_id IS 'which job; whoever writes the row has written the job''s in the same transaction';
COMMENT ON COLUMN job_blocks.dataset_id IS
  'which version, locked by whoever writes the row; neither of both is ever deleted';
