-- Webhooks and their messages: an outbox, written in the transaction of the event and emptied by the workers.

-- An address to which events are sent.
CREATE TABLE webhooks (
  id text PRIMARY KEY,  -- identifies the webhook; its secret is sealed under this name
  tenant_id text NOT NULL REFERENCES tenants,  -- whose events
  url text NOT NULL,  -- where messages go
  events jsonb NOT NULL,  -- list of the events that it wants
  content_key_id text NOT NULL,  -- the master key that sealed the secret
  sealed_secret bytea NOT NULL,  -- the key that signs its messages, under authenticated encryption
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was made
  failing_since timestamptz,  -- since when no message was delivered; null: the last one was
  last_error text,  -- why the last message was not delivered
  disabled_at timestamptz  -- since when nothing is sent to it; null: it is enabled
);
CREATE INDEX ix_webhooks_tenant_id ON webhooks (tenant_id);
ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON webhooks USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks TO discreet_app;

-- A message to a webhook.
CREATE TABLE webhook_deliveries (
  id text PRIMARY KEY,  -- identifies the message: one that comes twice has the same
  tenant_id text NOT NULL,  -- the webhook's
  webhook_id text NOT NULL REFERENCES webhooks ON DELETE CASCADE,  -- the webhook that it is sent to
  event text NOT NULL,  -- what happened
  subject text NOT NULL,  -- the job or account that it is about, so that the same is not sent twice in a short time
  body text NOT NULL,  -- the JSON text that is sent and signed
  attempts integer NOT NULL DEFAULT 0,  -- how often it was sent
  created_at timestamptz NOT NULL DEFAULT now(),  -- when it was written
  next_at timestamptz DEFAULT now(),  -- when it is due, or the sending worker's lease ends; null: delivered or given up
  delivered_at timestamptz  -- when its server accepted it; null: not yet
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_subject ON webhook_deliveries (webhook_id, event, subject, created_at);
CREATE INDEX webhook_deliveries_age ON webhook_deliveries (created_at);
ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON webhook_deliveries USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_deliveries TO discreet_app;
