-- A call has a row in open_calls while it is pending, approved or executing,
-- and in invocations from its end on. Open calls are few, so that what looks
-- for them reads small indexes; an ended row is written once and complete.

CREATE TABLE open_calls (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL,
  session_id      TEXT    NOT NULL,
  status          TEXT    NOT NULL CHECK (status = 'pending' OR status = 'approved' OR status = 'executing'),
  joins           INTEGER NOT NULL CHECK (joins IN (0, 1)),
  unattended      INTEGER NOT NULL CHECK (unattended IN (0, 1)),
  answered        INTEGER NOT NULL DEFAULT 0 CHECK (answered IN (0, 1)),
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  waiter_seen_at  TEXT    NOT NULL CHECK (length(waiter_seen_at) = 27),
  expires_at      TEXT    CHECK (length(expires_at) = 27),
  approved_at     TEXT    CHECK (length(approved_at) = 27),
  started_at      TEXT    CHECK (length(started_at) = 27),
  lease_until     TEXT    CHECK (length(lease_until) = 27),
  policy_version  INTEGER NOT NULL,
  source_id       TEXT    NOT NULL CHECK (source_id <> ''),
  action          TEXT    NOT NULL CHECK (action <> ''),
  params_hash     TEXT    NOT NULL,
  tool_hash       TEXT    NOT NULL,
  revision        TEXT    NOT NULL,
  risk            TEXT    NOT NULL CHECK (risk = 'read' OR risk = 'write' OR risk = 'danger'),
  mode            TEXT    NOT NULL CHECK (mode = 'allow' OR mode = 'require_approval'),
  mode_source     TEXT    NOT NULL,
  executor        TEXT,
  approved_by     TEXT,
  source_name     TEXT    NOT NULL,
  decision        TEXT    NOT NULL,
  params          TEXT    NOT NULL,
  summary         TEXT,
  grant_id        TEXT    CHECK ((mode_source = 'grant') = (grant_id IS NOT NULL)),
  integration_id  TEXT    CHECK (integration_id <> ''),
  sealed_params   BLOB,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT pending_expires CHECK (status <> 'pending' OR expires_at IS NOT NULL),
  CONSTRAINT approved_by_someone CHECK (status <> 'approved' OR (approved_by IS NOT NULL AND approved_at IS NOT NULL)),
  CONSTRAINT executing_is_leased CHECK (status <> 'executing' OR (executor IS NOT NULL AND lease_until IS NOT NULL AND started_at IS NOT NULL)),
  CONSTRAINT held_ran_with_approval CHECK (mode <> 'require_approval' OR started_at IS NULL OR approved_by IS NOT NULL)
) STRICT;

-- The first makes two open rows of one call impossible. The last four are for
-- the sweeps.
CREATE UNIQUE INDEX open_calls_once ON open_calls (organization_id, session_id, source_id, action, params_hash) WHERE joins = 1;
CREATE INDEX open_calls_session ON open_calls (organization_id, session_id, created_at, id);
CREATE INDEX open_calls_list ON open_calls (organization_id, created_at, id);
CREATE INDEX open_calls_inbox ON open_calls (organization_id, status, created_at, id);
CREATE INDEX open_calls_expiry ON open_calls (expires_at) WHERE status = 'pending';
CREATE INDEX open_calls_silent ON open_calls (created_at) WHERE status = 'pending' AND unattended = 0 AND answered = 0;
CREATE INDEX open_calls_unclaimed ON open_calls (approved_at) WHERE status = 'approved';
CREATE INDEX open_calls_lease ON open_calls (lease_until) WHERE status = 'executing';

-- What belongs to a call may be written before its row of invocations is:
-- retention removes it with the call, instead of a foreign key. What is open has left
-- invocations, and so have the constraints on it. As text, see 0020_checks.sql.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ' REFERENCES invocations (id) ON DELETE CASCADE', '')
WHERE type = 'table' AND name IN ('invocation_events', 'idempotency_keys', 'rounds', 'returning_callers');
UPDATE sqlite_schema SET sql = replace(replace(replace(replace(replace(replace(replace(replace(sql,
  'status = ''completed'' OR status = ''executing'' OR status = ''pending'' OR status = ''approved'' OR status = ''failed'' OR status = ''denied'' OR status = ''expired''',
  'status = ''completed'' OR status = ''failed'' OR status = ''denied'' OR status = ''expired'''),
  'CHECK ((status = ''completed'' OR status = ''failed'' OR status = ''denied'' OR status = ''expired'') = (completed_at IS NOT NULL))',
  'CHECK (completed_at IS NOT NULL)'),
  '  CONSTRAINT pending_expires CHECK (status <> ''pending'' OR expires_at IS NOT NULL),' || char(10), ''),
  '  CONSTRAINT approved_by_someone CHECK (status <> ''approved'' OR (approved_by IS NOT NULL AND approved_at IS NOT NULL)),' || char(10), ''),
  '  CONSTRAINT executing_is_leased CHECK (status <> ''executing'' OR (executor IS NOT NULL AND lease_until IS NOT NULL AND started_at IS NOT NULL)),' || char(10), ''),
  'CHECK (sealed_params IS NULL OR completed_at IS NULL)', 'CHECK (sealed_params IS NULL)'),
  'CHECK (sealed_result IS NULL OR (completed_at IS NOT NULL AND pickup_until IS NOT NULL)),', 'CHECK (sealed_result IS NULL OR pickup_until IS NOT NULL)'),
  '  CONSTRAINT delivered_when_ended CHECK (delivered_at IS NULL OR completed_at IS NOT NULL)' || char(10), '')
WHERE type = 'table' AND name = 'invocations';
PRAGMA writable_schema = RESET;

DROP TRIGGER runs_held;
DROP TRIGGER runs_decided;
DROP TRIGGER invocations_ended;
DROP TRIGGER invocations_began_ended;
DROP TRIGGER invocations_kept;

INSERT INTO open_calls (
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at, approved_at, started_at, lease_until,
  policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, executor, approved_by, source_name, decision, params,
  summary, grant_id, integration_id, sealed_params)
SELECT
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at, approved_at, started_at, lease_until,
  policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, executor, approved_by, source_name, decision, params,
  summary, grant_id, integration_id, sealed_params
FROM invocations WHERE completed_at IS NULL;
DELETE FROM invocations WHERE completed_at IS NULL;

DROP INDEX invocations_open;
DROP INDEX invocations_pending;
DROP INDEX invocations_expiry;
DROP INDEX invocations_silent;
DROP INDEX invocations_unclaimed;
DROP INDEX invocations_lease;

-- An end takes the open row's place. An open row does not go otherwise.
CREATE TRIGGER invocations_ended AFTER INSERT ON invocations
BEGIN
  DELETE FROM open_calls WHERE id = NEW.id;
  INSERT OR IGNORE INTO seal_queue (row_id, kind, organization_id) VALUES (NEW.id, 'invocation', NEW.organization_id);
END;
CREATE TRIGGER open_calls_kept BEFORE DELETE ON open_calls WHEN NOT EXISTS (SELECT 1 FROM invocations WHERE id = OLD.id)
BEGIN
  SELECT RAISE(ABORT, 'an open call is not removed: it ends');
END;
CREATE TRIGGER open_calls_renamed BEFORE UPDATE OF id ON open_calls WHEN NEW.id <> OLD.id
BEGIN
  SELECT RAISE(ABORT, 'the id of an invocation does not change');
END;
CREATE TRIGGER open_calls_ended_before BEFORE INSERT ON open_calls WHEN EXISTS (SELECT 1 FROM invocations WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'a call that ended does not open again');
END;

CREATE TRIGGER invocations_kept BEFORE DELETE ON invocations WHEN NOT EXISTS (
  SELECT 1 FROM audit_seals s JOIN audit_checkpoints c ON c.organization_id = s.organization_id AND c.seq >= s.seq
  WHERE s.row_id = OLD.id AND s.kind = 'invocation' AND s.organization_id = OLD.organization_id)
BEGIN
  SELECT RAISE(ABORT, 'no checkpoint covers this invocation');
END;
-- Events need their call, and are kept as long as it is.
CREATE TRIGGER invocation_events_call BEFORE INSERT ON invocation_events
WHEN NOT EXISTS (SELECT 1 FROM invocations WHERE id = NEW.invocation_id) AND NOT EXISTS (SELECT 1 FROM open_calls WHERE id = NEW.invocation_id)
BEGIN
  SELECT RAISE(ABORT, 'an event needs its call');
END;
DROP TRIGGER invocation_events_delete;
CREATE TRIGGER invocation_events_delete BEFORE DELETE ON invocation_events
WHEN EXISTS (SELECT 1 FROM invocations i WHERE i.id = OLD.invocation_id) OR EXISTS (SELECT 1 FROM open_calls i WHERE i.id = OLD.invocation_id)
BEGIN
  SELECT RAISE(ABORT, 'history does not change');
END;

CREATE TRIGGER open_calls_origin AFTER INSERT ON open_calls
WHEN EXISTS (SELECT 1 FROM sessions WHERE id = NEW.session_id AND (automation_id IS NOT NULL OR group_id IS NOT NULL))
BEGIN
  INSERT OR IGNORE INTO invocation_origins (organization_id, kind, name, created_at, id)
    SELECT NEW.organization_id, 'automation', automation_id, NEW.created_at, NEW.id FROM sessions WHERE id = NEW.session_id AND automation_id IS NOT NULL
    UNION ALL SELECT NEW.organization_id, 'group', group_id, NEW.created_at, NEW.id FROM sessions WHERE id = NEW.session_id AND group_id IS NOT NULL;
END;

-- A run needs a human while a call of its session waits for approval.
CREATE TRIGGER runs_held AFTER INSERT ON open_calls WHEN NEW.status = 'pending'
BEGIN
  UPDATE runs SET status = 'needs_human' WHERE session_id = NEW.session_id AND status IN ('claimed', 'running');
END;
CREATE TRIGGER runs_approved AFTER UPDATE OF status ON open_calls WHEN OLD.status = 'pending' AND NEW.status <> 'pending'
BEGIN
  UPDATE runs SET status = 'running', started_at = coalesce(started_at, OLD.created_at)
  WHERE session_id = OLD.session_id AND status = 'needs_human' AND claim_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM open_calls AS i WHERE i.organization_id = OLD.organization_id AND i.session_id = OLD.session_id AND i.status || '' = 'pending');
END;
CREATE TRIGGER runs_refused AFTER DELETE ON open_calls WHEN OLD.status = 'pending'
BEGIN
  UPDATE runs SET status = 'running', started_at = coalesce(started_at, OLD.created_at)
  WHERE session_id = OLD.session_id AND status = 'needs_human' AND claim_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM open_calls AS i WHERE i.organization_id = OLD.organization_id AND i.session_id = OLD.session_id AND i.status || '' = 'pending');
END;

-- Every call, for what does not tell the two apart. What many read comes first.
CREATE VIEW all_calls AS
SELECT id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at, approved_at, started_at, lease_until,
  NULL AS completed_at, NULL AS pickup_until, NULL AS delivered_at, NULL AS duration_ms, policy_version, source_id, action, params_hash, tool_hash,
  revision, risk, mode, mode_source, executor, approved_by, NULL AS denied_reason, NULL AS error_code, source_name, NULL AS denied_note,
  NULL AS error_fault, NULL AS error_message, decision, params, NULL AS result, sealed_params, NULL AS sealed_result, summary, NULL AS result_summary, grant_id, integration_id
FROM open_calls
UNION ALL
SELECT id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at, approved_at, started_at, lease_until,
  completed_at, pickup_until, delivered_at, duration_ms, policy_version, source_id, action, params_hash, tool_hash,
  revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name, denied_note,
  error_fault, error_message, decision, params, result, sealed_params, sealed_result, summary, result_summary, grant_id, integration_id
FROM invocations;
