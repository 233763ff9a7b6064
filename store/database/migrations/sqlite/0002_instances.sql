-- What instances that share these rows tell one another. One alone uses the
-- same tables, so that there is one way only.

-- Moves with everything that changes connectors or a secret that one uses.
ALTER TABLE organizations ADD COLUMN catalog_version INTEGER NOT NULL DEFAULT 1;

CREATE TABLE signals (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  session         TEXT NOT NULL CHECK (session <> ''),
  kind            TEXT NOT NULL CHECK (kind <> ''),
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  data            TEXT NOT NULL CHECK (length(CAST(data AS BLOB)) <= 65536)
) STRICT;
CREATE INDEX signals_time ON signals (created_at, id);

-- MCP sessions that were ended before their ids expire.
CREATE TABLE ended_mcp_sessions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  session         TEXT NOT NULL CHECK (session <> ''),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  PRIMARY KEY (organization_id, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_mcp_sessions_expiry ON ended_mcp_sessions (expires_at);

-- Which keys this database was written with. They belong to no organization.
CREATE TABLE key_checks (
  name        TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
  fingerprint TEXT NOT NULL CHECK (fingerprint <> ''),
  created_at  TEXT NOT NULL CHECK (length(created_at) = 27)
) STRICT, WITHOUT ROWID;

-- Work that one instance does for all. They belong to no organization.
CREATE TABLE locks (
  name   TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
  holder TEXT NOT NULL CHECK (holder <> ''),
  until  TEXT NOT NULL CHECK (length(until) = 27)
) STRICT, WITHOUT ROWID;

-- NULL: the key ends when it is revoked.
ALTER TABLE api_keys ADD COLUMN expires_at TEXT CHECK (length(expires_at) = 27);
CREATE INDEX api_keys_expiry ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

-- When a caller was last seen is noted every few seconds: no index has it. The
-- sweep of calls that nobody waits for looks at those old enough.
DROP INDEX invocations_silent;
CREATE INDEX invocations_silent ON invocations (created_at) WHERE status = 'pending' AND unattended = 0 AND answered = 0;
