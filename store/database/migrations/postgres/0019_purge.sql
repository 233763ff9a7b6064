-- The changes of migrations/sqlite/0019_purge.sql.
DROP INDEX sessions_ended;
CREATE INDEX sessions_unpurged ON sessions (coalesce(revoked_at, expires_at)) WHERE purged_at IS NULL;
CREATE INDEX sessions_purged ON sessions (purged_at) WHERE purged_at IS NOT NULL;
CREATE INDEX grants_of_session ON grants (organization_id, session_id) WHERE session_id IS NOT NULL;

CREATE FUNCTION evidence_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM evidence_uploads WHERE session_id = OLD.session_id AND id = OLD.upload_id AND sealed_at IS NOT NULL;
  IF FOUND THEN RAISE EXCEPTION 'sealed evidence does not change'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER evidence_files_moved BEFORE UPDATE ON evidence_files FOR EACH ROW EXECUTE FUNCTION evidence_moved();
