-- Policy in full: its history, ceilings, gates, quotas, reviews.

-- Who changed policy, when, from what to what. Only ever appended.
CREATE TABLE policy_events (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  kind            TEXT NOT NULL CHECK (kind <> ''),
  subject         TEXT NOT NULL,
  by              TEXT NOT NULL CHECK (by <> ''),
  at              TEXT NOT NULL CHECK (length(at) = 27),
  before          TEXT NOT NULL,
  after           TEXT NOT NULL
) STRICT;
CREATE INDEX policy_events_list ON policy_events (organization_id, id);
CREATE TRIGGER policy_events_update BEFORE UPDATE ON policy_events BEGIN SELECT RAISE(ABORT, 'history does not change'); END;
CREATE TRIGGER policy_events_delete BEFORE DELETE ON policy_events BEGIN SELECT RAISE(ABORT, 'history does not change'); END;
