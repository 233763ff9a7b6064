-- The tables of migrations/sqlite/0001_start.sql. Times come from the program,
-- never from the database. Text that is compared or ordered has COLLATE "C":
-- bytes, as everywhere else, and no index that an upgrade of the system's
-- locales would break. Wide columns stand last.

CREATE TABLE organizations (
  id             TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  name           TEXT             NOT NULL,
  policy_version BIGINT           NOT NULL DEFAULT 1,
  created_at     TIMESTAMPTZ      NOT NULL
);

CREATE TABLE users (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  name            TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
  role            TEXT COLLATE "C" NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  created_at      TIMESTAMPTZ      NOT NULL,
  UNIQUE (organization_id, id)
);
CREATE UNIQUE INDEX users_name ON users (organization_id, lower(name));

CREATE TABLE api_keys (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  user_id         TEXT COLLATE "C" NOT NULL,
  name            TEXT             NOT NULL,
  role            TEXT COLLATE "C" NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  hash            TEXT COLLATE "C" NOT NULL CHECK (length(hash) >= 16),
  created_at      TIMESTAMPTZ      NOT NULL,
  revoked_at      TIMESTAMPTZ,
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX api_keys_user ON api_keys (organization_id, user_id);

CREATE TABLE login_links (
  code_hash       TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (length(code_hash) >= 16),
  key_hash        TEXT COLLATE "C" NOT NULL CHECK (length(key_hash) >= 16),
  organization_id TEXT COLLATE "C" NOT NULL,
  user_id         TEXT COLLATE "C" NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ      NOT NULL,
  used_at         TIMESTAMPTZ,
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX login_links_user ON login_links (organization_id, user_id);
CREATE INDEX login_links_expiry ON login_links (expires_at);

CREATE TABLE logins (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  cookie_hash     TEXT COLLATE "C" NOT NULL UNIQUE CHECK (length(cookie_hash) >= 16),
  key_hash        TEXT COLLATE "C" NOT NULL CHECK (length(key_hash) >= 16),
  organization_id TEXT COLLATE "C" NOT NULL,
  user_id         TEXT COLLATE "C" NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  seen_at         TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ      NOT NULL,
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX logins_user ON logins (organization_id, user_id);
CREATE INDEX logins_expiry ON logins (expires_at);

CREATE TABLE sessions (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('interactive', 'unattended')),
  type            TEXT COLLATE "C" NOT NULL CHECK (type IN ('coding', 'setup', 'automation')),
  automation_id   TEXT COLLATE "C" CHECK (automation_id IS NULL OR kind = 'unattended'),
  group_id        TEXT COLLATE "C",
  task_id         TEXT COLLATE "C",
  title           TEXT,
  created_by      TEXT             NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ,
  revoked_at      TIMESTAMPTZ,
  UNIQUE (organization_id, id)
);
CREATE INDEX sessions_list ON sessions (organization_id, created_at, id);

CREATE TABLE secrets (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  key             TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
  host            TEXT COLLATE "C" NOT NULL CHECK (host <> ''),
  sealed          BYTEA            NOT NULL,
  updated_by      TEXT             NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, key)
);

CREATE TABLE connectors (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  name            TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
  slug            TEXT COLLATE "C" NOT NULL CHECK (length(slug) <= 16),
  url             TEXT             NOT NULL CHECK (url <> ''),
  header          TEXT,
  prefix          TEXT,
  secret_key      TEXT COLLATE "C",
  default_risk    TEXT COLLATE "C" CHECK (default_risk IN ('read', 'write', 'danger')),
  enabled         BOOLEAN          NOT NULL,
  revision        BIGINT           NOT NULL CHECK (revision >= 1),
  created_at      TIMESTAMPTZ      NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  UNIQUE (organization_id, slug),
  FOREIGN KEY (organization_id, secret_key) REFERENCES secrets (organization_id, key)
);
CREATE UNIQUE INDEX connectors_name ON connectors (organization_id, lower(name));
CREATE INDEX connectors_secret ON connectors (organization_id, secret_key) WHERE secret_key IS NOT NULL;

-- automation_id '' is the organization's own.
CREATE TABLE policy_overrides (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  automation_id   TEXT COLLATE "C" NOT NULL,
  source_id       TEXT COLLATE "C" NOT NULL CHECK (source_id <> ''),
  action          TEXT COLLATE "C" NOT NULL CHECK (action <> ''),
  mode            TEXT COLLATE "C" NOT NULL CHECK (mode IN ('allow', 'deny', 'require_approval')),
  updated_by      TEXT             NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, automation_id, source_id, action)
);

CREATE TABLE invocations (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  session_id      TEXT COLLATE "C" NOT NULL,
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'approved', 'executing', 'completed', 'failed', 'denied', 'expired')),
  joins           SMALLINT         NOT NULL CHECK (joins IN (0, 1)),
  unattended      SMALLINT         NOT NULL CHECK (unattended IN (0, 1)),
  answered        SMALLINT         NOT NULL DEFAULT 0 CHECK (answered IN (0, 1)),
  created_at      TIMESTAMPTZ      NOT NULL,
  waiter_seen_at  TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ,
  approved_at     TIMESTAMPTZ,
  started_at      TIMESTAMPTZ,
  lease_until     TIMESTAMPTZ,
  completed_at    TIMESTAMPTZ,
  pickup_until    TIMESTAMPTZ,
  delivered_at    TIMESTAMPTZ,
  duration_ms     BIGINT,
  policy_version  BIGINT           NOT NULL,
  source_id       TEXT COLLATE "C" NOT NULL CHECK (source_id <> ''),
  action          TEXT COLLATE "C" NOT NULL CHECK (action <> ''),
  params_hash     TEXT COLLATE "C" NOT NULL,
  tool_hash       TEXT COLLATE "C" NOT NULL,
  revision        TEXT COLLATE "C" NOT NULL,
  risk            TEXT COLLATE "C" NOT NULL CHECK (risk IN ('read', 'write', 'danger')),
  mode            TEXT COLLATE "C" NOT NULL CHECK (mode IN ('allow', 'deny', 'require_approval')),
  mode_source     TEXT COLLATE "C" NOT NULL,
  executor        TEXT COLLATE "C",
  approved_by     TEXT COLLATE "C",
  denied_reason   TEXT COLLATE "C",
  error_code      TEXT COLLATE "C",
  source_name     TEXT             NOT NULL,
  denied_note     TEXT,
  error_message   TEXT,
  decision        TEXT             NOT NULL,
  params          TEXT             NOT NULL,
  result          TEXT,
  sealed_params   BYTEA,
  sealed_result   BYTEA,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT ended_has_time CHECK ((status IN ('completed', 'failed', 'denied', 'expired')) = (completed_at IS NOT NULL)),
  CONSTRAINT pending_expires CHECK (status <> 'pending' OR expires_at IS NOT NULL),
  CONSTRAINT approved_by_someone CHECK (status <> 'approved' OR (approved_by IS NOT NULL AND approved_at IS NOT NULL)),
  CONSTRAINT executing_is_leased CHECK (status <> 'executing' OR (executor IS NOT NULL AND lease_until IS NOT NULL AND started_at IS NOT NULL)),
  CONSTRAINT completed_ran CHECK (status <> 'completed' OR started_at IS NOT NULL),
  CONSTRAINT held_ran_with_approval CHECK (mode <> 'require_approval' OR started_at IS NULL OR approved_by IS NOT NULL),
  CONSTRAINT denied_never_ran CHECK (mode <> 'deny' OR status = 'denied'),
  CONSTRAINT failed_has_code CHECK ((status = 'failed') = (error_code IS NOT NULL)),
  CONSTRAINT denied_has_reason CHECK ((status = 'denied') = (denied_reason IS NOT NULL)),
  CONSTRAINT params_sealed_while_open CHECK (sealed_params IS NULL OR completed_at IS NULL),
  CONSTRAINT result_sealed_for_pickup CHECK (sealed_result IS NULL OR (completed_at IS NOT NULL AND pickup_until IS NOT NULL)),
  CONSTRAINT delivered_when_ended CHECK (delivered_at IS NULL OR completed_at IS NOT NULL)
)
-- A caller who waits is noted every few seconds, in a column that no index has:
-- with room on the page that costs no index anything, and no page of history.
WITH (fillfactor = 80);

-- How many calls wait changes within seconds. With statistics from an hour
-- when none did, the planner would take every index of waiting calls for empty
-- and read all of it; without any it assumes some.
ALTER TABLE invocations ALTER COLUMN status SET STATISTICS 0;

-- What people look at.
CREATE INDEX invocations_inbox ON invocations (organization_id, status, created_at, id);
CREATE INDEX invocations_list ON invocations (organization_id, created_at, id);
CREATE INDEX invocations_session ON invocations (organization_id, session_id, created_at, id);

-- What Begin asks. The first one makes two open rows of one call impossible.
CREATE UNIQUE INDEX invocations_open ON invocations (organization_id, session_id, source_id, action, params_hash)
  WHERE joins = 1 AND status IN ('pending', 'approved', 'executing');
CREATE INDEX invocations_undelivered ON invocations (organization_id, session_id, source_id, action, params_hash, pickup_until)
  WHERE joins = 1 AND delivered_at IS NULL AND pickup_until IS NOT NULL;
CREATE INDEX invocations_refused ON invocations (organization_id, session_id, source_id, action, params_hash, completed_at)
  WHERE denied_reason = 'human';
CREATE INDEX invocations_pending ON invocations (organization_id, session_id, expires_at) WHERE status = 'pending';

-- What the sweeps ask. Rows at rest are in none of these.
CREATE INDEX invocations_expiry ON invocations (expires_at) WHERE status = 'pending';
CREATE INDEX invocations_silent ON invocations (created_at) WHERE status = 'pending' AND unattended = 0 AND answered = 0;
CREATE INDEX invocations_unclaimed ON invocations (approved_at) WHERE status = 'approved';
CREATE INDEX invocations_lease ON invocations (lease_until) WHERE status = 'executing';
CREATE INDEX invocations_sealed ON invocations (pickup_until) WHERE sealed_result IS NOT NULL;

-- History does not change. Left out of the list: the sealed columns and those
-- of delivery (pickup_until, delivered_at).
CREATE FUNCTION refuse_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a terminal invocation does not change';
END $$;
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name,
  denied_note, error_message, decision, params, result
ON invocations FOR EACH ROW WHEN (OLD.completed_at IS NOT NULL) EXECUTE FUNCTION refuse_history();

CREATE TABLE invocation_events (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  invocation_id   TEXT COLLATE "C" NOT NULL REFERENCES invocations (id) ON DELETE CASCADE,
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
  by              TEXT COLLATE "C",
  at              TIMESTAMPTZ      NOT NULL,
  data            TEXT             NOT NULL
);
CREATE INDEX invocation_events_list ON invocation_events (organization_id, invocation_id, at, id);
CREATE INDEX invocation_events_invocation ON invocation_events (invocation_id);

CREATE TABLE idempotency_keys (
  organization_id TEXT COLLATE "C" NOT NULL,
  session_id      TEXT COLLATE "C" NOT NULL,
  source_id       TEXT COLLATE "C" NOT NULL,
  action          TEXT COLLATE "C" NOT NULL,
  key             TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
  invocation_id   TEXT COLLATE "C" NOT NULL REFERENCES invocations (id) ON DELETE CASCADE,
  params_hash     TEXT COLLATE "C" NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, session_id, source_id, action, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_invocation ON idempotency_keys (invocation_id);
