-- The tables of migrations/sqlite/0009_activity.sql: how people look for calls
-- of the past. What every call has is found in the order of time; these are of
-- what few have, and cost the others nothing.

CREATE INDEX invocations_person ON invocations (organization_id, approved_by, created_at, id) WHERE approved_by IS NOT NULL;
CREATE INDEX invocations_danger ON invocations (organization_id, created_at, id) WHERE risk = 'danger';
CREATE INDEX invocations_mode ON invocations (organization_id, mode, created_at, id) WHERE mode <> 'allow';

-- By whose session calls came: those of automations and of groups. A session
-- keeps both for its life. Triggers write it, whatever version of this program
-- makes the call. It only tells where to look: what is shown is in the rows.
CREATE TABLE invocation_origins (
  organization_id TEXT COLLATE "C" NOT NULL,
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('automation', 'group')),
  name            TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  id              TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (organization_id, kind, name, created_at, id)
);

CREATE FUNCTION note_origin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO invocation_origins (organization_id, kind, name, created_at, id)
    SELECT NEW.organization_id, o.kind, o.name, NEW.created_at, NEW.id
    FROM sessions AS s CROSS JOIN LATERAL (VALUES ('automation', s.automation_id), ('group', s.group_id)) AS o (kind, name)
    WHERE s.id = NEW.session_id AND o.name IS NOT NULL
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER invocations_origin AFTER INSERT ON invocations FOR EACH ROW EXECUTE FUNCTION note_origin();

CREATE FUNCTION forget_origin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM invocation_origins WHERE organization_id = OLD.organization_id AND kind = 'automation'
    AND name = (SELECT automation_id FROM sessions WHERE id = OLD.session_id) AND created_at = OLD.created_at AND id = OLD.id;
  DELETE FROM invocation_origins WHERE organization_id = OLD.organization_id AND kind = 'group'
    AND name = (SELECT group_id FROM sessions WHERE id = OLD.session_id) AND created_at = OLD.created_at AND id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER invocations_origin_gone AFTER DELETE ON invocations FOR EACH ROW EXECUTE FUNCTION forget_origin();

INSERT INTO invocation_origins (organization_id, kind, name, created_at, id)
  SELECT i.organization_id, o.kind, o.name, i.created_at, i.id
  FROM sessions AS s CROSS JOIN LATERAL (VALUES ('automation', s.automation_id), ('group', s.group_id)) AS o (kind, name)
  JOIN invocations AS i ON i.organization_id = s.organization_id AND i.session_id = s.id
  WHERE o.name IS NOT NULL;
