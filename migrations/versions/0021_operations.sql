-- What the processes of an installation say of themselves, and which backups are known: for its operators.

-- A process of the service: it makes its row when it starts, says every ten seconds that it lives, and removes it when it
-- is told to end. Rows that stopped are of processes that were killed; a day later any other removes them.
CREATE TABLE processes (
  id text PRIMARY KEY,
  part text NOT NULL,
  host text NOT NULL,
  version text NOT NULL,
  schema text NOT NULL,
  places integer,
  queue_worker bigint,
  isolation text,
  reached text[],
  walls text[],
  started_at timestamptz NOT NULL DEFAULT now(),
  seen_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT processes_part CHECK (part IN ('api', 'rpc', 'worker')),
  CONSTRAINT processes_isolation CHECK (isolation IN ('full', 'partial', 'none'))
);
COMMENT ON TABLE processes IS
  'A process of the service: it makes its row when it starts, says every ten seconds that it lives, and removes it when it'
  ' is told to end. Rows that stopped are of processes that were killed; a day later any other removes them.';
COMMENT ON COLUMN processes.id IS 'random, new at each start';
COMMENT ON COLUMN processes.part IS 'what it does';
COMMENT ON COLUMN processes.host IS 'the name of its machine';
COMMENT ON COLUMN processes.version IS 'which version of discreet it runs';
COMMENT ON COLUMN processes.schema IS 'the schema that its code knows';
COMMENT ON COLUMN processes.places IS 'of a worker, how many jobs it runs at once';
COMMENT ON COLUMN processes.queue_worker IS 'of a worker, its number in procrastinate_workers; null: it takes nothing yet';
COMMENT ON COLUMN processes.isolation IS 'how well its children are shut in, as one of them tried; null: none was started yet';
COMMENT ON COLUMN processes.reached IS 'what that child reached and should not; null with the above';
COMMENT ON COLUMN processes.walls IS 'the walls that stood around it; null with the above';
COMMENT ON COLUMN processes.started_at IS 'when it started';
COMMENT ON COLUMN processes.seen_at IS 'when it last said that it lives';
ALTER TABLE processes ENABLE ROW LEVEL SECURITY;
ALTER TABLE processes FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON processes USING (current_setting('discreet.tenant', true) = '*');

-- A backup that was made, as far as anybody has said so: `discreet backup` does. It is not in that backup itself.
CREATE TABLE backups (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  made_at timestamptz NOT NULL,
  made_with text NOT NULL,
  schema text NOT NULL,
  CONSTRAINT backups_made_with CHECK (made_with IN ('discreet', 'other'))
);
COMMENT ON TABLE backups IS
  'A backup that was made, as far as anybody has said so: `discreet backup` does. It is not in that backup itself.';
COMMENT ON COLUMN backups.id IS 'which';
COMMENT ON COLUMN backups.made_at IS 'the time whose state it holds';
COMMENT ON COLUMN backups.made_with IS '`discreet`: `discreet backup` wrote it; `other`: somebody said so, it knows no more';
COMMENT ON COLUMN backups.schema IS 'the schema of the database then';
ALTER TABLE backups ENABLE ROW LEVEL SECURITY;
ALTER TABLE backups FORCE ROW LEVEL SECURITY;
CREATE POLICY all_tenants ON backups USING (current_setting('discreet.tenant', true) = '*');
