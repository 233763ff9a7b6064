-- Times are text in UTC with six decimals, always 27 bytes, so that the order
-- of the text is the order of time. They come from the program, never from the
-- database. Wide columns stand last: a row's first page holds what is filtered.

CREATE TABLE organizations (
  id             TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  name           TEXT    NOT NULL,
  policy_version INTEGER NOT NULL DEFAULT 1,
  created_at     TEXT    NOT NULL CHECK (length(created_at) = 27)
) STRICT;

CREATE TABLE users (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  name            TEXT NOT NULL CHECK (name <> ''),
  role            TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  UNIQUE (organization_id, id)
) STRICT;
CREATE UNIQUE INDEX users_name ON users (organization_id, lower(name));

CREATE TABLE api_keys (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL,
  user_id         TEXT NOT NULL,
  name            TEXT NOT NULL,
  role            TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  hash            TEXT NOT NULL CHECK (length(hash) >= 16),
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  revoked_at      TEXT,
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX api_keys_user ON api_keys (organization_id, user_id);

CREATE TABLE login_links (
  code_hash       TEXT NOT NULL PRIMARY KEY CHECK (length(code_hash) >= 16),
  key_hash        TEXT NOT NULL CHECK (length(key_hash) >= 16),
  organization_id TEXT NOT NULL,
  user_id         TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  used_at         TEXT,
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX login_links_user ON login_links (organization_id, user_id);
CREATE INDEX login_links_expiry ON login_links (expires_at);

CREATE TABLE logins (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  cookie_hash     TEXT NOT NULL UNIQUE CHECK (length(cookie_hash) >= 16),
  key_hash        TEXT NOT NULL CHECK (length(key_hash) >= 16),
  organization_id TEXT NOT NULL,
  user_id         TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  seen_at         TEXT NOT NULL CHECK (length(seen_at) = 27),
  expires_at      TEXT NOT NULL CHECK (length(expires_at) = 27),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX logins_user ON logins (organization_id, user_id);
CREATE INDEX logins_expiry ON logins (expires_at);

CREATE TABLE sessions (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  kind            TEXT NOT NULL CHECK (kind IN ('interactive', 'unattended')),
  type            TEXT NOT NULL CHECK (type IN ('coding', 'setup', 'automation')),
  automation_id   TEXT CHECK (automation_id IS NULL OR kind = 'unattended'),
  group_id        TEXT,
  task_id         TEXT,
  title           TEXT,
  created_by      TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  expires_at      TEXT CHECK (length(expires_at) = 27),
  revoked_at      TEXT CHECK (length(revoked_at) = 27),
  UNIQUE (organization_id, id)
) STRICT;
CREATE INDEX sessions_list ON sessions (organization_id, created_at, id);

CREATE TABLE secrets (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  key             TEXT NOT NULL CHECK (key <> ''),
  host            TEXT NOT NULL CHECK (host <> ''),
  sealed          BLOB NOT NULL,
  updated_by      TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  updated_at      TEXT NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, key)
) STRICT;

CREATE TABLE connectors (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  name            TEXT    NOT NULL CHECK (name <> ''),
  slug            TEXT    NOT NULL CHECK (length(slug) <= 16),
  url             TEXT    NOT NULL CHECK (url <> ''),
  header          TEXT,
  prefix          TEXT,
  secret_key      TEXT,
  default_risk    TEXT    CHECK (default_risk IN ('read', 'write', 'danger')),
  enabled         INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  revision        INTEGER NOT NULL CHECK (revision >= 1),
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  updated_at      TEXT    NOT NULL CHECK (length(updated_at) = 27),
  UNIQUE (organization_id, slug),
  FOREIGN KEY (organization_id, secret_key) REFERENCES secrets (organization_id, key)
) STRICT;
CREATE UNIQUE INDEX connectors_name ON connectors (organization_id, lower(name));
CREATE INDEX connectors_secret ON connectors (organization_id, secret_key) WHERE secret_key IS NOT NULL;

-- automation_id '' is the organization's own.
CREATE TABLE policy_overrides (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  automation_id   TEXT NOT NULL,
  source_id       TEXT NOT NULL CHECK (source_id <> ''),
  action          TEXT NOT NULL CHECK (action <> ''),
  mode            TEXT NOT NULL CHECK (mode IN ('allow', 'deny', 'require_approval')),
  updated_by      TEXT NOT NULL,
  updated_at      TEXT NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (organization_id, automation_id, source_id, action)
) STRICT, WITHOUT ROWID;

CREATE TABLE invocations (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL,
  session_id      TEXT    NOT NULL,
  status          TEXT    NOT NULL CHECK (status IN ('pending', 'approved', 'executing', 'completed', 'failed', 'denied', 'expired')),
  joins           INTEGER NOT NULL CHECK (joins IN (0, 1)),
  unattended      INTEGER NOT NULL CHECK (unattended IN (0, 1)),
  answered        INTEGER NOT NULL DEFAULT 0 CHECK (answered IN (0, 1)),
  created_at      TEXT    NOT NULL CHECK (length(created_at) = 27),
  waiter_seen_at  TEXT    NOT NULL CHECK (length(waiter_seen_at) = 27),
  expires_at      TEXT    CHECK (length(expires_at) = 27),
  approved_at     TEXT    CHECK (length(approved_at) = 27),
  started_at      TEXT    CHECK (length(started_at) = 27),
  lease_until     TEXT    CHECK (length(lease_until) = 27),
  completed_at    TEXT    CHECK (length(completed_at) = 27),
  pickup_until    TEXT    CHECK (length(pickup_until) = 27),
  delivered_at    TEXT    CHECK (length(delivered_at) = 27),
  duration_ms     INTEGER,
  policy_version  INTEGER NOT NULL,
  source_id       TEXT    NOT NULL CHECK (source_id <> ''),
  action          TEXT    NOT NULL CHECK (action <> ''),
  params_hash     TEXT    NOT NULL,
  tool_hash       TEXT    NOT NULL,
  revision        TEXT    NOT NULL,
  risk            TEXT    NOT NULL CHECK (risk IN ('read', 'write', 'danger')),
  mode            TEXT    NOT NULL CHECK (mode IN ('allow', 'deny', 'require_approval')),
  mode_source     TEXT    NOT NULL,
  executor        TEXT,
  approved_by     TEXT,
  denied_reason   TEXT,
  error_code      TEXT,
  source_name     TEXT    NOT NULL,
  denied_note     TEXT,
  error_message   TEXT,
  decision        TEXT    NOT NULL,
  params          TEXT    NOT NULL,
  result          TEXT,
  sealed_params   BLOB,
  sealed_result   BLOB,
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
) STRICT;

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
CREATE INDEX invocations_silent ON invocations (waiter_seen_at) WHERE status = 'pending' AND unattended = 0 AND answered = 0;
CREATE INDEX invocations_unclaimed ON invocations (approved_at) WHERE status = 'approved';
CREATE INDEX invocations_lease ON invocations (lease_until) WHERE status = 'executing';
CREATE INDEX invocations_sealed ON invocations (pickup_until) WHERE sealed_result IS NOT NULL;

-- History does not change. Left out of the list: the sealed columns and those
-- of delivery (pickup_until, delivered_at).
CREATE TRIGGER invocations_terminal BEFORE UPDATE OF
  id, organization_id, session_id, status, joins, unattended, answered, created_at, waiter_seen_at, expires_at,
  approved_at, started_at, lease_until, completed_at, duration_ms, policy_version, source_id, action, params_hash,
  tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code, source_name,
  denied_note, error_message, decision, params, result
ON invocations WHEN OLD.completed_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'a terminal invocation does not change');
END;

CREATE TABLE invocation_events (
  id              TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT NOT NULL,
  invocation_id   TEXT NOT NULL REFERENCES invocations (id) ON DELETE CASCADE,
  kind            TEXT NOT NULL CHECK (kind <> ''),
  by              TEXT,
  at              TEXT NOT NULL CHECK (length(at) = 27),
  data            TEXT NOT NULL
) STRICT;
CREATE INDEX invocation_events_list ON invocation_events (organization_id, invocation_id, at, id);

CREATE TABLE idempotency_keys (
  organization_id TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  source_id       TEXT NOT NULL,
  action          TEXT NOT NULL,
  key             TEXT NOT NULL CHECK (key <> ''),
  invocation_id   TEXT NOT NULL REFERENCES invocations (id) ON DELETE CASCADE,
  params_hash     TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
  PRIMARY KEY (organization_id, session_id, source_id, action, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_invocation ON idempotency_keys (invocation_id);
