-- The life of a session. That of an ended one without a word of how is stopped:
-- instances from before this know revoked_at alone.
ALTER TABLE sessions ADD COLUMN status TEXT COLLATE "C" NOT NULL DEFAULT 'running'
  CHECK (status IN ('pending', 'running', 'paused') OR (status IN ('stopped', 'failed') AND revoked_at IS NOT NULL));
ALTER TABLE sessions ADD COLUMN tools TEXT CHECK (tools IN ('all', 'search')); -- NULL: the gateway's setting
ALTER TABLE sessions ADD COLUMN prompt TEXT; -- NULL: that of its type
ALTER TABLE sessions ADD COLUMN model TEXT;
ALTER TABLE sessions ADD COLUMN last_seen_at TIMESTAMPTZ;
ALTER TABLE sessions ADD COLUMN idle_seconds BIGINT CHECK (idle_seconds >= 0); -- NULL: the gateway's; 0: never
ALTER TABLE sessions ADD COLUMN resumed_at TIMESTAMPTZ; -- the last time; its idle time begins anew
ALTER TABLE sessions ADD COLUMN ended_note TEXT;
ALTER TABLE sessions ADD COLUMN left_out TEXT CHECK (left_out LIKE '[{%}]'); -- a JSON list; NULL: none
-- Who makes a session again with the same key and wish gets the same one.
ALTER TABLE sessions ADD COLUMN idempotency_key TEXT COLLATE "C" CHECK (idempotency_key <> '');
ALTER TABLE sessions ADD COLUMN idempotency_hash TEXT CHECK ((idempotency_hash IS NULL) = (idempotency_key IS NULL));
-- When what is its own alone was deleted.
ALTER TABLE sessions ADD COLUMN purged_at TIMESTAMPTZ;

UPDATE sessions SET status = 'stopped' WHERE revoked_at IS NOT NULL;

CREATE UNIQUE INDEX sessions_idempotency ON sessions (organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- Those that may be idle, and those whose time is over.
CREATE INDEX sessions_expiry ON sessions (expires_at) WHERE revoked_at IS NULL;
CREATE INDEX sessions_ended ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;

-- What ended never lives again.
CREATE TRIGGER sessions_over BEFORE UPDATE OF status, revoked_at ON sessions FOR EACH ROW
WHEN (OLD.revoked_at IS NOT NULL AND (NEW.revoked_at IS DISTINCT FROM OLD.revoked_at OR NEW.status <> OLD.status))
EXECUTE FUNCTION refuse_change();
