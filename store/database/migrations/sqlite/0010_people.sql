-- People whom another house knows, how they signed in, and how that ended.

ALTER TABLE users ADD COLUMN issuer TEXT CHECK (issuer <> ''); -- NULL: of this gateway alone
ALTER TABLE users ADD COLUMN subject TEXT CHECK ((subject IS NULL) = (issuer IS NULL) AND (subject IS NULL OR subject <> ''));
ALTER TABLE users ADD COLUMN said_at TEXT CHECK (length(said_at) = 27); -- when the other house last said who this is; NULL: not known
ALTER TABLE users ADD COLUMN seen_at TEXT CHECK (length(seen_at) = 27);
CREATE UNIQUE INDEX users_subject ON users (organization_id, issuer, subject) WHERE issuer IS NOT NULL;

-- Whom somebody removed who may come back as often as the other house says.
CREATE TABLE removed_users (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  issuer          TEXT NOT NULL CHECK (issuer <> ''),
  subject         TEXT NOT NULL CHECK (subject <> ''),
  user_id         TEXT NOT NULL CHECK (user_id <> ''),
  name            TEXT NOT NULL,
  role            TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  removed_by      TEXT NOT NULL CHECK (removed_by <> ''),
  removed_at      TEXT NOT NULL CHECK (length(removed_at) = 27),
  PRIMARY KEY (organization_id, issuer, subject)
) STRICT, WITHOUT ROWID;

ALTER TABLE login_links ADD COLUMN via TEXT CHECK (via <> ''); -- NULL: link
ALTER TABLE logins ADD COLUMN via TEXT CHECK (via <> '');

-- Logins that somebody ended, for as long as they would have lasted.
CREATE TABLE ended_logins (
  cookie_hash TEXT NOT NULL PRIMARY KEY CHECK (length(cookie_hash) >= 16),
  why         TEXT NOT NULL CHECK (why <> ''),
  ended_at    TEXT NOT NULL CHECK (length(ended_at) = 27),
  expires_at  TEXT NOT NULL CHECK (length(expires_at) = 27)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_logins_expiry ON ended_logins (expires_at);

-- When an API key was used last. Beside its row, which older instances read whole.
CREATE TABLE api_key_uses (
  key_id  TEXT NOT NULL PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
  used_at TEXT NOT NULL CHECK (length(used_at) = 27)
) STRICT, WITHOUT ROWID;

-- Most sessions have ended.
CREATE INDEX sessions_live ON sessions (organization_id, created_at, id) WHERE revoked_at IS NULL;
