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
CREATE INDEX policy_events_list ON policy_events (organization_id, at, id);
CREATE INDEX policy_events_kind ON policy_events (organization_id, kind, at, id);
CREATE INDEX policy_events_subject ON policy_events (organization_id, subject, at, id);
CREATE TRIGGER policy_events_update BEFORE UPDATE ON policy_events BEGIN SELECT RAISE(ABORT, 'history does not change'); END;
CREATE TRIGGER policy_events_delete BEFORE DELETE ON policy_events BEGIN SELECT RAISE(ABORT, 'history does not change'); END;

-- What an organization chose; the defaults are those of action.DefaultSettings.
ALTER TABLE organizations ADD COLUMN self_approval INTEGER NOT NULL DEFAULT 1 CHECK (self_approval IN (0, 1));
ALTER TABLE organizations ADD COLUMN denial_limit INTEGER NOT NULL DEFAULT 3 CHECK (denial_limit >= 0);

-- The inbound event that started the session.
ALTER TABLE sessions ADD COLUMN event_id TEXT;

-- The ceilings of groups. Revoked ones stay, and a new one takes their place.
CREATE TABLE capabilities (
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  group_id        TEXT    NOT NULL CHECK (group_id <> ''),
  provider        TEXT    NOT NULL CHECK (provider <> ''),
  level           INTEGER NOT NULL CHECK (level BETWEEN 0 AND 3),
  required_gate   TEXT    CHECK (required_gate <> ''),
  rate_calls      INTEGER CHECK (rate_calls >= 1),
  rate_seconds    INTEGER CHECK (rate_seconds BETWEEN 1 AND 86400),
  expires_at      TEXT    CHECK (length(expires_at) = 27),
  granted_by      TEXT    NOT NULL CHECK (granted_by <> ''),
  granted_at      TEXT    NOT NULL CHECK (length(granted_at) = 27),
  revoked_by      TEXT    CHECK (revoked_by <> ''),
  revoked_at      TEXT    CHECK (length(revoked_at) = 27),
  allowed_actions TEXT, -- a JSON list; NULL: all that the level reaches
  denied_actions  TEXT, -- a JSON list
  PRIMARY KEY (organization_id, group_id, provider),
  CONSTRAINT production_has_gate CHECK (level < 3 OR required_gate IS NOT NULL),
  CONSTRAINT rate_is_whole CHECK ((rate_calls IS NULL) = (rate_seconds IS NULL)),
  CONSTRAINT revoked_by_someone CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) STRICT;

CREATE TABLE gate_approvals (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  group_id        TEXT NOT NULL CHECK (group_id <> ''),
  task_id         TEXT NOT NULL CHECK (task_id <> ''),
  gate            TEXT NOT NULL CHECK (gate <> ''),
  approved_by     TEXT NOT NULL CHECK (approved_by <> ''),
  approved_at     TEXT NOT NULL CHECK (length(approved_at) = 27),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  revoked_at      TEXT CHECK (length(revoked_at) = 27),
  actions         TEXT CHECK (actions <> '[]') -- a JSON list of keys; NULL: all behind the gate
) STRICT;
CREATE INDEX gate_approvals_list ON gate_approvals (organization_id, approved_at, id);
CREATE INDEX gate_approvals_group ON gate_approvals (organization_id, group_id, approved_at, id);
CREATE INDEX gate_approvals_task ON gate_approvals (organization_id, task_id, approved_at, id);
CREATE INDEX gate_approvals_open ON gate_approvals (organization_id, expires_at) WHERE revoked_at IS NULL;

CREATE TABLE quotas (
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  source_id       TEXT    NOT NULL CHECK (source_id <> ''),
  action          TEXT    NOT NULL CHECK (action <> ''),
  per             TEXT    NOT NULL CHECK (per IN ('session', 'group', 'creator', 'organization')),
  calls           INTEGER NOT NULL CHECK (calls >= 1),
  seconds         INTEGER NOT NULL CHECK (seconds BETWEEN 1 AND 86400),
  updated_by      TEXT    NOT NULL CHECK (updated_by <> ''),
  updated_at      TEXT    NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, source_id, action, per)
) STRICT, WITHOUT ROWID;

ALTER TABLE connectors ADD COLUMN review TEXT NOT NULL DEFAULT 'trust' CHECK (review IN ('trust', 'strict', 'required'));
-- Until then the next list is the first one, which is taken as reviewed. Also
-- set where no list ever is to be.
ALTER TABLE connectors ADD COLUMN trusted_at TEXT CHECK (length(trusted_at) = 27);
ALTER TABLE connectors ADD COLUMN tool_risks TEXT CHECK (tool_risks <> '{}'); -- a JSON object; NULL: none
CREATE UNIQUE INDEX connectors_organization ON connectors (organization_id, id);

-- The tools of connectors: as they were reviewed (NULL: not), and as they are
-- listed (NULL: no more). Where a tool stands follows from the two.
CREATE TABLE tool_reviews (
  organization_id     TEXT NOT NULL,
  connector_id        TEXT NOT NULL,
  tool                TEXT NOT NULL CHECK (tool <> ''),
  reviewed_behaviour  TEXT,
  reviewed_text       TEXT,
  current_behaviour   TEXT,
  current_text        TEXT,
  reviewed_risk       TEXT CHECK (reviewed_risk IN ('read', 'write', 'danger')),
  current_risk        TEXT CHECK (current_risk IN ('read', 'write', 'danger')),
  reviewed_by         TEXT CHECK (reviewed_by <> ''),
  reviewed_at         TEXT CHECK (length(reviewed_at) = 27),
  seen_at             TEXT NOT NULL CHECK (length(seen_at) = 27),
  reviewed_definition TEXT CHECK (length(CAST(reviewed_definition AS BLOB)) <= 1048576),
  current_definition  TEXT CHECK (length(CAST(current_definition AS BLOB)) <= 1048576),
  PRIMARY KEY (organization_id, connector_id, tool),
  FOREIGN KEY (organization_id, connector_id) REFERENCES connectors (organization_id, id) ON DELETE CASCADE,
  CONSTRAINT reviewed_is_whole CHECK (
    (reviewed_text IS NULL) = (reviewed_behaviour IS NULL) AND (reviewed_definition IS NULL) = (reviewed_behaviour IS NULL)
    AND (reviewed_risk IS NULL OR reviewed_behaviour IS NOT NULL) AND (reviewed_by IS NULL) = (reviewed_behaviour IS NULL) AND (reviewed_at IS NULL) = (reviewed_behaviour IS NULL)),
  CONSTRAINT current_is_whole CHECK ((current_text IS NULL) = (current_behaviour IS NULL) AND (current_definition IS NULL) = (current_behaviour IS NULL)
    AND (current_risk IS NULL OR current_behaviour IS NOT NULL)),
  CONSTRAINT tool_is_known CHECK (reviewed_behaviour IS NOT NULL OR current_behaviour IS NOT NULL)
) STRICT;

-- Who a session is, and for what, is fixed when it is minted: its calls are
-- judged and told by it.
CREATE TRIGGER sessions_fixed BEFORE UPDATE OF id, organization_id, kind, type, automation_id, group_id, task_id, event_id, created_by, created_at ON sessions
BEGIN
  SELECT RAISE(ABORT, 'what a session is does not change');
END;
