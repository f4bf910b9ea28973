-- What the processes of an installation report, and which backups are known, for its operators.

-- A process of the service: it makes its row when it starts, reports every ten seconds that it lives, and removes it when it
-- is told to end. Rows that stopped are of processes that were killed; a day later any other removes them.
CREATE TABLE processes (
  id text PRIMARY KEY,  -- random, new at each start
  part text NOT NULL,  -- its part: api, rpc or worker
  host text NOT NULL,  -- the name of its machine
  version text NOT NULL,  -- which version of discreet it runs
  schema text NOT NULL,  -- the schema that its code expects
  places integer,  -- how many jobs a worker can run at once
  queue_worker bigint,  -- a worker's number in procrastinate_workers; null: it takes no jobs yet
  isolation text,  -- isolation of its children, as tested by one of them; null: none was started yet
  reached text[],  -- what that child reached but should not have; null with the above
  walls text[],  -- the walls that held; null with the above
  started_at timestamptz NOT NULL DEFAULT now(),  -- when it started
  seen_at timestamptz NOT NULL DEFAULT now(),  -- when it last said that it lives
  CONSTRAINT processes_part CHECK (part IN ('api', 'rpc', 'worker')),
  CONSTRAINT processes_isolation CHECK (isolation IN ('full', 'partial', 'none'))
);
ALTER TABLE processes ENABLE ROW LEVEL SECURITY;
ALTER TABLE processes FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON processes USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT, INSERT, UPDATE, DELETE ON processes TO discreet_app;

-- A backup that was reported, as `discreet backup` does. The row is not in that backup itself.
CREATE TABLE backups (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- which
  made_at timestamptz NOT NULL,  -- the time of the state that it holds
  made_with text NOT NULL,  -- `discreet`: `discreet backup` wrote it; `other`: it was reported with `discreet note-backup`
  schema text NOT NULL,  -- the schema of the database then
  CONSTRAINT backups_made_with CHECK (made_with IN ('discreet', 'other'))
);
ALTER TABLE backups ENABLE ROW LEVEL SECURITY;
ALTER TABLE backups FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON backups USING (current_setting('discreet.tenant', true) = '*');
GRANT SELECT, INSERT ON backups TO discreet_app;
