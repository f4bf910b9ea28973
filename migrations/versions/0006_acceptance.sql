-- Accepting jobs, several in one statement where they would only wait for each other.

CREATE OR REPLACE FUNCTION ledger_reserve(_job text, _accounts text[], _price jsonb, _events text, _actor text)
RETURNS TABLE (account_id text, scope text, subject text, admitted boolean, totals jsonb, reserved jsonb, cap jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
-- One row for each account, as it stood before. Either all are admitted, and each has its entry, or nothing is written.
-- Accounts are locked in the order of their ids, so that no two reservations wait for each other. As in ledger.sql, but for
-- the single account, which needs no order.
DECLARE
  account accounts;
  last ledger_entries;
  names text[] := _accounts;
  held accounts[] := '{}';
  lasts ledger_entries[] := '{}';
  sums jsonb[] := '{}';
  refused boolean := false;
BEGIN
  PERFORM ledger_check_price(_price);
  IF cardinality(_accounts) > 1 THEN
    names := ARRAY(SELECT DISTINCT name FROM unnest(_accounts) AS name ORDER BY name);
  END IF;
  FOREACH account_id IN ARRAY names LOOP
    SELECT * INTO account FROM accounts AS a WHERE a.id = account_id FOR UPDATE;
    EXIT WHEN NOT FOUND;
    last := ledger_last(account_id);
    held := held || account;
    lasts := lasts || last;
    scope := account.scope;
    subject := account.subject;
    totals := last.totals;
    reserved := last.reserved;
    cap := last.cap;
    sums := sums || ledger_add(last.totals, _price, 1);
    admitted := ledger_passes(sums[cardinality(sums)], last.filters);
    refused := refused OR NOT admitted;
    RETURN NEXT;
  END LOOP;
  IF cardinality(held) <> cardinality(_accounts) OR cardinality(held) = 0 THEN
    RAISE EXCEPTION 'an account is missing or named twice' USING ERRCODE = 'DL002';
  END IF;
  IF refused THEN
    RETURN;
  END IF;
  FOR number IN 1 .. cardinality(held) LOOP
    last := lasts[number];
    PERFORM ledger_write(last, held[number], 'reserve', _job, _actor, NULL, _events, _price,
      sums[number], ledger_add(last.reserved, _price, 1), last.cap, last.filters);
  END LOOP;
END
$$;

-- procrastinate's own trigger, which wakes its workers, but for who says that it will do so itself.
CREATE OR REPLACE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1
  AFTER INSERT ON procrastinate_jobs FOR EACH ROW
  WHEN (NEW.status = 'todo' AND current_setting('discreet.tell', true) IS DISTINCT FROM 'later')
  EXECUTE FUNCTION procrastinate_notify_queue_job_inserted_v1();

-- The end of an index, also while the statistics of a young table let the planner think that sorting was as cheap.
ALTER FUNCTION read_budgets(text, text) SET enable_sort = off;
