-- The tables of migrations/sqlite/0025_open_calls.sql: a call has a row in
-- open_calls while it is pending, approved or executing, and in invocations
-- from its end on.

CREATE TABLE open_calls (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  session_id      TEXT COLLATE "C" NOT NULL,
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'approved', 'executing')),
  joins           SMALLINT         NOT NULL CHECK (joins IN (0, 1)),
  unattended      SMALLINT         NOT NULL CHECK (unattended IN (0, 1)),
  answered        SMALLINT         NOT NULL DEFAULT 0 CHECK (answered IN (0, 1)),
  created_at      TIMESTAMPTZ      NOT NULL,
  waiter_seen_at  TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ,
  approved_at     TIMESTAMPTZ,
  started_at      TIMESTAMPTZ,
  lease_until     TIMESTAMPTZ,
  policy_version  BIGINT           NOT NULL,
  source_id       TEXT COLLATE "C" NOT NULL CHECK (source_id <> ''),
  action          TEXT COLLATE "C" NOT NULL CHECK (action <> ''),
  params_hash     TEXT COLLATE "C" NOT NULL,
  tool_hash       TEXT COLLATE "C" NOT NULL,
  revision        TEXT COLLATE "C" NOT NULL,
  risk            TEXT COLLATE "C" NOT NULL CHECK (risk IN ('read', 'write', 'danger')),
  mode            TEXT COLLATE "C" NOT NULL CHECK (mode IN ('allow', 'require_approval')),
  mode_source     TEXT COLLATE "C" NOT NULL,
  executor        TEXT COLLATE "C",
  approved_by     TEXT COLLATE "C",
  source_name     TEXT             NOT NULL,
  decision        TEXT             NOT NULL,
  params          TEXT             NOT NULL,
  summary         TEXT,
  grant_id        TEXT COLLATE "C",
  integration_id  TEXT CHECK (integration_id <> ''),
  sealed_params   BYTEA,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT granted_by_one CHECK ((mode_source = 'grant') = (grant_id IS NOT NULL)),
  CONSTRAINT pending_expires CHECK (status <> 'pending' OR expires_at IS NOT NULL),
  CONSTRAINT approved_by_someone CHECK (status <> 'approved' OR (approved_by IS NOT NULL AND approved_at IS NOT NULL)),
  CONSTRAINT executing_is_leased CHECK (status <> 'executing' OR (executor IS NOT NULL AND lease_until IS NOT NULL AND started_at IS NOT NULL)),
  CONSTRAINT held_ran_with_approval CHECK (mode <> 'require_approval' OR started_at IS NULL OR approved_by IS NOT NULL)
)
-- A caller who waits is noted every few seconds, in a column that no index has:
-- with room on the page that costs no index anything. Rows come and go, so that
-- what is dead is removed early.
WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.1);

-- As of invocations in 0001_start.sql: how many calls wait changes within
-- seconds, and statistics of an hour ago would mislead the planner.
ALTER TABLE open_calls ALTER COLUMN status SET STATISTICS 0;

CREATE UNIQUE INDEX open_calls_once ON open_calls (organization_id, session_id, source_id, action, params_hash) WHERE joins = 1;
CREATE INDEX open_calls_session ON open_calls (organization_id, session_id, created_at, id);
CREATE INDEX open_calls_list ON open_calls (organization_id, created_at, id);
CREATE INDEX open_calls_inbox ON open_calls (organization_id, status, created_at, id);
CREATE INDEX open_calls_expiry ON open_calls (expires_at) WHERE status = 'pending';
CREATE INDEX open_calls_silent ON open_calls (created_at) WHERE status = 'pending' AND unattended = 0 AND answered = 0;
CREATE INDEX open_calls_unclaimed ON open_calls (approved_at) WHERE status = 'approved';
CREATE INDEX open_calls_lease ON open_calls (lease_until) WHERE status = 'executing';

ALTER TABLE invocation_events DROP CONSTRAINT invocation_events_invocation_id_fkey;
ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_invocation_id_fkey;
ALTER TABLE rounds DROP CONSTRAINT rounds_invocation_id_fkey;
ALTER TABLE returning_callers DROP CONSTRAINT returning_callers_invocation_id_fkey;

DROP TRIGGER runs_held ON invocations;
DROP TRIGGER runs_decided ON invocations;
DROP TRIGGER invocations_ended ON invocations;
DROP TRIGGER invocations_began_ended ON invocations;
DROP TRIGGER invocations_kept ON invocations;

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

-- Not validated: every row that is left has ended. Instances of earlier
-- versions, which would begin calls in invocations, are refused.
ALTER TABLE invocations
  DROP CONSTRAINT invocations_status_check,
  DROP CONSTRAINT ended_has_time,
  DROP CONSTRAINT pending_expires,
  DROP CONSTRAINT approved_by_someone,
  DROP CONSTRAINT executing_is_leased,
  DROP CONSTRAINT params_sealed_while_open,
  DROP CONSTRAINT result_sealed_for_pickup,
  DROP CONSTRAINT delivered_when_ended,
  ADD CONSTRAINT invocations_status_check CHECK (status IN ('completed', 'failed', 'denied', 'expired')) NOT VALID,
  ADD CONSTRAINT ended_has_time CHECK (completed_at IS NOT NULL) NOT VALID,
  ADD CONSTRAINT params_sealed_while_open CHECK (sealed_params IS NULL) NOT VALID,
  ADD CONSTRAINT result_sealed_for_pickup CHECK (sealed_result IS NULL OR pickup_until IS NOT NULL) NOT VALID;

CREATE TRIGGER invocations_ended AFTER INSERT ON invocations FOR EACH ROW EXECUTE FUNCTION queue_audit('invocation');

-- An open row goes when the call ends, and only then. One statement moves it,
-- so that the end is looked for when its transaction is over.
CREATE FUNCTION keep_open_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM invocations WHERE id = OLD.id) THEN
    RAISE EXCEPTION 'an open call is not removed: it ends';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER open_calls_kept AFTER DELETE ON open_calls DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION keep_open_call();
CREATE FUNCTION refuse_open_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the id of an invocation does not change';
END $$;
CREATE TRIGGER open_calls_renamed BEFORE UPDATE OF id ON open_calls FOR EACH ROW WHEN (NEW.id <> OLD.id) EXECUTE FUNCTION refuse_open_call();
CREATE TRIGGER open_calls_truncated BEFORE TRUNCATE ON open_calls EXECUTE FUNCTION refuse_change();

CREATE TRIGGER invocations_kept BEFORE DELETE ON invocations FOR EACH ROW EXECUTE FUNCTION keep_invocation();
-- As a foreign key would, the call of an event is locked, so that retention does
-- not remove it meanwhile. It may end while its open row is looked for.
CREATE FUNCTION lock_call_of_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM invocations WHERE id = NEW.invocation_id FOR KEY SHARE;
  IF NOT FOUND THEN
    PERFORM 1 FROM open_calls WHERE id = NEW.invocation_id FOR KEY SHARE;
  END IF;
  IF NOT FOUND THEN
    PERFORM 1 FROM invocations WHERE id = NEW.invocation_id FOR KEY SHARE;
  END IF;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'an event needs its call';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER invocation_events_call BEFORE INSERT ON invocation_events FOR EACH ROW EXECUTE FUNCTION lock_call_of_event();
CREATE OR REPLACE FUNCTION keep_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM invocations i WHERE i.id = OLD.invocation_id) OR EXISTS (SELECT 1 FROM open_calls i WHERE i.id = OLD.invocation_id) THEN
    RAISE EXCEPTION 'history does not change';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER open_calls_origin AFTER INSERT ON open_calls FOR EACH ROW EXECUTE FUNCTION note_origin();

-- A run needs a human while a call of its session waits for approval. The run's
-- row is locked before the others are looked at, so that of two decisions at
-- once the later one sees what the earlier one did.
CREATE TRIGGER runs_held AFTER INSERT ON open_calls FOR EACH ROW WHEN (NEW.status = 'pending') EXECUTE FUNCTION run_held();
CREATE OR REPLACE FUNCTION run_decided() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM runs WHERE session_id = OLD.session_id AND status = 'needs_human' AND claim_id IS NOT NULL FOR UPDATE;
  IF FOUND THEN
    UPDATE runs SET status = 'running', started_at = coalesce(started_at, OLD.created_at)
    WHERE session_id = OLD.session_id AND status = 'needs_human'
      AND NOT EXISTS (SELECT 1 FROM open_calls AS i WHERE i.organization_id = OLD.organization_id AND i.session_id = OLD.session_id AND i.status || '' = 'pending');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER runs_approved AFTER UPDATE OF status ON open_calls
  FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION run_decided();
CREATE TRIGGER runs_refused AFTER DELETE ON open_calls FOR EACH ROW WHEN (OLD.status = 'pending') EXECUTE FUNCTION run_decided();

CREATE VIEW all_calls AS
SELECT id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at, approved_at, started_at, lease_until,
  NULL::timestamptz AS completed_at, NULL::timestamptz AS pickup_until, NULL::timestamptz AS delivered_at, NULL::bigint AS duration_ms,
  policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, executor, approved_by,
  NULL::text COLLATE "C" AS denied_reason, NULL::text COLLATE "C" AS error_code, source_name, NULL::text AS denied_note,
  NULL::text AS error_fault, NULL::text AS error_message, decision, params, NULL::text AS result, sealed_params, NULL::bytea AS sealed_result, summary,
  NULL::text AS result_summary, grant_id, integration_id
FROM open_calls
UNION ALL
SELECT id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at, approved_at, started_at, lease_until,
  completed_at, pickup_until, delivered_at, duration_ms, policy_version, source_id, action, params_hash, tool_hash,
  revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name, denied_note,
  error_fault, error_message, decision, params, result, sealed_params, sealed_result, summary, result_summary, grant_id, integration_id
FROM invocations;
