-- Connections to the services that the gateway's own modules speak to.

-- Holder is the only user who may see one; '' when everybody of the
-- organization may. Connecting an account again is the same row, also after it
-- was disconnected: sessions name it by its id.
CREATE TABLE integrations (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  provider        TEXT    NOT NULL CHECK (provider <> ''),
  kind            TEXT    NOT NULL CHECK (kind IN ('api_key', 'bot_token', 'oauth2', 'app_installation', 'none')),
  broker          TEXT    CHECK (broker = 'nango'), -- NULL: the gateway itself
  account         TEXT    NOT NULL,
  account_name    TEXT,
  name            TEXT    NOT NULL CHECK (name <> ''),
  user_id         TEXT    CHECK (user_id <> ''), -- NULL: the organization's
  visibility      TEXT    NOT NULL CHECK (visibility IN ('organization', 'private')),
  holder          TEXT    NOT NULL,
  base_url        TEXT,
  settings        TEXT, -- a JSON object; NULL: none
  scopes          TEXT    CHECK (scopes <> '[]'), -- a JSON list; NULL: not known
  timeout_seconds INTEGER NOT NULL CHECK (timeout_seconds BETWEEN 0 AND 120),
  status          TEXT    NOT NULL CHECK (status IN ('active', 'expired', 'revoked', 'suspended', 'deleted')),
  reason          TEXT,
  expires_at      TEXT    CHECK (length(expires_at) = 27),
  revision        INTEGER NOT NULL CHECK (revision >= 1),
  version         INTEGER NOT NULL CHECK (version >= 1),
  sealed          BLOB,
  created_by      TEXT    NOT NULL CHECK (created_by <> ''),
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  updated_at      TEXT    NOT NULL CHECK (length(updated_at) = 27),
  CONSTRAINT broker_of_oauth CHECK (broker IS NULL OR kind = 'oauth2'),
  CONSTRAINT own_is_private CHECK (user_id IS NULL OR visibility = 'private'),
  CONSTRAINT held_by_its_owner CHECK (holder = coalesce(user_id, CASE visibility WHEN 'private' THEN created_by ELSE '' END)),
  CONSTRAINT deleted_is_wiped CHECK (status <> 'deleted' OR sealed IS NULL),
  CONSTRAINT active_needs_no_reason CHECK (status <> 'active' OR reason IS NULL)
) STRICT;
CREATE UNIQUE INDEX integrations_account ON integrations (organization_id, provider, (user_id IS NOT NULL), holder, account);
CREATE UNIQUE INDEX integrations_own ON integrations (organization_id, user_id, provider) WHERE user_id IS NOT NULL AND status <> 'deleted';
CREATE INDEX integrations_live ON integrations (organization_id, created_at, id) WHERE status <> 'deleted';

-- The gateway's registrations at services.
CREATE TABLE provider_apps (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  provider        TEXT NOT NULL CHECK (provider <> ''),
  client_id       TEXT,
  slug            TEXT,
  app_id          TEXT,
  base_url        TEXT,
  keys            TEXT CHECK (keys <> '{}'), -- a JSON object; NULL: none
  secrets         TEXT CHECK (secrets <> '[]'), -- a JSON list of names; NULL: none
  sealed          BLOB,
  updated_by      TEXT NOT NULL CHECK (updated_by <> ''),
  updated_at      TEXT NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, provider),
  CONSTRAINT secrets_are_sealed CHECK (secrets IS NULL OR sealed IS NOT NULL)
) STRICT;

-- Connections that began in a browser and have not ended.
CREATE TABLE integration_flows (
  state_hash      TEXT NOT NULL PRIMARY KEY CHECK (state_hash <> ''),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  provider        TEXT NOT NULL CHECK (provider <> ''),
  by              TEXT NOT NULL CHECK (by <> ''),
  login           TEXT NOT NULL CHECK (login <> ''),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  sealed          BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX integration_flows_organization ON integration_flows (organization_id);

-- What the sessions of an automation are bound to: an integration's id, or 'all'.
CREATE TABLE automation_connections (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  automation_id   TEXT NOT NULL CHECK (automation_id <> ''),
  integration_id  TEXT NOT NULL CHECK (integration_id <> ''),
  PRIMARY KEY (organization_id, automation_id, integration_id)
) STRICT, WITHOUT ROWID;

-- Keys that a rotation of the master key does not change, sealed with it.
CREATE TABLE vault_keys (
  name       TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
  sealed     BLOB NOT NULL,
  created_at TEXT NOT NULL CHECK (length(created_at) = 27)
) STRICT;

ALTER TABLE sessions ADD COLUMN connections TEXT CHECK (connections LIKE '["%"]'); -- a JSON list; NULL: none
ALTER TABLE connectors ADD COLUMN timeout_seconds INTEGER NOT NULL DEFAULT 0 CHECK (timeout_seconds BETWEEN 0 AND 120);

-- For which integration a call of a module ran. The triggers are as before, with
-- the new columns.
ALTER TABLE invocations ADD COLUMN integration_id TEXT CHECK (integration_id <> '');
DROP TRIGGER invocations_terminal;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name,
  denied_note, error_message, decision, params, result, summary, result_summary, grant_id, integration_id
ON invocations WHEN OLD.completed_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'a terminal invocation does not change');
END;
DROP TRIGGER sessions_fixed;
CREATE TRIGGER sessions_fixed BEFORE UPDATE OF id, organization_id, kind, type, automation_id, group_id, task_id, event_id, created_by, created_at, connections ON sessions
BEGIN
  SELECT RAISE(ABORT, 'what a session is does not change');
END;
