-- Federated sessions: enrolment, rosters, rounds, and standing groups of agents.

-- The session of a federated job. Its fencing token is the job's attempt.
CREATE TABLE sessions (
  job_id text PRIMARY KEY REFERENCES jobs,  -- the job that it runs
  id text NOT NULL UNIQUE,  -- its id for agents
  tenant_id text NOT NULL REFERENCES tenants,  -- the job's
  terms jsonb NOT NULL,  -- what agents agree to: numbers of agents, times to wait
  budget jsonb NOT NULL,  -- the most that the announcements of a roster may cost, by price column
  owner text,  -- fingerprint of the key that must sign the roster; null: no enrolment links exist yet
  roster bytea,  -- the signed list of agents with their announcements, as it was signed; null: not signed yet
  roster_signature bytea,  -- Ed25519 signature of it by the owner's key
  owner_key bytea,  -- that public key
  approved_at timestamptz,  -- when the roster was accepted
  holder text,  -- the rpc process that runs the session; null: none
  lease_until timestamptz,  -- when the holder's lease ends; null: nobody has it
  wanted text,  -- a process to which agents have connected and that asks the holder for the session; null: none
  round bigint NOT NULL DEFAULT '0',  -- number of steps that led to the stored state
  content_key_id text,  -- the master key that sealed the state
  sealed bytea,  -- state after round steps, with the broadcast that agents may have seen; null: not begun
  transcript bytea  -- the hash of all rounds so far, which agents compare
);
CREATE INDEX sessions_lease ON sessions (lease_until);
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON sessions USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE ON sessions TO discreet_app;

-- A one-time token of enrolment.
CREATE TABLE session_tokens (
  mac bytea PRIMARY KEY,  -- HMAC-SHA256 of the token, never the token
  job_id text NOT NULL REFERENCES jobs,  -- the session that it admits to
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was made
  expires_at timestamptz NOT NULL,  -- when it expires
  used_by text,  -- fingerprint of the agent that used it; null: nobody
  used_at timestamptz,  -- when
  name text  -- the name of the agent that it is for; null: of any
);
CREATE INDEX ix_session_tokens_job_id ON session_tokens (job_id);
ALTER TABLE session_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE session_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON session_tokens
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id));
GRANT SELECT, INSERT, UPDATE (used_by, used_at) ON session_tokens TO discreet_app;

-- An agent that has enrolled in a session.
CREATE TABLE session_agents (
  job_id text NOT NULL REFERENCES jobs,  -- the session
  fingerprint text NOT NULL,  -- of the agent's public key
  name text NOT NULL,  -- what it calls itself
  public_key bytea NOT NULL,  -- Ed25519
  account_id text NOT NULL REFERENCES accounts,  -- what its part is charged to
  unit text NOT NULL,  -- what neighbouring data of it differ by
  announcement jsonb NOT NULL,  -- what it declares of its part before anybody signs
  enrolled_at timestamptz NOT NULL DEFAULT now(),  -- when
  receipt jsonb,  -- its countersignature of the charge; null: not yet
  speaks jsonb NOT NULL DEFAULT '[]',  -- versions of protocols, methods and encryptions that it speaks
  cause text,  -- why the session could not go on without it; null: it could
  PRIMARY KEY (job_id, fingerprint)
);
ALTER TABLE session_agents ENABLE ROW LEVEL SECURITY;
ALTER TABLE session_agents FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON session_agents
  USING (current_setting('discreet.tenant', true) = '*' OR EXISTS (SELECT FROM jobs WHERE jobs.id = job_id));
GRANT SELECT, INSERT, UPDATE, DELETE ON session_agents TO discreet_app;

-- A member of a standing group of agents, which enrols in sessions without a token.
CREATE TABLE group_members (
  tenant_id text NOT NULL REFERENCES tenants,  -- whose group
  group_name text NOT NULL,  -- which group
  fingerprint text NOT NULL,  -- of the agent's public key
  name text NOT NULL,  -- what it calls itself
  public_key bytea NOT NULL,  -- Ed25519
  account_id text NOT NULL REFERENCES accounts,  -- what its part is charged to
  unit text NOT NULL,  -- what neighbouring data of it differ by
  announcement jsonb NOT NULL,  -- what it declared when the group was saved
  speaks jsonb NOT NULL DEFAULT '[]',  -- what it spoke then
  PRIMARY KEY (tenant_id, group_name, fingerprint)
);
ALTER TABLE group_members ENABLE ROW LEVEL SECURITY;
ALTER TABLE group_members FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON group_members USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, DELETE ON group_members TO discreet_app;
