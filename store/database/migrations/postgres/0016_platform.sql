-- The tables of migrations/sqlite/0016_platform.sql.

CREATE TABLE session_tool_invocations (
  organization_id TEXT COLLATE "C" NOT NULL,
  session_id      TEXT COLLATE "C" NOT NULL,
  tool            TEXT COLLATE "C" NOT NULL CHECK (tool <> ''),
  tool_call_id    TEXT COLLATE "C" NOT NULL CHECK (tool_call_id <> ''),
  invocation_id   TEXT COLLATE "C" NOT NULL CHECK (invocation_id <> ''),
  params_hash     TEXT COLLATE "C" NOT NULL,
  subject         TEXT COLLATE "C" CHECK (subject <> ''),
  outcome         TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('completed', 'failed')),
  result          TEXT             NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, session_id, tool, tool_call_id),
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id) ON DELETE CASCADE,
  CONSTRAINT subject_is_done CHECK (subject IS NULL OR outcome = 'completed')
);
CREATE UNIQUE INDEX session_tool_invocations_once ON session_tool_invocations (organization_id, session_id, tool) WHERE subject IS NOT NULL;
CREATE INDEX session_tool_invocations_quota ON session_tool_invocations (organization_id, session_id, tool, created_at);

CREATE TABLE setups (
  organization_id  TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  name             TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
  service_commands TEXT,
  env_files        TEXT,
  updated_by       TEXT COLLATE "C" NOT NULL CHECK (updated_by <> ''),
  created_at       TIMESTAMPTZ      NOT NULL,
  updated_at       TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, name)
);

ALTER TABLE sessions ADD COLUMN completed_at TIMESTAMPTZ;
