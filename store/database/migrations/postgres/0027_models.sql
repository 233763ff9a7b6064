-- The providers, aliases, prices and limits of models, as JSON; NULL: none.
ALTER TABLE organizations ADD COLUMN model_settings TEXT;

-- Requests to models, without prompts and answers.
CREATE TABLE model_requests (
  organization_id    TEXT COLLATE "C"    NOT NULL REFERENCES organizations (id),
  id                 TEXT COLLATE "C"    NOT NULL CHECK (id <> ''),
  session_id         TEXT COLLATE "C"    NOT NULL CHECK (session_id <> ''),
  automation_id      TEXT COLLATE "C"    CHECK (automation_id <> ''),
  group_id           TEXT COLLATE "C"    CHECK (group_id <> ''),
  provider           TEXT COLLATE "C"    NOT NULL CHECK (provider <> ''),
  model              TEXT COLLATE "C"    NOT NULL CHECK (model <> ''),
  requested          TEXT COLLATE "C"    CHECK (requested <> ''),
  created_at         TIMESTAMPTZ NOT NULL,
  ended_at           TIMESTAMPTZ,
  status             BIGINT NOT NULL,
  code               TEXT COLLATE "C"    CHECK (code <> ''),
  input_tokens       BIGINT NOT NULL CHECK (input_tokens >= 0),
  cached_tokens      BIGINT NOT NULL CHECK (cached_tokens >= 0),
  cache_write_tokens BIGINT NOT NULL CHECK (cache_write_tokens >= 0),
  output_tokens      BIGINT NOT NULL CHECK (output_tokens >= 0),
  estimated          BIGINT NOT NULL CHECK (estimated IN (0, 1)),
  cost_micros        BIGINT NOT NULL CHECK (cost_micros >= 0),
  priced             BIGINT NOT NULL CHECK (priced IN (0, 1)),
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX model_requests_list ON model_requests (organization_id, created_at, id);
CREATE INDEX model_requests_session ON model_requests (organization_id, session_id, created_at, id);
CREATE INDEX model_requests_open ON model_requests (created_at) WHERE ended_at IS NULL;
CREATE INDEX model_requests_old ON model_requests (created_at);

-- Their sums by day, which budgets and reports read.
CREATE TABLE model_usage (
  organization_id    TEXT COLLATE "C"    NOT NULL REFERENCES organizations (id),
  day                TEXT COLLATE "C"    NOT NULL CHECK (length(day) = 10),
  session_id         TEXT COLLATE "C"    NOT NULL,
  provider           TEXT COLLATE "C"    NOT NULL,
  model              TEXT COLLATE "C"    NOT NULL,
  automation_id      TEXT COLLATE "C"    CHECK (automation_id <> ''),
  group_id           TEXT COLLATE "C"    CHECK (group_id <> ''),
  requests           BIGINT NOT NULL,
  refused            BIGINT NOT NULL,
  input_tokens       BIGINT NOT NULL,
  cached_tokens      BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  output_tokens      BIGINT NOT NULL,
  cost_micros        BIGINT NOT NULL,
  unpriced           BIGINT NOT NULL,
  PRIMARY KEY (organization_id, day, session_id, provider, model)
);
CREATE INDEX model_usage_session ON model_usage (organization_id, session_id, day);
CREATE INDEX model_usage_automation ON model_usage (organization_id, automation_id, day) WHERE automation_id IS NOT NULL;
CREATE INDEX model_usage_group ON model_usage (organization_id, group_id, day) WHERE group_id IS NOT NULL;
CREATE INDEX model_usage_old ON model_usage (day);
