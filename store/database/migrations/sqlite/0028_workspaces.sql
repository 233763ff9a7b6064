-- What agents work on: workspaces, their repositories and variables, and what sessions
-- and automations say of them.
CREATE TABLE workspaces (
  organization_id  TEXT    NOT NULL REFERENCES organizations (id),
  id               TEXT    NOT NULL CHECK (id <> ''),
  name             TEXT    NOT NULL CHECK (name <> ''),
  repositories     TEXT    CHECK (repositories <> '[]'), -- a JSON list
  instructions     TEXT    CHECK (instructions <> ''),
  model            TEXT    CHECK (model <> ''),
  small_model      TEXT    CHECK (small_model <> ''),
  provider         TEXT    CHECK (provider <> ''),
  size             TEXT    CHECK (size IN ('small', 'medium', 'large')),
  idle_seconds     INTEGER CHECK (idle_seconds > 0),
  life_seconds     INTEGER CHECK (life_seconds > 0),
  setup_hosts      TEXT,
  work_hosts       TEXT,
  service_commands TEXT,
  env_files        TEXT,
  snapshot_id      TEXT    CHECK (snapshot_id <> ''),
  set_up_by        TEXT    CHECK (set_up_by <> ''),
  set_up_at        TEXT    CHECK (length(set_up_at) = 27),
  created_by       TEXT    NOT NULL,
  created_at       TEXT    NOT NULL CHECK (length(created_at) = 27),
  updated_by       TEXT    NOT NULL,
  updated_at       TEXT    NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, name)
) STRICT;

-- What setup sessions saved under the name of their group is a workspace of that name.
INSERT INTO workspaces (organization_id, id, name, service_commands, env_files, set_up_by, set_up_at, created_by, created_at, updated_by, updated_at)
SELECT organization_id, lower(hex(randomblob(16))), name, service_commands, env_files, updated_by, updated_at, updated_by, created_at, updated_by, updated_at FROM setups;
DROP TABLE setups;

CREATE TABLE repositories (
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  id              TEXT    NOT NULL CHECK (id <> ''),
  host            TEXT    NOT NULL CHECK (host <> ''),
  path            TEXT    NOT NULL CHECK (path <> ''),
  path_key        TEXT    NOT NULL CHECK (path_key <> ''), -- path in lower case: forges ignore case
  default_branch  TEXT    CHECK (default_branch <> ''),
  private         INTEGER CHECK (private IN (0, 1)),
  integration_id  TEXT    CHECK (integration_id <> ''),
  fault           TEXT    CHECK (fault <> ''),
  checked_at      TEXT    CHECK (length(checked_at) = 27),
  created_by      TEXT    NOT NULL,
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, host, path_key)
) STRICT;
CREATE INDEX repositories_integration ON repositories (organization_id, integration_id) WHERE integration_id IS NOT NULL;

CREATE TABLE variables (
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  workspace_id    TEXT    NOT NULL, -- '': all workspaces of the organization
  name            TEXT    NOT NULL CHECK (name <> ''),
  version         INTEGER NOT NULL CHECK (version > 0),
  sealed          BLOB    NOT NULL,
  created_by      TEXT    NOT NULL,
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  updated_by      TEXT    NOT NULL,
  updated_at      TEXT    NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, workspace_id, name)
) STRICT;

ALTER TABLE sessions ADD COLUMN workspace_id TEXT CHECK (workspace_id <> '');
ALTER TABLE sessions ADD COLUMN repositories TEXT CHECK (repositories <> '[]');
ALTER TABLE sessions ADD COLUMN first_prompt TEXT CHECK (first_prompt <> '');
ALTER TABLE sessions ADD COLUMN client TEXT CHECK (client <> '');
ALTER TABLE sessions ADD COLUMN client_metadata TEXT;
ALTER TABLE sessions ADD COLUMN parent_id TEXT CHECK (parent_id <> '');
ALTER TABLE sessions ADD COLUMN provider TEXT CHECK (provider <> '');
ALTER TABLE sessions ADD COLUMN snapshot_id TEXT CHECK (snapshot_id <> '');
ALTER TABLE sessions ADD COLUMN sandbox_state TEXT NOT NULL DEFAULT 'none' CHECK (sandbox_state IN ('none', 'queued', 'starting', 'running', 'migrating', 'paused', 'failed', 'gone'));
ALTER TABLE sessions ADD COLUMN origin TEXT CHECK (origin IN ('page', 'api', 'run'));
ALTER TABLE sessions ADD COLUMN max_tokens INTEGER CHECK (max_tokens > 0);
ALTER TABLE sessions ADD COLUMN max_cost_micros INTEGER CHECK (max_cost_micros > 0);
ALTER TABLE sessions ADD COLUMN max_calls INTEGER CHECK (max_calls > 0);
CREATE INDEX sessions_workspace ON sessions (organization_id, workspace_id, created_at) WHERE workspace_id IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (organization_id, parent_id) WHERE parent_id IS NOT NULL;

ALTER TABLE automations ADD COLUMN workspace_id TEXT CHECK (workspace_id <> '');
ALTER TABLE automations ADD COLUMN branch TEXT CHECK (branch <> '');
ALTER TABLE automations ADD COLUMN model TEXT CHECK (model <> '');
ALTER TABLE automations ADD COLUMN provider TEXT CHECK (provider <> '');
ALTER TABLE automations ADD COLUMN time_limit_seconds INTEGER CHECK (time_limit_seconds > 0);
ALTER TABLE automations ADD COLUMN max_tokens INTEGER CHECK (max_tokens > 0);
ALTER TABLE automations ADD COLUMN max_cost_micros INTEGER CHECK (max_cost_micros > 0);
ALTER TABLE automations ADD COLUMN max_calls INTEGER CHECK (max_calls > 0);
ALTER TABLE automations ADD COLUMN max_runs INTEGER CHECK (max_runs > 0);
ALTER TABLE automations ADD COLUMN ends_when TEXT CHECK (ends_when IN ('reported', 'idle'));
ALTER TABLE automations ADD COLUMN tell TEXT CHECK (tell <> '[]');
CREATE INDEX automations_workspace ON automations (organization_id, workspace_id) WHERE workspace_id IS NOT NULL;
CREATE INDEX runs_claimed ON runs (organization_id, automation_id) WHERE claim_id IS NOT NULL;
