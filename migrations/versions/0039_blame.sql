-- Agents say what they speak, and a session says why it could not go on without one.

ALTER TABLE session_agents ADD COLUMN speaks jsonb NOT NULL DEFAULT '[]', ADD COLUMN cause text;
ALTER TABLE group_members ADD COLUMN speaks jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN session_agents.speaks IS 'versions of protocols, methods and encryptions that it speaks';
COMMENT ON COLUMN session_agents.cause IS 'why the session could not go on without it; null: it could';
COMMENT ON COLUMN group_members.speaks IS 'what it spoke then';
