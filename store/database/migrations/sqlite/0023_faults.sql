-- The exact cause of a failed call, such as upstream_timeout; NULL: its code says it.
-- The trigger is as before, with the new column.
ALTER TABLE invocations ADD COLUMN error_fault TEXT;
DROP TRIGGER invocations_terminal;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, error_fault, source_name,
  denied_note, error_message, decision, params, result, summary, result_summary, grant_id, integration_id
ON invocations WHEN OLD.completed_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'a terminal invocation does not change');
END;

-- See migrations/postgres/0023_faults.sql.
ALTER TABLE audit_queue RENAME TO seal_queue;
