-- Connectors in full: what they ask their callers, and how they sign in.

-- What a source asks of the caller of a call that executes, and waits for. What
-- was said is sealed, and kept no longer than somebody waits for it; what was
-- said of it is an event.
CREATE TABLE rounds (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL,
  invocation_id   TEXT    NOT NULL REFERENCES invocations (id) ON DELETE CASCADE,
  session_id      TEXT    NOT NULL,
  needs           INTEGER NOT NULL CHECK (needs BETWEEN 1 AND 65535), -- bits of action.ClientFeatures
  asked_at        TEXT    NOT NULL CHECK (length(asked_at) = 27),
  until           TEXT    NOT NULL CHECK (length(until) = 27),
  taken_at        TEXT    CHECK (length(taken_at) = 27),
  answered_at     TEXT    CHECK (length(answered_at) = 27),
  closed_at       TEXT    CHECK (length(closed_at) = 27),
  keys            TEXT    NOT NULL CHECK (keys LIKE '["%"]'), -- a JSON list
  sealed          BLOB,
  CONSTRAINT answered_when_taken CHECK (answered_at IS NULL OR taken_at IS NOT NULL),
  CONSTRAINT sealed_while_open CHECK ((sealed IS NULL) = (closed_at IS NOT NULL))
) STRICT;
-- Who waits for a call asks by it; a call has a few of them at most.
CREATE INDEX rounds_invocation ON rounds (invocation_id);
CREATE INDEX rounds_age ON rounds (until);

CREATE TABLE round_replies (
  round_id TEXT NOT NULL REFERENCES rounds (id) ON DELETE CASCADE,
  key      TEXT NOT NULL CHECK (key <> ''),
  at       TEXT NOT NULL CHECK (length(at) = 27),
  sealed   BLOB NOT NULL,
  PRIMARY KEY (round_id, key)
) STRICT, WITHOUT ROWID;

ALTER TABLE connectors ADD COLUMN headers TEXT CHECK (headers <> '{}'); -- a JSON object; NULL: none
ALTER TABLE connectors ADD COLUMN oauth TEXT CHECK (oauth IS NULL OR secret_key IS NULL); -- action.OAuthSettings
ALTER TABLE connectors ADD COLUMN may_ask TEXT CHECK (may_ask <> '[]'); -- a JSON list; NULL: nothing
ALTER TABLE connectors ADD COLUMN per_agent INTEGER NOT NULL DEFAULT 0 CHECK (per_agent IN (0, 1));
ALTER TABLE connectors ADD COLUMN preset TEXT CHECK (length(preset) BETWEEN 1 AND 40);

-- The tokens of a connector. They go when it would send them elsewhere.
CREATE TABLE oauth_grants (
  organization_id TEXT    NOT NULL,
  connector_id    TEXT    NOT NULL,
  issuer          TEXT    NOT NULL CHECK (issuer <> ''),
  client_id       TEXT,
  scope           TEXT,
  status          TEXT    NOT NULL CHECK (status IN ('connected', 'reconnect_needed')),
  reason          TEXT,
  by              TEXT,
  expires_at      TEXT    CHECK (length(expires_at) = 27),
  updated_at      TEXT    NOT NULL CHECK (length(updated_at) = 27),
  version         INTEGER NOT NULL CHECK (version >= 1),
  sealed          BLOB    NOT NULL,
  PRIMARY KEY (organization_id, connector_id),
  FOREIGN KEY (organization_id, connector_id) REFERENCES connectors (organization_id, id) ON DELETE CASCADE,
  CONSTRAINT reason_to_sign_in_again CHECK (status = 'reconnect_needed' OR reason IS NULL)
) STRICT;

-- Sign-ins that began and have not ended.
CREATE TABLE oauth_flows (
  state_hash      TEXT NOT NULL PRIMARY KEY CHECK (state_hash <> ''),
  organization_id TEXT NOT NULL,
  connector_id    TEXT NOT NULL,
  by              TEXT NOT NULL CHECK (by <> ''),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  sealed          BLOB NOT NULL,
  FOREIGN KEY (organization_id, connector_id) REFERENCES connectors (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_flows_connector ON oauth_flows (organization_id, connector_id);
