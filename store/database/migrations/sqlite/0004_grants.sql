-- Reusable approvals: grants, the requests of agents for them, and what the row
-- of an invocation gains.

ALTER TABLE invocations ADD COLUMN summary TEXT;
ALTER TABLE invocations ADD COLUMN result_summary TEXT;
ALTER TABLE invocations ADD COLUMN grant_id TEXT CHECK ((mode_source = 'grant') = (grant_id IS NOT NULL));

-- As in 0001_start.sql, with the new columns.
DROP TRIGGER invocations_terminal;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name,
  denied_note, error_message, decision, params, result, summary, result_summary, grant_id
ON invocations WHEN OLD.completed_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'a terminal invocation does not change');
END;

-- source_id '' is every source; action '' goes with covers_any, which is a
-- value of its own: an action that a source calls * is only that action.
-- spent_at, set with the last call of the budget, keeps what is used up out of
-- the way of calls; used_calls is in no index, and may change often.
CREATE TABLE grants (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  scope           TEXT    NOT NULL CHECK (scope IN ('session', 'organization')),
  session_id      TEXT,
  source_id       TEXT    NOT NULL,
  action          TEXT    NOT NULL,
  covers_any      INTEGER NOT NULL CHECK (covers_any IN (0, 1)),
  pins            TEXT    CHECK (pins <> '{}'),
  tool_hash       TEXT    CHECK (tool_hash <> ''),
  max_calls       INTEGER CHECK (max_calls >= 1),
  used_calls      INTEGER NOT NULL DEFAULT 0 CHECK (used_calls >= 0),
  expires_at      TEXT    CHECK (length(expires_at) = 27),
  created_by      TEXT    NOT NULL CHECK (created_by <> ''),
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  spent_at        TEXT    CHECK (length(spent_at) = 27),
  revoked_at      TEXT    CHECK (length(revoked_at) = 27),
  revoked_by      TEXT,
  invocation_id   TEXT,
  request_id      TEXT,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT session_of_scope CHECK ((scope = 'session') = (session_id IS NOT NULL)),
  CONSTRAINT exact_or_any CHECK (CASE WHEN covers_any = 0 THEN source_id <> '' AND action <> '' ELSE action = '' AND tool_hash IS NULL END),
  CONSTRAINT within_budget CHECK (max_calls IS NULL OR used_calls <= max_calls),
  CONSTRAINT spent_at_the_end CHECK ((spent_at IS NOT NULL) = (max_calls IS NOT NULL AND used_calls = max_calls)),
  CONSTRAINT revoked_by_someone CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) STRICT;

-- What a call asks that would be held.
CREATE INDEX grants_covering ON grants (organization_id, source_id, action, coalesce(session_id, ''))
  WHERE revoked_at IS NULL AND spent_at IS NULL;
-- What people look at.
CREATE INDEX grants_list ON grants (organization_id, created_at, id);
CREATE INDEX grants_session ON grants (organization_id, coalesce(session_id, ''), created_at, id);
-- One approval makes one grant.
CREATE UNIQUE INDEX grants_invocation ON grants (invocation_id) WHERE invocation_id IS NOT NULL;
CREATE UNIQUE INDEX grants_request ON grants (request_id) WHERE request_id IS NOT NULL;
-- What the sweep asks.
CREATE INDEX grants_expired ON grants (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX grants_revoked ON grants (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX grants_spent ON grants (spent_at) WHERE spent_at IS NOT NULL;

CREATE TABLE grant_requests (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  status          TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
  terms           TEXT NOT NULL CHECK (terms <> ''),
  tool_hash       TEXT,
  reason          TEXT,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  grant_id        TEXT,
  decided_by      TEXT,
  decided_at      TEXT CHECK (length(decided_at) = 27),
  decided_note    TEXT,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT decided_by_someone CHECK ((status IN ('approved', 'denied')) = (decided_by IS NOT NULL)),
  CONSTRAINT decided_at_a_time CHECK ((decided_by IS NULL) = (decided_at IS NULL)),
  CONSTRAINT approved_is_granted CHECK ((status = 'approved') = (grant_id IS NOT NULL))
) STRICT;
CREATE INDEX grant_requests_list ON grant_requests (organization_id, created_at, id);
CREATE INDEX grant_requests_inbox ON grant_requests (organization_id, status, created_at, id);
CREATE INDEX grant_requests_session ON grant_requests (organization_id, session_id, created_at, id);
CREATE INDEX grant_requests_expiry ON grant_requests (expires_at) WHERE status = 'pending';
CREATE INDEX grant_requests_age ON grant_requests (expires_at);
