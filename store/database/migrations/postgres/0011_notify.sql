-- Where approvers hear of held calls elsewhere, and what they were told. Secrets
-- that sign are signing_secrets of the owner "notify".

CREATE TABLE notify_channels (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('webhook', 'slack')),
  enabled         BOOLEAN          NOT NULL,
  wants           TEXT COLLATE "C" NOT NULL CHECK (wants IN ('all', 'danger', 'unattended')),
  url             TEXT             CHECK (url <> ''),
  sealed          BYTEA,
  integration_id  TEXT COLLATE "C" CHECK (integration_id <> ''),
  target          TEXT             CHECK (target <> ''),
  failures        INTEGER          NOT NULL CHECK (failures >= 0),
  retry_at        TIMESTAMPTZ,
  last_error      TEXT,
  last_error_at   TIMESTAMPTZ,
  last_sent_at    TIMESTAMPTZ,
  holder          TEXT,
  lease_until     TIMESTAMPTZ,
  updated_by      TEXT             NOT NULL CHECK (updated_by <> ''),
  updated_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, kind),
  CONSTRAINT one_way_to_send CHECK (
    (kind = 'webhook' AND url IS NOT NULL AND sealed IS NULL AND integration_id IS NULL AND target IS NULL) OR
    (kind = 'slack' AND url IS NULL AND (sealed IS NULL) = (integration_id IS NOT NULL) AND (integration_id IS NULL) = (target IS NULL))),
  CONSTRAINT channel_is_held CHECK ((holder IS NULL) = (lease_until IS NULL))
);

-- sent: the call waits still, as far as is known. No call is referred to: its
-- row may be retired first.
CREATE TABLE notifications (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('webhook', 'slack')),
  event           TEXT COLLATE "C" NOT NULL CHECK (event IN ('held', 'settled')),
  invocation_id   TEXT COLLATE "C" NOT NULL CHECK (invocation_id <> ''),
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'sent', 'done', 'void')),
  attempt         INTEGER          NOT NULL CHECK (attempt >= 0),
  next_at         TIMESTAMPTZ      NOT NULL,
  ref             TEXT,
  last_error      TEXT,
  created_at      TIMESTAMPTZ      NOT NULL,
  ended_at        TIMESTAMPTZ,
  UNIQUE (invocation_id, kind, event),
  CONSTRAINT ended_notification_has_a_time CHECK ((status IN ('done', 'void')) = (ended_at IS NOT NULL)),
  CONSTRAINT settled_is_the_last_word CHECK (event = 'held' OR status <> 'sent')
);
CREATE INDEX notifications_due ON notifications (organization_id, kind, event, next_at, id) WHERE status = 'pending';
CREATE INDEX notifications_open ON notifications (organization_id, kind, id) WHERE status IN ('pending', 'sent') AND event = 'held';
CREATE INDEX notifications_list ON notifications (organization_id, created_at, id);
CREATE INDEX notifications_age ON notifications (ended_at) WHERE ended_at IS NOT NULL;
