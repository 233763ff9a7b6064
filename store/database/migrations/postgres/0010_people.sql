-- People whom another house knows, how they signed in, and how that ended.

ALTER TABLE users ADD COLUMN issuer TEXT COLLATE "C" CHECK (issuer <> ''); -- NULL: of this gateway alone
ALTER TABLE users ADD COLUMN subject TEXT COLLATE "C" CHECK (subject <> '');
ALTER TABLE users ADD COLUMN said_at TIMESTAMPTZ; -- when the other house last said who this is; NULL: not known
ALTER TABLE users ADD COLUMN seen_at TIMESTAMPTZ;
ALTER TABLE users ADD CONSTRAINT users_subject_of_issuer CHECK ((subject IS NULL) = (issuer IS NULL));
CREATE UNIQUE INDEX users_subject ON users (organization_id, issuer, subject) WHERE issuer IS NOT NULL;

-- Whom somebody removed who may come back as often as the other house says.
CREATE TABLE removed_users (
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  issuer          TEXT COLLATE "C" NOT NULL CHECK (issuer <> ''),
  subject         TEXT COLLATE "C" NOT NULL CHECK (subject <> ''),
  user_id         TEXT COLLATE "C" NOT NULL CHECK (user_id <> ''),
  name            TEXT COLLATE "C" NOT NULL,
  role            TEXT COLLATE "C" NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  removed_by      TEXT COLLATE "C" NOT NULL CHECK (removed_by <> ''),
  removed_at      TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, issuer, subject)
);

ALTER TABLE login_links ADD COLUMN via TEXT COLLATE "C" CHECK (via <> ''); -- NULL: link
ALTER TABLE logins ADD COLUMN via TEXT COLLATE "C" CHECK (via <> '');

-- Logins that somebody ended, for as long as they would have lasted.
CREATE TABLE ended_logins (
  cookie_hash TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (length(cookie_hash) >= 16),
  why         TEXT COLLATE "C" NOT NULL CHECK (why <> ''),
  ended_at    TIMESTAMPTZ      NOT NULL,
  expires_at  TIMESTAMPTZ      NOT NULL
);
CREATE INDEX ended_logins_expiry ON ended_logins (expires_at);

-- When an API key was used last. Beside its row, which older instances read whole.
CREATE TABLE api_key_uses (
  key_id  TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
  used_at TIMESTAMPTZ      NOT NULL
);

-- Most sessions have ended.
CREATE INDEX sessions_live ON sessions (organization_id, created_at, id) WHERE revoked_at IS NULL;
