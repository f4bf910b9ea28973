-- The ledger's rules, owned by the database.
--
-- Every row of `ledger_entries` is written by the functions below and by nothing else: the application role may execute
-- them, and may not INSERT, UPDATE or DELETE. They keep, for each account, one hash chain, the running totals of all
-- admitted prices, and the caps; a reservation passes the filters of every account it touches or writes nothing.
--
-- Amounts are non-negative integers in decimal strings, by name: epsilon in 1e-9, delta, rho and delta_z in 1e-18. A filter is
-- a set of limits, one for each name it sums; which limits a cap (E, D) has is decided by discreet.privacy.filters and
-- stands in the row that sets the cap, so that admission here is a comparison of integers.
--
-- hash = SHA-256(previous hash || body), body the canonical JSON (RFC 8785) of the row.

CREATE FUNCTION ledger_flat(x jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
  -- canonical JSON of a flat object of strings
  SELECT '{' || coalesce(string_agg(to_json(key)::text || ':' || to_json(value)::text, ',' ORDER BY key COLLATE "C"), '') || '}'
  FROM jsonb_each_text(x)
$$;

CREATE FUNCTION ledger_nested(x jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
  -- canonical JSON of an object of flat objects
  SELECT '{' || coalesce(string_agg(to_json(key)::text || ':' || ledger_flat(value), ',' ORDER BY key COLLATE "C"), '') || '}'
  FROM jsonb_each(x)
$$;

CREATE FUNCTION ledger_add(a jsonb, b jsonb, sign integer) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(key, (coalesce((a->>key)::numeric, 0) + sign * coalesce((b->>key)::numeric, 0))::text), '{}')
  FROM (SELECT jsonb_object_keys(a) UNION SELECT jsonb_object_keys(b)) AS names(key)
$$;

CREATE FUNCTION ledger_passes(totals jsonb, filters jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
  -- true when at least one filter holds: each of its limits is met
  SELECT EXISTS (
    SELECT FROM jsonb_each(filters) AS filter(name, limits)
    WHERE NOT EXISTS (
      SELECT FROM jsonb_each_text(limits) AS bound(key, most)
      WHERE coalesce((totals->>key)::numeric, 0) > most::numeric
    )
  )
$$;

CREATE FUNCTION ledger_check_amounts(x jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = public, pg_temp AS $$
BEGIN
  IF x IS NULL OR jsonb_typeof(x) <> 'object' OR EXISTS (SELECT FROM jsonb_each_text(x) WHERE value IS NULL OR value !~ '^(0|[1-9][0-9]{0,36})$') THEN
    RAISE EXCEPTION 'amounts are non-negative integers in decimal strings' USING ERRCODE = 'DL001';
  END IF;
END
$$;

CREATE FUNCTION ledger_last(_account text) RETURNS ledger_entries
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
  SELECT * FROM ledger_entries WHERE account_id = _account ORDER BY seq DESC LIMIT 1
$$;

CREATE FUNCTION ledger_write(
  _last ledger_entries, _account accounts, _kind text, _job text, _actor text, _reason text, _events text, _price jsonb,
  _totals jsonb, _reserved jsonb, _cap jsonb, _filters jsonb
) RETURNS ledger_entries
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
  entry ledger_entries;
BEGIN
  entry.account_id := _account.id;
  entry.tenant_id := _account.tenant_id;
  entry.seq := coalesce(_last.seq, 0) + 1;
  entry.kind := _kind;
  entry.job_id := _job;
  entry.at := clock_timestamp();
  entry.previous_hash := coalesce(_last.hash, decode(repeat('00', 32), 'hex'));
  entry.totals := _totals;
  entry.reserved := _reserved;
  entry.cap := _cap;
  entry.filters := _filters;
  entry.body := '{"account":' || to_json(_account.id)
    || ',"actor":' || coalesce(to_json(_actor)::text, 'null')
    || ',"at":' || to_json(to_char(entry.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    || ',"cap":' || ledger_flat(_cap)
    || ',"events":' || _events
    || ',"filters":' || ledger_nested(_filters)
    || ',"job":' || coalesce(to_json(_job)::text, 'null')
    || ',"kind":' || to_json(_kind)
    || ',"price":' || ledger_flat(_price)
    || ',"reason":' || coalesce(to_json(_reason)::text, 'null')
    || ',"reserved":' || ledger_flat(_reserved)
    || ',"scope":' || to_json(_account.scope)
    || ',"seq":' || entry.seq
    || ',"subject":' || to_json(_account.subject)
    || ',"tenant":' || to_json(_account.tenant_id)
    || ',"totals":' || ledger_flat(_totals)
    || ',"unit":' || to_json(_account.unit)
    || '}';
  entry.hash := sha256(entry.previous_hash || convert_to(entry.body, 'UTF8'));
  INSERT INTO ledger_entries SELECT entry.*;
  RETURN entry;
END
$$;

CREATE FUNCTION ledger_open(
  _account text, _tenant text, _scope text, _subject text, _unit text, _cap jsonb, _filters jsonb, _actor text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  account accounts;
BEGIN
  PERFORM ledger_check_amounts(_cap);
  PERFORM ledger_check_amounts(value) FROM jsonb_each(_filters);
  INSERT INTO accounts (id, tenant_id, scope, subject, unit) VALUES (_account, _tenant, _scope, _subject, _unit)
  RETURNING * INTO account;
  PERFORM ledger_write(NULL, account, 'open', NULL, _actor, NULL, '[]', '{}', '{}', '{}', _cap, _filters);
END
$$;

CREATE FUNCTION ledger_grant(_account text, _cap jsonb, _filters jsonb, _actor text, _reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- false, and nothing written, when what is spent or reserved would pass the new cap
DECLARE
  account accounts;
  last ledger_entries;
BEGIN
  PERFORM ledger_check_amounts(_cap);
  PERFORM ledger_check_amounts(value) FROM jsonb_each(_filters);
  SELECT * INTO STRICT account FROM accounts WHERE id = _account FOR UPDATE;
  last := ledger_last(_account);
  IF NOT ledger_passes(last.totals, _filters) THEN
    RETURN false;
  END IF;
  PERFORM ledger_write(last, account, 'grant', NULL, _actor, _reason, '[]', '{}', last.totals, last.reserved, _cap, _filters);
  RETURN true;
END
$$;

CREATE FUNCTION ledger_reserve(_job text, _accounts text[], _price jsonb, _events text, _actor text)
RETURNS TABLE (account_id text, admitted boolean, totals jsonb, reserved jsonb, cap jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- One row for each account, as it stood before. Either all are admitted, and each has its entry, or nothing is written.
DECLARE
  account accounts;
  last ledger_entries;
  refused boolean := false;
  found integer := 0;
BEGIN
  PERFORM ledger_check_amounts(_price);
  FOR account IN SELECT * FROM accounts AS a WHERE a.id = ANY (_accounts) ORDER BY a.id FOR UPDATE LOOP
    found := found + 1;
    last := ledger_last(account.id);
    account_id := account.id;
    totals := last.totals;
    reserved := last.reserved;
    cap := last.cap;
    admitted := ledger_passes(ledger_add(last.totals, _price, 1), last.filters);
    refused := refused OR NOT admitted;
    RETURN NEXT;
  END LOOP;
  IF found <> cardinality(_accounts) OR found = 0 THEN
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  IF refused THEN
    RETURN;
  END IF;
  FOR account IN SELECT * FROM accounts AS a WHERE a.id = ANY (_accounts) ORDER BY a.id LOOP
    last := ledger_last(account.id);
    PERFORM ledger_write(last, account, 'reserve', _job, _actor, NULL, _events, _price,
      ledger_add(last.totals, _price, 1), ledger_add(last.reserved, _price, 1), last.cap, last.filters);
  END LOOP;
END
$$;

CREATE FUNCTION ledger_touch(_job text, _actor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- From here on the job is charged in full, whatever happens. A second call writes nothing.
DECLARE
  account accounts;
  last ledger_entries;
  found boolean := false;
BEGIN
  FOR account IN
    SELECT a.* FROM accounts AS a JOIN ledger_entries AS e ON e.account_id = a.id AND e.job_id = _job AND e.kind = 'reserve'
    ORDER BY a.id FOR UPDATE OF a
  LOOP
    found := true;
    IF EXISTS (SELECT FROM ledger_entries AS e WHERE e.account_id = account.id AND e.job_id = _job AND e.kind IN ('commit', 'release')) THEN
      RAISE EXCEPTION 'job % is settled already', _job USING ERRCODE = 'DL003';
    END IF;
    IF NOT EXISTS (SELECT FROM ledger_entries AS e WHERE e.account_id = account.id AND e.job_id = _job AND e.kind = 'data_touched') THEN
      last := ledger_last(account.id);
      PERFORM ledger_write(last, account, 'data_touched', _job, _actor, NULL, '[]', '{}', last.totals, last.reserved, last.cap, last.filters);
    END IF;
  END LOOP;
  IF NOT found THEN
    RAISE EXCEPTION 'job % has reserved nothing', _job USING ERRCODE = 'DL003';
  END IF;
END
$$;

CREATE FUNCTION ledger_settle(_job text, _actor text)
RETURNS TABLE (account_id text, seq bigint, kind text, hash bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- Commit when data were touched, else release; a second call finds nothing to settle. Returns the entries it wrote.
DECLARE
  account accounts;
  last ledger_entries;
  entry ledger_entries;
  price jsonb;
  touched boolean;
BEGIN
  FOR account IN
    SELECT a.* FROM accounts AS a JOIN ledger_entries AS e ON e.account_id = a.id AND e.job_id = _job AND e.kind = 'reserve'
    ORDER BY a.id FOR UPDATE OF a
  LOOP
    CONTINUE WHEN EXISTS (
      SELECT FROM ledger_entries AS e WHERE e.account_id = account.id AND e.job_id = _job AND e.kind IN ('commit', 'release'));
    touched := EXISTS (SELECT FROM ledger_entries AS e WHERE e.account_id = account.id AND e.job_id = _job AND e.kind = 'data_touched');
    SELECT e.body::jsonb -> 'price' INTO STRICT price
      FROM ledger_entries AS e WHERE e.account_id = account.id AND e.job_id = _job AND e.kind = 'reserve';
    last := ledger_last(account.id);
    entry := ledger_write(last, account, CASE WHEN touched THEN 'commit' ELSE 'release' END, _job, _actor, NULL, '[]', price,
      CASE WHEN touched THEN last.totals ELSE ledger_add(last.totals, price, -1) END,
      ledger_add(last.reserved, price, -1), last.cap, last.filters);
    account_id := entry.account_id;
    seq := entry.seq;
    kind := entry.kind;
    hash := entry.hash;
    RETURN NEXT;
  END LOOP;
END
$$;

CREATE FUNCTION ledger_refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'DL004';
END
$$;

CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER accounts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON accounts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

REVOKE ALL ON FUNCTION ledger_flat(jsonb), ledger_nested(jsonb), ledger_add(jsonb, jsonb, integer), ledger_passes(jsonb, jsonb),
  ledger_check_amounts(jsonb), ledger_last(text),
  ledger_write(ledger_entries, accounts, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, jsonb),
  ledger_open(text, text, text, text, text, jsonb, jsonb, text), ledger_grant(text, jsonb, jsonb, text, text),
  ledger_reserve(text, text[], jsonb, text, text), ledger_touch(text, text), ledger_settle(text, text),
  ledger_refuse_change() FROM PUBLIC;
