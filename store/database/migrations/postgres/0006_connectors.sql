-- The tables of migrations/sqlite/0006_connectors.sql: connectors in full.

CREATE TABLE rounds (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  invocation_id   TEXT COLLATE "C" NOT NULL REFERENCES invocations (id) ON DELETE CASCADE,
  session_id      TEXT COLLATE "C" NOT NULL,
  needs           INTEGER          NOT NULL CHECK (needs BETWEEN 1 AND 65535), -- bits of action.ClientFeatures
  asked_at        TIMESTAMPTZ      NOT NULL,
  until           TIMESTAMPTZ      NOT NULL,
  taken_at        TIMESTAMPTZ,
  answered_at     TIMESTAMPTZ,
  closed_at       TIMESTAMPTZ,
  keys            TEXT             NOT NULL CHECK (keys LIKE '["%"]'), -- a JSON list
  sealed          BYTEA,
  CONSTRAINT answered_when_taken CHECK (answered_at IS NULL OR taken_at IS NOT NULL),
  CONSTRAINT sealed_while_open CHECK ((sealed IS NULL) = (closed_at IS NOT NULL))
);
CREATE INDEX rounds_invocation ON rounds (invocation_id);
CREATE INDEX rounds_age ON rounds (until);

CREATE TABLE round_replies (
  round_id TEXT COLLATE "C" NOT NULL REFERENCES rounds (id) ON DELETE CASCADE,
  key      TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
  at       TIMESTAMPTZ      NOT NULL,
  sealed   BYTEA            NOT NULL,
  PRIMARY KEY (round_id, key)
);

ALTER TABLE connectors ADD COLUMN headers TEXT CHECK (headers <> '{}'); -- a JSON object; NULL: none
ALTER TABLE connectors ADD COLUMN oauth TEXT CHECK (oauth IS NULL OR secret_key IS NULL); -- action.OAuthSettings
ALTER TABLE connectors ADD COLUMN may_ask TEXT CHECK (may_ask <> '[]'); -- a JSON list; NULL: nothing
ALTER TABLE connectors ADD COLUMN per_agent BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE connectors ADD COLUMN preset TEXT CHECK (length(preset) BETWEEN 1 AND 40);

CREATE TABLE oauth_grants (
  organization_id TEXT COLLATE "C" NOT NULL,
  connector_id    TEXT COLLATE "C" NOT NULL,
  issuer          TEXT             NOT NULL CHECK (issuer <> ''),
  client_id       TEXT,
  scope           TEXT,
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('connected', 'reconnect_needed')),
  reason          TEXT,
  by              TEXT,
  expires_at      TIMESTAMPTZ,
  updated_at      TIMESTAMPTZ      NOT NULL,
  version         BIGINT           NOT NULL CHECK (version >= 1),
  sealed          BYTEA            NOT NULL,
  PRIMARY KEY (organization_id, connector_id),
  FOREIGN KEY (organization_id, connector_id) REFERENCES connectors (organization_id, id) ON DELETE CASCADE,
  CONSTRAINT reason_to_sign_in_again CHECK (status = 'reconnect_needed' OR reason IS NULL)
);

CREATE TABLE oauth_flows (
  state_hash      TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (state_hash <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  connector_id    TEXT COLLATE "C" NOT NULL,
  by              TEXT             NOT NULL CHECK (by <> ''),
  expires_at      TIMESTAMPTZ      NOT NULL,
  sealed          BYTEA            NOT NULL,
  FOREIGN KEY (organization_id, connector_id) REFERENCES connectors (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX oauth_flows_connector ON oauth_flows (organization_id, connector_id);
