-- The tables of migrations/sqlite/0007_integrations.sql: connections to services.

CREATE TABLE integrations (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('api_key', 'bot_token', 'oauth2', 'app_installation', 'none')),
  broker          TEXT COLLATE "C" CHECK (broker = 'nango'), -- NULL: the gateway itself
  account         TEXT COLLATE "C" NOT NULL,
  account_name    TEXT,
  name            TEXT             NOT NULL CHECK (name <> ''),
  user_id         TEXT COLLATE "C" CHECK (user_id <> ''), -- NULL: the organization's
  visibility      TEXT COLLATE "C" NOT NULL CHECK (visibility IN ('organization', 'private')),
  holder          TEXT COLLATE "C" NOT NULL,
  base_url        TEXT,
  settings        TEXT, -- a JSON object; NULL: none
  scopes          TEXT             CHECK (scopes <> '[]'), -- a JSON list; NULL: not known
  timeout_seconds INTEGER          NOT NULL CHECK (timeout_seconds BETWEEN 0 AND 120),
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'expired', 'revoked', 'suspended', 'deleted')),
  reason          TEXT,
  expires_at      TIMESTAMPTZ,
  revision        BIGINT           NOT NULL CHECK (revision >= 1),
  version         BIGINT           NOT NULL CHECK (version >= 1),
  sealed          BYTEA,
  created_by      TEXT COLLATE "C" NOT NULL CHECK (created_by <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  CONSTRAINT broker_of_oauth CHECK (broker IS NULL OR kind = 'oauth2'),
  CONSTRAINT own_is_private CHECK (user_id IS NULL OR visibility = 'private'),
  CONSTRAINT held_by_its_owner CHECK (holder = coalesce(user_id, CASE visibility WHEN 'private' THEN created_by ELSE '' END)),
  CONSTRAINT deleted_is_wiped CHECK (status <> 'deleted' OR sealed IS NULL),
  CONSTRAINT active_needs_no_reason CHECK (status <> 'active' OR reason IS NULL)
);
CREATE UNIQUE INDEX integrations_account ON integrations (organization_id, provider, (user_id IS NOT NULL), holder, account);
CREATE UNIQUE INDEX integrations_own ON integrations (organization_id, user_id, provider) WHERE user_id IS NOT NULL AND status <> 'deleted';
CREATE INDEX integrations_live ON integrations (organization_id, created_at, id) WHERE status <> 'deleted';

CREATE TABLE provider_apps (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  client_id       TEXT,
  slug            TEXT,
  app_id          TEXT,
  base_url        TEXT,
  keys            TEXT             CHECK (keys <> '{}'), -- a JSON object; NULL: none
  secrets         TEXT             CHECK (secrets <> '[]'), -- a JSON list of names; NULL: none
  sealed          BYTEA,
  updated_by      TEXT             NOT NULL CHECK (updated_by <> ''),
  updated_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, provider),
  CONSTRAINT secrets_are_sealed CHECK (secrets IS NULL OR sealed IS NOT NULL)
);

CREATE TABLE integration_flows (
  state_hash      TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (state_hash <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  by              TEXT             NOT NULL CHECK (by <> ''),
  login           TEXT             NOT NULL CHECK (login <> ''),
  expires_at      TIMESTAMPTZ      NOT NULL,
  sealed          BYTEA            NOT NULL
);
CREATE INDEX integration_flows_organization ON integration_flows (organization_id);

CREATE TABLE automation_connections (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  automation_id   TEXT COLLATE "C" NOT NULL CHECK (automation_id <> ''),
  integration_id  TEXT COLLATE "C" NOT NULL CHECK (integration_id <> ''),
  PRIMARY KEY (organization_id, automation_id, integration_id)
);

CREATE TABLE vault_keys (
  name       TEXT        NOT NULL PRIMARY KEY CHECK (name <> ''),
  sealed     BYTEA       NOT NULL,
  created_at TIMESTAMPTZ NOT NULL
);

ALTER TABLE sessions ADD COLUMN connections TEXT CHECK (connections LIKE '["%"]'); -- a JSON list; NULL: none
ALTER TABLE connectors ADD COLUMN timeout_seconds INTEGER NOT NULL DEFAULT 0 CHECK (timeout_seconds BETWEEN 0 AND 120);

-- For which integration a call of a module ran. The triggers are as before, with
-- the new columns.
ALTER TABLE invocations ADD COLUMN integration_id TEXT CHECK (integration_id <> '');
DROP TRIGGER invocations_terminal ON invocations;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name,
  denied_note, error_message, decision, params, result, summary, result_summary, grant_id, integration_id
ON invocations FOR EACH ROW WHEN (OLD.completed_at IS NOT NULL) EXECUTE FUNCTION refuse_history();
DROP TRIGGER sessions_fixed ON sessions;
CREATE TRIGGER sessions_fixed BEFORE UPDATE OF id, organization_id, kind, type, automation_id, group_id, task_id, event_id, created_by, created_at, connections
ON sessions FOR EACH ROW EXECUTE FUNCTION refuse_change();
