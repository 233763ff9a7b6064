-- What the gateway's own tools did, and what they keep.

-- One row a call of a tool in a session, written with what the call did: the
-- same call is answered from it again.
CREATE TABLE session_tool_invocations (
  organization_id TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  tool            TEXT NOT NULL CHECK (tool <> ''),
  tool_call_id    TEXT NOT NULL CHECK (tool_call_id <> ''),
  invocation_id   TEXT NOT NULL CHECK (invocation_id <> ''),
  params_hash     TEXT NOT NULL,
  subject         TEXT CHECK (subject <> ''), -- that a tool does once in a session, as a completion
  outcome         TEXT NOT NULL CHECK (outcome IN ('completed', 'failed')),
  result          TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  PRIMARY KEY (organization_id, session_id, tool, tool_call_id),
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id) ON DELETE CASCADE,
  CONSTRAINT subject_is_done CHECK (subject IS NULL OR outcome = 'completed')
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX session_tool_invocations_once ON session_tool_invocations (organization_id, session_id, tool) WHERE subject IS NOT NULL;
CREATE INDEX session_tool_invocations_quota ON session_tool_invocations (organization_id, session_id, tool, created_at);

-- What setup sessions found out: how a workspace is brought up.
CREATE TABLE setups (
  organization_id  TEXT NOT NULL REFERENCES organizations (id),
  name             TEXT NOT NULL CHECK (name <> ''),
  service_commands TEXT,
  env_files        TEXT,
  updated_by       TEXT NOT NULL CHECK (updated_by <> ''), -- a session
  created_at       TEXT NOT NULL CHECK (length(created_at) = 27),
  updated_at       TEXT NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, name)
) STRICT, WITHOUT ROWID;

-- Its agent said that the run is done: it does nothing more, and expires soon.
ALTER TABLE sessions ADD COLUMN completed_at TEXT CHECK (length(completed_at) = 27);
