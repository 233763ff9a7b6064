-- How people look for calls of the past. What every call has is found in the
-- order of time; these are of what few have, and cost the others nothing.

CREATE INDEX invocations_person ON invocations (organization_id, approved_by, created_at, id) WHERE approved_by IS NOT NULL;
CREATE INDEX invocations_danger ON invocations (organization_id, created_at, id) WHERE risk = 'danger';
CREATE INDEX invocations_mode ON invocations (organization_id, mode, created_at, id) WHERE mode <> 'allow';

-- By whose session calls came: those of automations and of groups. A session
-- keeps both for its life. Triggers write it, whatever version of this program
-- makes the call. It only tells where to look: what is shown is in the rows.
CREATE TABLE invocation_origins (
  organization_id TEXT NOT NULL,
  kind            TEXT NOT NULL CHECK (kind IN ('automation', 'group')),
  name            TEXT NOT NULL CHECK (name <> ''),
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  id              TEXT NOT NULL,
  PRIMARY KEY (organization_id, kind, name, created_at, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER invocations_origin AFTER INSERT ON invocations
BEGIN
  INSERT OR IGNORE INTO invocation_origins (organization_id, kind, name, created_at, id)
    SELECT NEW.organization_id, 'automation', automation_id, NEW.created_at, NEW.id FROM sessions WHERE id = NEW.session_id AND automation_id IS NOT NULL
    UNION ALL SELECT NEW.organization_id, 'group', group_id, NEW.created_at, NEW.id FROM sessions WHERE id = NEW.session_id AND group_id IS NOT NULL;
END;
CREATE TRIGGER invocations_origin_gone AFTER DELETE ON invocations
BEGIN
  DELETE FROM invocation_origins WHERE organization_id = OLD.organization_id AND kind = 'automation'
    AND name = (SELECT automation_id FROM sessions WHERE id = OLD.session_id) AND created_at = OLD.created_at AND id = OLD.id;
  DELETE FROM invocation_origins WHERE organization_id = OLD.organization_id AND kind = 'group'
    AND name = (SELECT group_id FROM sessions WHERE id = OLD.session_id) AND created_at = OLD.created_at AND id = OLD.id;
END;

INSERT INTO invocation_origins (organization_id, kind, name, created_at, id)
  SELECT i.organization_id, 'automation', s.automation_id, i.created_at, i.id FROM sessions s JOIN invocations i ON i.organization_id = s.organization_id AND i.session_id = s.id
    WHERE s.automation_id IS NOT NULL
  UNION ALL SELECT i.organization_id, 'group', s.group_id, i.created_at, i.id FROM sessions s JOIN invocations i ON i.organization_id = s.organization_id AND i.session_id = s.id
    WHERE s.group_id IS NOT NULL;
