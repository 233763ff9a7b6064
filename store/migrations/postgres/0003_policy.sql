-- The tables of migrations/sqlite/0003_policy.sql: policy in full.

-- Who changed policy, when, from what to what. Only ever appended.
CREATE TABLE policy_events (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
  subject         TEXT COLLATE "C" NOT NULL,
  by              TEXT COLLATE "C" NOT NULL CHECK (by <> ''),
  at              TIMESTAMPTZ      NOT NULL,
  before          TEXT             NOT NULL,
  after           TEXT             NOT NULL
);
CREATE INDEX policy_events_list ON policy_events (organization_id, id);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'history does not change';
END $$;
CREATE TRIGGER policy_events_kept BEFORE UPDATE OR DELETE ON policy_events FOR EACH ROW EXECUTE FUNCTION refuse_change();
