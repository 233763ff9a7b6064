-- The exact cause of a failed call, such as upstream_timeout; NULL: its code says it.
-- The trigger is as before, with the new column.
ALTER TABLE invocations ADD COLUMN error_fault TEXT COLLATE "C";
DROP TRIGGER invocations_terminal ON invocations;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, error_fault, source_name,
  denied_note, error_message, decision, params, result, summary, result_summary, grant_id, integration_id
ON invocations FOR EACH ROW WHEN (OLD.completed_at IS NOT NULL) EXECUTE FUNCTION refuse_history();

-- Instances of an earlier version, which do not know the column, would seal rows without
-- it. Under a new name they do not find the queue, and the others seal.
ALTER TABLE audit_queue RENAME TO seal_queue;
ALTER INDEX audit_queue_pkey RENAME TO seal_queue_pkey;
ALTER TRIGGER audit_queue_truncated ON seal_queue RENAME TO seal_queue_truncated;
CREATE OR REPLACE FUNCTION queue_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO seal_queue (row_id, kind, organization_id) VALUES (NEW.id, TG_ARGV[0], NEW.organization_id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
