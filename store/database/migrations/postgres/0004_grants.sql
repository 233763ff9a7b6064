-- The tables of migrations/sqlite/0004_grants.sql: reusable approvals, and what
-- the row of an invocation gains.

ALTER TABLE invocations
  ADD COLUMN summary        TEXT,
  ADD COLUMN result_summary TEXT,
  ADD COLUMN grant_id       TEXT COLLATE "C",
  ADD CONSTRAINT granted_by_one CHECK ((mode_source = 'grant') = (grant_id IS NOT NULL));

-- As in 0001_start.sql, with the new columns.
DROP TRIGGER invocations_terminal ON invocations;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name,
  denied_note, error_message, decision, params, result, summary, result_summary, grant_id
ON invocations FOR EACH ROW WHEN (OLD.completed_at IS NOT NULL) EXECUTE FUNCTION refuse_history();

-- source_id '' is every source; action '' goes with covers_any, which is a
-- value of its own: an action that a source calls * is only that action.
-- spent_at, set with the last call of the budget, keeps what is used up out of
-- the way of calls; used_calls is in no index, and may change often.
CREATE TABLE grants (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  scope           TEXT COLLATE "C" NOT NULL CHECK (scope IN ('session', 'organization')),
  session_id      TEXT COLLATE "C",
  source_id       TEXT COLLATE "C" NOT NULL,
  action          TEXT COLLATE "C" NOT NULL,
  covers_any      SMALLINT         NOT NULL CHECK (covers_any IN (0, 1)),
  pins            TEXT             CHECK (pins <> '{}'),
  tool_hash       TEXT COLLATE "C" CHECK (tool_hash <> ''),
  max_calls       BIGINT           CHECK (max_calls >= 1),
  used_calls      BIGINT           NOT NULL DEFAULT 0 CHECK (used_calls >= 0),
  expires_at      TIMESTAMPTZ,
  created_by      TEXT COLLATE "C" NOT NULL CHECK (created_by <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  spent_at        TIMESTAMPTZ,
  revoked_at      TIMESTAMPTZ,
  revoked_by      TEXT COLLATE "C",
  invocation_id   TEXT COLLATE "C",
  request_id      TEXT COLLATE "C",
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT session_of_scope CHECK ((scope = 'session') = (session_id IS NOT NULL)),
  CONSTRAINT exact_or_any CHECK (CASE WHEN covers_any = 0 THEN source_id <> '' AND action <> '' ELSE action = '' AND tool_hash IS NULL END),
  CONSTRAINT within_budget CHECK (max_calls IS NULL OR used_calls <= max_calls),
  CONSTRAINT spent_at_the_end CHECK ((spent_at IS NOT NULL) = (max_calls IS NOT NULL AND used_calls = max_calls)),
  CONSTRAINT revoked_by_someone CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
)
-- Room on the page, so that counting a call costs no index anything.
WITH (fillfactor = 80);

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
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  session_id      TEXT COLLATE "C" NOT NULL,
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
  terms           TEXT             NOT NULL CHECK (terms <> ''),
  tool_hash       TEXT COLLATE "C",
  reason          TEXT,
  created_at      TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ      NOT NULL,
  grant_id        TEXT COLLATE "C",
  decided_by      TEXT COLLATE "C",
  decided_at      TIMESTAMPTZ,
  decided_note    TEXT,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT decided_by_someone CHECK ((status IN ('approved', 'denied')) = (decided_by IS NOT NULL)),
  CONSTRAINT decided_at_a_time CHECK ((decided_by IS NULL) = (decided_at IS NULL)),
  CONSTRAINT approved_is_granted CHECK ((status = 'approved') = (grant_id IS NOT NULL))
);
CREATE INDEX grant_requests_list ON grant_requests (organization_id, created_at, id);
CREATE INDEX grant_requests_inbox ON grant_requests (organization_id, status, created_at, id);
CREATE INDEX grant_requests_session ON grant_requests (organization_id, session_id, created_at, id);
CREATE INDEX grant_requests_expiry ON grant_requests (expires_at) WHERE status = 'pending';
CREATE INDEX grant_requests_age ON grant_requests (expires_at);
