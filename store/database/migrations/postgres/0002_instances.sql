-- The tables of migrations/sqlite/0002_instances.sql: what instances that
-- share these rows tell one another.

-- Moves with everything that changes connectors or a secret that one uses.
ALTER TABLE organizations ADD COLUMN catalog_version BIGINT NOT NULL DEFAULT 1;

CREATE TABLE signals (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  session         TEXT COLLATE "C" NOT NULL CHECK (session <> ''),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  data            TEXT             NOT NULL CHECK (octet_length(data) <= 65536)
);
CREATE INDEX signals_time ON signals (created_at, id);

-- MCP sessions that were ended before their ids expire.
CREATE TABLE ended_mcp_sessions (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  session         TEXT COLLATE "C" NOT NULL CHECK (session <> ''),
  expires_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, session)
);
CREATE INDEX ended_mcp_sessions_expiry ON ended_mcp_sessions (expires_at);

-- Which keys this database was written with. They belong to no organization.
CREATE TABLE key_checks (
  name        TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (name <> ''),
  fingerprint TEXT COLLATE "C" NOT NULL CHECK (fingerprint <> ''),
  created_at  TIMESTAMPTZ      NOT NULL
);

-- Work that one instance does for all. They belong to no organization.
CREATE TABLE locks (
  name   TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (name <> ''),
  holder TEXT COLLATE "C" NOT NULL CHECK (holder <> ''),
  until  TIMESTAMPTZ      NOT NULL
);

-- NULL: the key ends when it is revoked.
ALTER TABLE api_keys ADD COLUMN expires_at TIMESTAMPTZ;
CREATE INDEX api_keys_expiry ON api_keys (expires_at) WHERE expires_at IS NOT NULL;
