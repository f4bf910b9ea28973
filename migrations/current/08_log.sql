-- The transparency log: one append-only Merkle tree (RFC 6962) over the entries of all ledgers of the installation.
--
-- An entry is written by its own transaction and noted as pending; `log_append` gives what is pending the next numbers, one
-- call at a time, so that no two ledgers wait for each other. A leaf is the SHA-256 of a salt and the entry's hash: who is
-- not given the salt learns how many entries there are, and nothing of any. Hashes of whole subtrees are kept as tiles of
-- 256, of which any root and any proof is a few hundred hashes away.

-- Entries that the log does not hold yet, in an order in which each account's come as in its chain.
CREATE TABLE log_pending (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order of entries
  tenant_id text NOT NULL,  -- whose entry it is
  account_id text NOT NULL,  -- the account of the entry
  seq bigint NOT NULL  -- its number in the account's chain
);
ALTER TABLE log_pending ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_pending FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON log_pending USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT ON log_pending TO discreet_app;

-- The leaves of the tree.
CREATE TABLE log_leaves (
  number bigint PRIMARY KEY,  -- the leaf's place in the tree, from 0 without a gap
  tenant_id text NOT NULL,  -- whose entry it is
  account_id text NOT NULL,  -- the account of the entry
  seq bigint NOT NULL,  -- its number in the account's chain
  salt bytea NOT NULL,  -- random; only who may read the entry is given it
  commitment bytea NOT NULL,  -- SHA-256 of salt and the entry's hash: what the log shows of it
  CONSTRAINT log_leaves_entry UNIQUE (account_id, seq)
);
ALTER TABLE log_leaves ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_leaves FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON log_leaves USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT ON log_leaves TO discreet_app;

-- Hashes of whole subtrees of 256 leaves, of 256 of those, and so on.
CREATE TABLE log_nodes (
  level integer NOT NULL,  -- 1: the subtree has 256 leaves, 2: 65,536, ...
  number bigint NOT NULL,  -- which subtree of that size, from 0
  hash bytea NOT NULL,  -- its root
  PRIMARY KEY (level, number)
);
ALTER TABLE log_nodes ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_nodes FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON log_nodes USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT ON log_nodes TO discreet_app;

-- Signed checkpoints of the tree, which anybody may read.
CREATE TABLE log_checkpoints (
  size bigint PRIMARY KEY,  -- the number of leaves that the tree had
  root bytea NOT NULL,  -- its root then
  note text NOT NULL,  -- the signed note (C2SP checkpoint): origin, size, root, signature
  created_at timestamptz NOT NULL DEFAULT now()  -- when it was signed
);
ALTER TABLE log_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON log_checkpoints USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT ON log_checkpoints TO discreet_app;

-- Witnesses' signatures of checkpoints: each says that the tree has only grown since it last looked.
CREATE TABLE log_cosignatures (
  size bigint NOT NULL REFERENCES log_checkpoints,  -- which checkpoint
  witness text NOT NULL,  -- the witness's name
  line text NOT NULL,  -- its signature line (C2SP cosignature/v1), as it stands below the note
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it came
  PRIMARY KEY (size, witness)
);
ALTER TABLE log_cosignatures ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_cosignatures FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON log_cosignatures USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT, INSERT ON log_cosignatures TO discreet_app;

-- The name of the log, which never changes: the first line of every checkpoint. One row.
CREATE TABLE log_origin (
  origin text PRIMARY KEY  -- the name; random, so that no two installations share it
);
ALTER TABLE log_origin ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_origin FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON log_origin USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT ON log_origin TO discreet_app;
SELECT set_config('discreet.tenant', '*', true);
INSERT INTO log_origin VALUES ('discreet/' || gen_random_uuid());
SELECT set_config('discreet.tenant', '', true);

CREATE FUNCTION log_note() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
-- What one statement wrote, at once; an account's entries in the order of its chain.
BEGIN
  INSERT INTO log_pending (tenant_id, account_id, seq)
  SELECT w.tenant_id, w.account_id, w.seq FROM written AS w ORDER BY w.seq;
  RETURN NULL;
END
$$;

CREATE FUNCTION log_root(_hashes bytea[]) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = public, pg_temp AS $$
-- The root of a whole subtree: as many hashes as a power of two.
DECLARE
  hashes bytea[] := _hashes;
  width integer := cardinality(_hashes);
BEGIN
  WHILE width > 1 LOOP
    width := width / 2;
    hashes := ARRAY(SELECT sha256('\x01'::bytea || hashes[2 * i - 1] || hashes[2 * i]) FROM generate_series(1, width) AS i ORDER BY i);
  END LOOP;
  RETURN hashes[1];
END
$$;

CREATE FUNCTION log_append(_salts bytea[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- Give the first pending entries, one for each salt, the next numbers; returns the size that the log has then.
DECLARE
  below bigint;  -- subtrees that the level below had whole before, and has now
  above bigint;
  height integer := 0;
  hashes bytea[];
BEGIN
  IF EXISTS (SELECT FROM unnest(_salts) AS salt WHERE salt IS NULL OR octet_length(salt) < 16) THEN
    RAISE EXCEPTION 'a salt has at least 16 bytes' USING ERRCODE = 'DL001';
  END IF;
  IF current_setting('discreet.tenant', true) IS DISTINCT FROM '*' THEN
    RAISE EXCEPTION 'the log is that of all tenants' USING ERRCODE = 'DL002';
  END IF;
  PERFORM pg_advisory_xact_lock(7365208515);
  SELECT coalesce(max(number) + 1, 0) INTO below FROM log_leaves;
  WITH taken AS (
    DELETE FROM log_pending WHERE id IN (SELECT p.id FROM log_pending AS p ORDER BY p.id LIMIT cardinality(_salts))
    RETURNING id, tenant_id, account_id, seq
  ), placed AS (
    SELECT taken.*, row_number() OVER (ORDER BY id) AS place FROM taken
  )
  INSERT INTO log_leaves (number, tenant_id, account_id, seq, salt, commitment)
  SELECT below + p.place - 1, p.tenant_id, p.account_id, p.seq, _salts[p.place], sha256(_salts[p.place] || e.hash)
  FROM placed AS p JOIN ledger_entries AS e ON e.account_id = p.account_id AND e.seq = p.seq;
  SELECT coalesce(max(number) + 1, 0) INTO above FROM log_leaves;
  WHILE above / 256 > below / 256 LOOP
    FOR tile IN below / 256 .. above / 256 - 1 LOOP
      IF height = 0 THEN
        hashes := ARRAY(SELECT sha256('\x00'::bytea || l.commitment) FROM log_leaves AS l
                        WHERE l.number BETWEEN 256 * tile AND 256 * tile + 255 ORDER BY l.number);
      ELSE
        hashes := ARRAY(SELECT n.hash FROM log_nodes AS n
                        WHERE n.level = height AND n.number BETWEEN 256 * tile AND 256 * tile + 255 ORDER BY n.number);
      END IF;
      INSERT INTO log_nodes VALUES (height + 1, tile, log_root(hashes));
    END LOOP;
    below := below / 256;
    above := above / 256;
    height := height + 1;
  END LOOP;
  RETURN (SELECT coalesce(max(number) + 1, 0) FROM log_leaves);
END
$$;

CREATE FUNCTION log_sign(_size bigint, _root bytea, _note text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- Keep a checkpoint of the tree as it is; false, and nothing written, when there is one of this size already.
BEGIN
  IF current_setting('discreet.tenant', true) IS DISTINCT FROM '*' THEN
    RAISE EXCEPTION 'the log is that of all tenants' USING ERRCODE = 'DL002';
  END IF;
  PERFORM pg_advisory_xact_lock(7365208515);
  IF _size IS DISTINCT FROM (SELECT coalesce(max(number) + 1, 0) FROM log_leaves) THEN
    RAISE EXCEPTION 'the log has another size' USING ERRCODE = 'DL003';
  END IF;
  INSERT INTO log_checkpoints (size, root, note) VALUES (_size, _root, _note) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

CREATE FUNCTION log_require(_value text, _size bigint, _root bytea) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- The first argument, if this database knows the checkpoint of that size with that root, or none is asked for: whoever
-- has seen it elsewhere has this refuse to go on where the ledger was taken back.
DECLARE
  tenant text := coalesce(current_setting('discreet.tenant', true), '');
  known boolean;
BEGIN
  IF _size > 0 THEN
    PERFORM set_config('discreet.tenant', '*', true);
    known := EXISTS (SELECT FROM log_checkpoints AS c WHERE c.size = _size AND c.root = _root);
    PERFORM set_config('discreet.tenant', tenant, true);
    IF NOT known THEN
      RAISE EXCEPTION 'the ledger was taken back' USING ERRCODE = 'DL004';
    END IF;
  END IF;
  RETURN _value;
END
$$;

CREATE TRIGGER ledger_entries_noted AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION log_note();
CREATE TRIGGER log_leaves_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_leaves
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER log_nodes_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_nodes
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER log_checkpoints_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_checkpoints
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER log_origin_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_origin
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

REVOKE ALL ON FUNCTION log_note(), log_root(bytea[]), log_append(bytea[]), log_sign(bigint, bytea, text),
  log_require(text, bigint, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION log_append(bytea[]), log_sign(bigint, bytea, text), log_require(text, bigint, bytea) TO discreet_app;
