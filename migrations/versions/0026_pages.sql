-- The sums of 32 neighbours stand in one row, so that a job over many blocks rewrites few. Entries say what they said.

CREATE TABLE block_caps (
  chain_id text NOT NULL REFERENCES accounts,
  number integer NOT NULL,
  account_id text NOT NULL UNIQUE REFERENCES accounts,
  tenant_id text NOT NULL,
  cap jsonb NOT NULL,
  limits numeric[] NOT NULL,
  PRIMARY KEY (chain_id, number)
);
ALTER TABLE block_caps ENABLE ROW LEVEL SECURITY;
ALTER TABLE block_caps FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON block_caps USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

CREATE TYPE block_amounts AS (
  delta numeric, delta_z numeric, epsilon numeric, rho numeric,
  reserved_delta numeric, reserved_delta_z numeric, reserved_epsilon numeric, reserved_rho numeric
);

CREATE TABLE block_pages (
  chain_id text NOT NULL REFERENCES accounts,
  page integer NOT NULL,
  tenant_id text NOT NULL,
  many integer NOT NULL,
  limits numeric[],
  sums block_amounts[] NOT NULL,
  PRIMARY KEY (chain_id, page)
);
ALTER TABLE block_pages SET (fillfactor = 50, toast_tuple_target = 8160);
ALTER TABLE block_pages ENABLE ROW LEVEL SECURITY;
ALTER TABLE block_pages FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON block_pages USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));

COMMENT ON TABLE block_caps IS 'A block of a source that has one chain. Its account has no lines of its own.';
COMMENT ON COLUMN block_caps.chain_id IS 'the account, of scope source, whose lines are about the block';
COMMENT ON COLUMN block_caps.number IS 'the block''s number in that chain, from 1';
COMMENT ON COLUMN block_caps.account_id IS 'the block''s own account: chain, a dot and number';
COMMENT ON COLUMN block_caps.tenant_id IS 'whose both are';
COMMENT ON COLUMN block_caps.cap IS 'epsilon and delta that the owner allows on the block';
COMMENT ON COLUMN block_caps.limits IS 'that follow from the cap: delta, delta_z, epsilon, rho of each filter; null: no limit';
COMMENT ON TABLE block_pages IS 'What was spent on such blocks, 32 of them in a row, so that a job over many rewrites few rows. These sums follow from the chain, whose lines bind them (sums), and change only together with it, under the lock of its account.';
COMMENT ON COLUMN block_pages.chain_id IS 'the account, of scope source, whose lines say how the sums came about';
COMMENT ON COLUMN block_pages.page IS 'page 0 has the blocks 1 to 32 of the chain, page 1 the next, and so on';
COMMENT ON COLUMN block_pages.tenant_id IS 'whose they are';
COMMENT ON COLUMN block_pages.many IS 'how many blocks it has: 32, but the last of a chain';
COMMENT ON COLUMN block_pages.limits IS 'those that block_caps has for all blocks of the page; null: they differ';
COMMENT ON COLUMN block_pages.sums IS 'of each of its blocks, in order; one where all stand at the same';

SELECT set_config('discreet.tenant', '*', true);
INSERT INTO block_caps SELECT chain_id, number, account_id, tenant_id, cap, limits FROM block_sums;
INSERT INTO block_pages
  SELECT chain_id, (number - 1) / 32, min(tenant_id), count(*), CASE count(DISTINCT limits) WHEN 1 THEN min(limits) END,
    array_agg(ROW(delta, delta_z, epsilon, rho, reserved_delta, reserved_delta_z, reserved_epsilon, reserved_rho)::block_amounts
      ORDER BY number)
  FROM block_sums GROUP BY chain_id, (number - 1) / 32;

DROP FUNCTION ledger_write_blocks(
  ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange);
DROP FUNCTION ledger_block_sums(text);
DROP FUNCTION ledger_block_text(block_sums);
DROP TABLE block_sums;
CREATE VIEW block_sums WITH (security_invoker = true) AS
  SELECT c.chain_id, c.number, c.account_id, c.tenant_id, c.cap, c.limits, b.*
  FROM block_caps AS c
  JOIN block_pages AS p ON p.chain_id = c.chain_id AND p.page = (c.number - 1) / 32
  CROSS JOIN LATERAL (SELECT (p.sums[least((c.number - 1) % 32 + 1, cardinality(p.sums))]).*) AS b;

CREATE TRIGGER block_caps_kept BEFORE DELETE OR TRUNCATE ON block_caps
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER block_pages_kept BEFORE DELETE OR TRUNCATE ON block_pages
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

CREATE FUNCTION ledger_page(_number integer) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
  -- the page of a block
  SELECT (_number - 1) / 32
$$;

CREATE FUNCTION ledger_block_text(b block_amounts) RETURNS text
LANGUAGE sql STABLE AS $$
  -- Canonical JSON of reserved and totals, as the end of an array. (STABLE as || of a number is: else it is not inlined. concat
  -- takes twice the time, which is most of what a block costs.)
  SELECT ',{"delta":"' || b.reserved_delta || '","delta_z":"' || b.reserved_delta_z || '","epsilon":"' || b.reserved_epsilon
    || '","rho":"' || b.reserved_rho || '"},{"delta":"' || b.delta || '","delta_z":"' || b.delta_z || '","epsilon":"' || b.epsilon
    || '","rho":"' || b.rho || '"}]'
$$;

CREATE FUNCTION ledger_page_sums(_sums block_amounts[], _many integer) RETURNS block_amounts[]
LANGUAGE sql IMMUTABLE AS $$
  -- those of each block of a page, also where all stand at the same
  SELECT CASE cardinality(_sums) WHEN 1 THEN array_fill(_sums[1], ARRAY[_many]) ELSE _sums END
$$;

CREATE FUNCTION ledger_blocks_after(
  _chain text, _blocks int4multirange, _price jsonb, _totals_sign integer, _reserved_sign integer,
  OUT there bigint, OUT passed bigint, OUT sums text, OUT pages block_pages[]
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
-- Blocks as they stand once the price is added to their sums (1), taken away (-1), or as they are (0): how many there are, how
-- many of them are then within their limits, what a line binds of them, and the pages that have them. What is bound, as a
-- JSON string, is the SHA-256 of the canonical JSON of [[number, reserved, totals], ...]. Jobs over many blocks spend most of
-- their time here: one pass over the blocks, in the order in which unnest has them, does all of it, and a page of which all
-- blocks are named, and all stand at the same, counts as one block.
DECLARE
  spent_delta numeric := _totals_sign * coalesce((_price->>'delta')::numeric, 0);
  spent_delta_z numeric := _totals_sign * coalesce((_price->>'delta_z')::numeric, 0);
  spent_epsilon numeric := _totals_sign * coalesce((_price->>'epsilon')::numeric, 0);
  spent_rho numeric := _totals_sign * coalesce((_price->>'rho')::numeric, 0);
  held_delta numeric := _reserved_sign * coalesce((_price->>'delta')::numeric, 0);
  held_delta_z numeric := _reserved_sign * coalesce((_price->>'delta_z')::numeric, 0);
  held_epsilon numeric := _reserved_sign * coalesce((_price->>'epsilon')::numeric, 0);
  held_rho numeric := _reserved_sign * coalesce((_price->>'rho')::numeric, 0);
BEGIN
  SELECT coalesce(sum(b.there), 0), coalesce(sum(b.passed), 0), string_agg(b.parts, ',' ORDER BY p.page),
    array_agg(ROW(p.chain_id, p.page, p.tenant_id, p.many, p.limits,
      CASE WHEN b.sums = array_fill(b.sums[1], ARRAY[p.many]) THEN b.sums[1:1] ELSE b.sums END)::block_pages)
  INTO there, passed, sums, pages
  FROM block_pages AS p
  CROSS JOIN LATERAL (
    SELECT CASE WHEN cardinality(p.sums) = 1 AND p.limits IS NOT NULL
      AND _blocks @> int4range(p.page * 32 + 1, p.page * 32 + p.many, '[]') THEN p.many ELSE 1 END AS many OFFSET 0) AS w
  CROSS JOIN LATERAL (
    SELECT sum(w.many) FILTER (WHERE a.named) AS there,
      sum(w.many) FILTER (WHERE a.named AND ledger_within(a.delta, a.delta_z, a.epsilon, a.rho, a.limits)) AS passed,
      string_agg(CASE w.many WHEN 1 THEN '[' || a.number || a.text ELSE (
        SELECT string_agg('[' || n || a.text, ',') FROM generate_series(a.number, a.number + w.many - 1) AS n) END,
        ',') FILTER (WHERE a.named) AS parts,
      array_agg(ROW(a.delta, a.delta_z, a.epsilon, a.rho, a.reserved_delta, a.reserved_delta_z, a.reserved_epsilon,
        a.reserved_rho)::block_amounts) AS sums
    FROM (
      SELECT s.*, ledger_block_text(ROW(s.delta, s.delta_z, s.epsilon, s.rho, s.reserved_delta, s.reserved_delta_z,
        s.reserved_epsilon, s.reserved_rho)::block_amounts) AS text
      FROM (
        SELECT n.number, n.named, coalesce(p.limits, (
            SELECT c.limits FROM block_caps AS c WHERE c.chain_id = p.chain_id AND c.number = n.number)) AS limits,
          CASE WHEN n.named THEN n.delta + spent_delta ELSE n.delta END AS delta,
          CASE WHEN n.named THEN n.delta_z + spent_delta_z ELSE n.delta_z END AS delta_z,
          CASE WHEN n.named THEN n.epsilon + spent_epsilon ELSE n.epsilon END AS epsilon,
          CASE WHEN n.named THEN n.rho + spent_rho ELSE n.rho END AS rho,
          CASE WHEN n.named THEN n.reserved_delta + held_delta ELSE n.reserved_delta END AS reserved_delta,
          CASE WHEN n.named THEN n.reserved_delta_z + held_delta_z ELSE n.reserved_delta_z END AS reserved_delta_z,
          CASE WHEN n.named THEN n.reserved_epsilon + held_epsilon ELSE n.reserved_epsilon END AS reserved_epsilon,
          CASE WHEN n.named THEN n.reserved_rho + held_rho ELSE n.reserved_rho END AS reserved_rho
        FROM (
          SELECT u.*, p.page * 32 + u.place::integer AS number, _blocks @> (p.page * 32 + u.place::integer) AS named
          FROM unnest(CASE WHEN w.many > 1 THEN p.sums ELSE ledger_page_sums(p.sums, p.many) END) WITH ORDINALITY
            AS u(delta, delta_z, epsilon, rho, reserved_delta, reserved_delta_z, reserved_epsilon, reserved_rho, place)
          OFFSET 0) AS n
        OFFSET 0) AS s
      OFFSET 0) AS a
  ) AS b
  WHERE p.chain_id = _chain AND p.page BETWEEN ledger_page(lower(_blocks)) AND ledger_page(upper(_blocks) - 1)
    AND _blocks && int4range(p.page * 32 + 1, p.page * 32 + 33);
  sums := '"' || encode(sha256(convert_to('[' || sums || ']', 'UTF8')), 'hex') || '"';
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
    UPDATE block_pages AS p SET sums = n.sums
    FROM (SELECT u.page, u.sums FROM unnest(_pages) AS u OFFSET 0) AS n  -- no more than this goes along, which is faster
    WHERE p.chain_id = _chain.id AND p.page = n.page;
  END IF;
  RETURN ledger_write(_last, _chain, _kind, _job, _actor, NULL, _events, _price,
    CASE _totals_sign WHEN 0 THEN _last.totals ELSE ledger_add(_last.totals, _price, _totals_sign) END,
    CASE _reserved_sign WHEN 0 THEN _last.reserved ELSE ledger_add(_last.reserved, _price, _reserved_sign) END,
    '{}', '{}', _blocks, _sums);
END
$$;

CREATE OR REPLACE FUNCTION ledger_within(
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

CREATE OR REPLACE FUNCTION ledger_limits(_filters jsonb) RETURNS numeric[]
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
    VALUES (_chain, ledger_page(block.number), chain.tenant_id, 1, block.limits, ARRAY['(0,0,0,0,0,0,0,0)'::block_amounts])
    ON CONFLICT (chain_id, page) DO UPDATE SET many = block_pages.many + 1,
      sums = CASE WHEN block_pages.sums = EXCLUDED.sums THEN EXCLUDED.sums
        ELSE ledger_page_sums(block_pages.sums, block_pages.many) || EXCLUDED.sums END,
      limits = CASE WHEN block_pages.limits = EXCLUDED.limits THEN EXCLUDED.limits END;
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

REVOKE ALL ON FUNCTION ledger_page(integer), ledger_block_text(block_amounts), ledger_page_sums(block_amounts[], integer),
  ledger_blocks_after(text, int4multirange, jsonb, integer, integer),
  ledger_write_blocks(
    ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[])
  FROM PUBLIC;
