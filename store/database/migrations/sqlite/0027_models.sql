-- The providers, aliases, prices and limits of models, as JSON; NULL: none.
ALTER TABLE organizations ADD COLUMN model_settings TEXT CHECK (json_valid(model_settings));

-- Requests to models, without prompts and answers.
CREATE TABLE model_requests (
  organization_id    TEXT    NOT NULL REFERENCES organizations (id),
  id                 TEXT    NOT NULL CHECK (id <> ''),
  session_id         TEXT    NOT NULL CHECK (session_id <> ''),
  automation_id      TEXT    CHECK (automation_id <> ''),
  group_id           TEXT    CHECK (group_id <> ''),
  provider           TEXT    NOT NULL CHECK (provider <> ''),
  model              TEXT    NOT NULL CHECK (model <> ''),
  requested          TEXT    CHECK (requested <> ''),
  created_at         TEXT    NOT NULL CHECK (length(created_at) = 27),
  ended_at           TEXT    CHECK (length(ended_at) = 27),
  status             INTEGER NOT NULL,
  code               TEXT    CHECK (code <> ''),
  input_tokens       INTEGER NOT NULL CHECK (input_tokens >= 0),
  cached_tokens      INTEGER NOT NULL CHECK (cached_tokens >= 0),
  cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
  output_tokens      INTEGER NOT NULL CHECK (output_tokens >= 0),
  estimated          INTEGER NOT NULL CHECK (estimated IN (0, 1)),
  cost_micros        INTEGER NOT NULL CHECK (cost_micros >= 0),
  priced             INTEGER NOT NULL CHECK (priced IN (0, 1)),
  PRIMARY KEY (organization_id, id)
) STRICT;
CREATE INDEX model_requests_list ON model_requests (organization_id, created_at, id);
CREATE INDEX model_requests_session ON model_requests (organization_id, session_id, created_at, id);
CREATE INDEX model_requests_open ON model_requests (created_at) WHERE ended_at IS NULL;
CREATE INDEX model_requests_old ON model_requests (created_at);

-- Their sums by day, which budgets and reports read.
CREATE TABLE model_usage (
  organization_id    TEXT    NOT NULL REFERENCES organizations (id),
  day                TEXT    NOT NULL CHECK (length(day) = 10),
  session_id         TEXT    NOT NULL,
  provider           TEXT    NOT NULL,
  model              TEXT    NOT NULL,
  automation_id      TEXT    CHECK (automation_id <> ''),
  group_id           TEXT    CHECK (group_id <> ''),
  requests           INTEGER NOT NULL,
  refused            INTEGER NOT NULL,
  input_tokens       INTEGER NOT NULL,
  cached_tokens      INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens      INTEGER NOT NULL,
  cost_micros        INTEGER NOT NULL,
  unpriced           INTEGER NOT NULL,
  PRIMARY KEY (organization_id, day, session_id, provider, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_usage_session ON model_usage (organization_id, session_id, day);
CREATE INDEX model_usage_automation ON model_usage (organization_id, automation_id, day) WHERE automation_id IS NOT NULL;
CREATE INDEX model_usage_group ON model_usage (organization_id, group_id, day) WHERE group_id IS NOT NULL;
CREATE INDEX model_usage_old ON model_usage (day);
