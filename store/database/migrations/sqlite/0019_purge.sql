-- Sessions that ended long ago are found by when they did, and those that had to
-- stay by when they were looked at.
DROP INDEX sessions_ended;
CREATE INDEX sessions_unpurged ON sessions (coalesce(revoked_at, expires_at)) WHERE purged_at IS NULL;
CREATE INDEX sessions_purged ON sessions (purged_at) WHERE purged_at IS NOT NULL;
-- Whether one may go depends on its grants, here and for the reference itself.
CREATE INDEX grants_of_session ON grants (organization_id, session_id) WHERE session_id IS NOT NULL;

-- A file is neither taken from sealed evidence nor put into it: both databases
-- look at where it was and where it would be.
DROP TRIGGER evidence_files_changed;
CREATE TRIGGER evidence_files_changed BEFORE UPDATE ON evidence_files
WHEN (SELECT sealed_at FROM evidence_uploads WHERE session_id = OLD.session_id AND id = OLD.upload_id) IS NOT NULL
  OR (SELECT sealed_at FROM evidence_uploads WHERE session_id = NEW.session_id AND id = NEW.upload_id) IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'sealed evidence does not change'); END;
