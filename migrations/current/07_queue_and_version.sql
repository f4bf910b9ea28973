-- The queue, and which schema this is.
--
-- Tables, types and functions named procrastinate_* are those of the library procrastinate, made before
-- all others from the version that is installed; discreet changes one trigger of them. An entry carries a job's id and no more.

GRANT ALL ON procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers, procrastinate_workers TO discreet_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO discreet_app;

-- procrastinate's own trigger, which wakes its workers, except for transactions that announce to do so themselves.
CREATE OR REPLACE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1
  AFTER INSERT ON procrastinate_jobs FOR EACH ROW
  WHEN (NEW.status = 'todo' AND current_setting('discreet.tell', true) IS DISTINCT FROM 'later')
  EXECUTE FUNCTION procrastinate_notify_queue_job_inserted_v1();

-- The comment of this table, which `discreet migrate` writes, is the oldest schema whose code may run on this database.
CREATE TABLE alembic_version (
  version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY  -- the migration that was applied last
);
GRANT SELECT ON alembic_version TO discreet_app;
