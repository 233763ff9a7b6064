-- The tables of migrations/sqlite/0008_inbound.sql: automations, what starts
-- them, and their runs.

CREATE TABLE automations (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  id              TEXT COLLATE "C" NOT NULL CHECK (id <> ''),
  name            TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
  enabled         BOOLEAN          NOT NULL,
  instructions    TEXT             NOT NULL,
  created_by      TEXT             NOT NULL CHECK (created_by <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, name)
);
CREATE INDEX automations_id ON automations (id); -- URLs name no organization

-- Until now an automation was a name that sessions, overrides and bindings had.
INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at)
SELECT n.organization_id, n.automation_id, n.automation_id, true, '', 'migration', o.created_at, o.created_at
FROM (
  SELECT organization_id, automation_id FROM sessions WHERE automation_id <> ''
  UNION SELECT organization_id, automation_id FROM policy_overrides WHERE automation_id <> ''
  UNION SELECT organization_id, automation_id FROM automation_connections
) AS n JOIN organizations AS o ON o.id = n.organization_id;

CREATE TABLE triggers (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  automation_id   TEXT COLLATE "C" NOT NULL,
  name            TEXT             NOT NULL CHECK (name <> ''),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('webhook', 'polling')),
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  type            TEXT COLLATE "C" NOT NULL CHECK (type <> ''),
  enabled         BOOLEAN          NOT NULL,
  config          TEXT             NOT NULL CHECK (config LIKE '{%}'),
  integration_id  TEXT COLLATE "C" CHECK (integration_id <> ''), -- NULL: any of the organization's
  poll_seconds    INTEGER          CHECK (poll_seconds > 0),
  created_by      TEXT             NOT NULL CHECK (created_by <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  last_event_at   TIMESTAMPTZ,
  CONSTRAINT polls_an_integration CHECK (kind = 'webhook' AND poll_seconds IS NULL OR kind = 'polling' AND poll_seconds IS NOT NULL AND integration_id IS NOT NULL),
  FOREIGN KEY (organization_id, automation_id) REFERENCES automations (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX triggers_list ON triggers (organization_id, created_at, id);
CREATE INDEX triggers_automation ON triggers (automation_id);
CREATE INDEX triggers_provider ON triggers (organization_id, provider, enabled);

CREATE TABLE schedules (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL,
  automation_id   TEXT COLLATE "C" NOT NULL,
  name            TEXT             NOT NULL CHECK (name <> ''),
  cron            TEXT             NOT NULL CHECK (cron <> ''),
  time_zone       TEXT COLLATE "C" NOT NULL CHECK (time_zone <> ''),
  enabled         BOOLEAN          NOT NULL,
  missed          TEXT COLLATE "C" NOT NULL CHECK (missed IN ('once', 'skip')),
  next_at         TIMESTAMPTZ,
  last_at         TIMESTAMPTZ,
  created_by      TEXT             NOT NULL CHECK (created_by <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  updated_at      TIMESTAMPTZ      NOT NULL,
  CONSTRAINT disabled_is_not_due CHECK (enabled OR next_at IS NULL),
  FOREIGN KEY (organization_id, automation_id) REFERENCES automations (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX schedules_list ON schedules (organization_id, created_at, id);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

-- Of triggers, and of the endpoint for runs (owner_id 'endpoint'). Several are
-- good at once while one is replaced.
CREATE TABLE signing_secrets (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  owner_id        TEXT COLLATE "C" NOT NULL CHECK (owner_id <> ''),
  sealed          BYTEA            NOT NULL,
  created_at      TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ
);
CREATE INDEX signing_secrets_owner ON signing_secrets (organization_id, owner_id, created_at);
CREATE INDEX signing_secrets_age ON signing_secrets (expires_at) WHERE expires_at IS NOT NULL;

-- Verified deliveries. dedup_key is the same when the sender tries again.
CREATE TABLE inbox (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  endpoint        TEXT COLLATE "C" NOT NULL CHECK (endpoint <> ''),
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  trigger_id      TEXT COLLATE "C" CHECK (trigger_id <> ''), -- NULL: a URL of the whole provider
  dedup_key       TEXT COLLATE "C" NOT NULL CHECK (dedup_key <> ''),
  native          TEXT,
  size            INTEGER          NOT NULL CHECK (size >= 0),
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed')),
  attempt         INTEGER          NOT NULL CHECK (attempt >= 0),
  failures        INTEGER          NOT NULL DEFAULT 0 CHECK (failures >= 0),
  losses          INTEGER          NOT NULL DEFAULT 0 CHECK (losses >= 0), -- in a row, with the process that had it
  next_at         TIMESTAMPTZ      NOT NULL,
  holder          TEXT,
  lease_until     TIMESTAMPTZ,
  doubled         BOOLEAN          NOT NULL DEFAULT false,
  last_error      TEXT,
  received_at     TIMESTAMPTZ      NOT NULL,
  processed_at    TIMESTAMPTZ,
  shown           TEXT,
  sealed          BYTEA,
  UNIQUE (endpoint, dedup_key),
  CONSTRAINT processing_is_held CHECK ((status = 'processing') = (holder IS NOT NULL) AND (holder IS NULL) = (lease_until IS NULL)),
  CONSTRAINT ended_has_a_time CHECK ((status IN ('completed', 'failed')) = (processed_at IS NOT NULL)),
  CONSTRAINT waiting_is_sealed CHECK (status NOT IN ('queued', 'processing') OR sealed IS NOT NULL),
  CONSTRAINT completed_is_wiped CHECK (status <> 'completed' OR sealed IS NULL OR last_error IS NOT NULL) -- reached nobody
);
CREATE INDEX inbox_due ON inbox (next_at, id) WHERE status = 'queued';
CREATE INDEX inbox_lease ON inbox (lease_until) WHERE status = 'processing';
CREATE INDEX inbox_list ON inbox (organization_id, received_at, id);
CREATE INDEX inbox_trigger ON inbox (organization_id, trigger_id, received_at, id) WHERE trigger_id IS NOT NULL;
CREATE INDEX inbox_failed ON inbox (organization_id, received_at, id) WHERE status = 'failed';
CREATE INDEX inbox_age ON inbox (received_at) WHERE status IN ('completed', 'failed');

-- Bodies that were worked off, for deliveries whose id is not signed.
CREATE TABLE inbox_bodies (
  endpoint    TEXT COLLATE "C" NOT NULL,
  hash        TEXT COLLATE "C" NOT NULL,
  inbox_id    TEXT COLLATE "C" NOT NULL,
  received_at TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (endpoint, hash)
);
CREATE INDEX inbox_bodies_age ON inbox_bodies (received_at);

-- trigger_id is that of a trigger or a schedule, which may be gone.
CREATE TABLE events (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  trigger_id      TEXT COLLATE "C" NOT NULL CHECK (trigger_id <> ''),
  automation_id   TEXT COLLATE "C" NOT NULL CHECK (automation_id <> ''),
  inbox_id        TEXT COLLATE "C" CHECK (inbox_id <> ''), -- NULL: polled or scheduled
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  type            TEXT COLLATE "C" NOT NULL CHECK (type <> ''),
  native          TEXT,
  dedup_key       TEXT COLLATE "C" NOT NULL CHECK (dedup_key <> ''),
  occurred_at     TIMESTAMPTZ,
  title           TEXT             NOT NULL,
  url             TEXT,
  skip_reason     TEXT COLLATE "C" CHECK (skip_reason IN ('filter_mismatch', 'automation_disabled', 'manual', 'run_create_failed', 'unverified')),
  error           TEXT,
  created_at      TIMESTAMPTZ      NOT NULL,
  shown           TEXT,
  sealed          BYTEA,
  UNIQUE (trigger_id, dedup_key)
);
CREATE INDEX events_list ON events (organization_id, created_at, id);
CREATE INDEX events_trigger ON events (organization_id, trigger_id, created_at, id);
CREATE INDEX events_automation ON events (organization_id, automation_id, created_at, id);
CREATE INDEX events_provider ON events (organization_id, provider, created_at, id);
CREATE INDEX events_inbox ON events (inbox_id) WHERE inbox_id IS NOT NULL;
CREATE INDEX events_kept ON events (created_at) WHERE shown IS NOT NULL OR sealed IS NOT NULL;

CREATE TABLE runs (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  automation_id   TEXT COLLATE "C" NOT NULL CHECK (automation_id <> ''),
  event_id        TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES events (id),
  trigger_id      TEXT COLLATE "C" NOT NULL,
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('queued', 'claimed', 'running', 'needs_human', 'succeeded', 'failed', 'skipped')),
  attempt         INTEGER          NOT NULL CHECK (attempt >= 0),
  claim_id        TEXT COLLATE "C" CHECK (claim_id <> ''),
  last_claim      TEXT COLLATE "C" CHECK (last_claim <> ''), -- with which its worker ended it
  claimed_by      TEXT,
  lease_until     TIMESTAMPTZ,
  lease_seconds   INTEGER, -- of the claim; NULL: until the deadline
  deadline        TIMESTAMPTZ,
  session_id      TEXT COLLATE "C",
  code            TEXT,
  message         TEXT,
  result          TEXT,
  created_at      TIMESTAMPTZ      NOT NULL,
  started_at      TIMESTAMPTZ,
  completed_at    TIMESTAMPTZ,
  FOREIGN KEY (organization_id, session_id) REFERENCES sessions (organization_id, id),
  CONSTRAINT claimed_by_somebody CHECK (status NOT IN ('claimed', 'running') OR claim_id IS NOT NULL),
  CONSTRAINT claim_has_a_session CHECK (claim_id IS NULL OR session_id IS NOT NULL AND deadline IS NOT NULL),
  CONSTRAINT waiting_is_free CHECK (status NOT IN ('queued', 'succeeded', 'failed', 'skipped') OR claim_id IS NULL),
  CONSTRAINT taken_anew CHECK (claim_id IS NULL OR last_claim IS NULL),
  CONSTRAINT ended_has_a_time CHECK ((status IN ('succeeded', 'failed', 'skipped')) = (completed_at IS NOT NULL))
);
CREATE INDEX runs_list ON runs (organization_id, created_at, id);
CREATE INDEX runs_automation ON runs (organization_id, automation_id, created_at, id);
CREATE INDEX runs_trigger ON runs (organization_id, trigger_id, created_at, id);
CREATE INDEX runs_status ON runs (organization_id, status, created_at, id) WHERE status IN ('queued', 'claimed', 'running', 'needs_human', 'failed');
CREATE INDEX runs_waiting ON runs (organization_id, automation_id, created_at, id) WHERE status = 'queued';
CREATE INDEX runs_lease ON runs (lease_until) WHERE claim_id IS NOT NULL AND lease_until IS NOT NULL;
CREATE INDEX runs_deadline ON runs (deadline) WHERE claim_id IS NOT NULL;
CREATE UNIQUE INDEX runs_session ON runs (session_id) WHERE session_id IS NOT NULL;

CREATE TABLE outbox (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  run_id          TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'sending', 'delivered', 'dead', 'void')),
  attempt         INTEGER          NOT NULL CHECK (attempt >= 0),
  first_at        TIMESTAMPTZ,
  next_at         TIMESTAMPTZ      NOT NULL,
  holder          TEXT,
  lease_until     TIMESTAMPTZ,
  last_status     INTEGER,
  last_error      TEXT,
  created_at      TIMESTAMPTZ      NOT NULL,
  delivered_at    TIMESTAMPTZ, -- or died, or became void
  CONSTRAINT sending_is_held CHECK ((status = 'sending') = (holder IS NOT NULL) AND (holder IS NULL) = (lease_until IS NULL)),
  CONSTRAINT ended_has_a_time CHECK ((status IN ('delivered', 'dead', 'void')) = (delivered_at IS NOT NULL))
);
CREATE UNIQUE INDEX outbox_open ON outbox (run_id) WHERE status IN ('pending', 'sending');
CREATE INDEX outbox_due ON outbox (organization_id, next_at, id) WHERE status = 'pending';
CREATE INDEX outbox_again ON outbox (organization_id, next_at, id) WHERE status = 'pending' AND attempt > 0;
CREATE INDEX outbox_lease ON outbox (lease_until) WHERE status = 'sending';
CREATE INDEX outbox_list ON outbox (organization_id, created_at, id);
CREATE INDEX outbox_dead ON outbox (organization_id, created_at, id) WHERE status = 'dead';

CREATE TABLE run_endpoints (
  organization_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES organizations (id),
  url             TEXT             NOT NULL CHECK (url <> ''),
  enabled         BOOLEAN          NOT NULL,
  updated_by      TEXT             NOT NULL CHECK (updated_by <> ''),
  updated_at      TIMESTAMPTZ      NOT NULL
);

-- A group is there while one of its triggers is enabled. turn counts claims.
CREATE TABLE poll_groups (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider <> ''),
  integration_id  TEXT COLLATE "C" NOT NULL CHECK (integration_id <> ''),
  cursor          TEXT,
  poll_seconds    INTEGER          NOT NULL CHECK (poll_seconds > 0), -- the shortest of its triggers'
  next_at         TIMESTAMPTZ      NOT NULL,
  last_at         TIMESTAMPTZ,
  failures        INTEGER          NOT NULL CHECK (failures >= 0),
  last_error      TEXT,
  lost            TEXT,
  lost_at         TIMESTAMPTZ,
  turn            BIGINT           NOT NULL CHECK (turn >= 0),
  holder          TEXT,
  lease_until     TIMESTAMPTZ,
  UNIQUE (organization_id, provider, integration_id),
  CONSTRAINT held_for_a_time CHECK ((holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX poll_groups_due ON poll_groups (next_at);

-- A key for workers can do nothing but work on runs.
ALTER TABLE api_keys ADD COLUMN scope TEXT COLLATE "C" CHECK (scope = 'runs'); -- NULL: all that its role may
-- Whether events start something that a broker forwards without verifying them.
ALTER TABLE organizations ADD COLUMN unverified_events SMALLINT NOT NULL DEFAULT 0 CHECK (unverified_events IN (0, 1));
-- Whose event it is is looked up by the account, in all organizations.
CREATE INDEX integrations_account_of ON integrations (provider, account) WHERE status <> 'deleted';
-- By which a run finds the calls of its session, and a call its run.
CREATE INDEX sessions_event ON sessions (organization_id, event_id) WHERE event_id IS NOT NULL;

-- A run needs a human while a call of its session waits for approval. The run's
-- row is locked before the others are looked at, so that of two decisions at
-- once the later one sees what the earlier one did.
CREATE FUNCTION run_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE runs SET status = 'needs_human' WHERE session_id = NEW.session_id AND status IN ('claimed', 'running');
  RETURN NULL;
END $$;
CREATE TRIGGER runs_held AFTER INSERT ON invocations FOR EACH ROW WHEN (NEW.status = 'pending') EXECUTE FUNCTION run_held();
CREATE FUNCTION run_decided() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM runs WHERE session_id = NEW.session_id AND status = 'needs_human' AND claim_id IS NOT NULL FOR UPDATE;
  IF FOUND THEN
    UPDATE runs SET status = 'running', started_at = coalesce(started_at, NEW.created_at)
    WHERE session_id = NEW.session_id AND status = 'needs_human'
      AND NOT EXISTS (SELECT 1 FROM invocations AS i WHERE i.organization_id = NEW.organization_id AND i.session_id = NEW.session_id AND i.status = 'pending');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER runs_decided AFTER UPDATE OF status ON invocations
  FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION run_decided();
