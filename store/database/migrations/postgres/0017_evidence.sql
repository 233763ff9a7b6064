-- Files that sessions send as evidence of their work. Their bytes are in a store
-- of files, below organization/session/upload. An upload that is not sealed, or
-- whose session is gone, is removed with them.

CREATE TABLE evidence_uploads (
  session_id      TEXT COLLATE "C" NOT NULL CHECK (session_id <> ''),
  id              TEXT COLLATE "C" NOT NULL CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  folder          TEXT             CHECK (folder <> ''),
  manifest        TEXT COLLATE "C" CHECK (length(manifest) = 64),
  created_at      TIMESTAMPTZ      NOT NULL,
  touched_at      TIMESTAMPTZ      NOT NULL,
  sealed_at       TIMESTAMPTZ,
  gone_at         TIMESTAMPTZ,
  PRIMARY KEY (session_id, id),
  CONSTRAINT sealed_with_a_manifest CHECK ((sealed_at IS NULL) = (manifest IS NULL))
);
CREATE INDEX evidence_uploads_list ON evidence_uploads (organization_id, session_id, created_at, id);
CREATE INDEX evidence_uploads_open ON evidence_uploads (touched_at) WHERE sealed_at IS NULL AND gone_at IS NULL;
CREATE INDEX evidence_uploads_gone ON evidence_uploads (gone_at) WHERE gone_at IS NOT NULL;

CREATE TABLE evidence_files (
  session_id      TEXT COLLATE "C" NOT NULL,
  upload_id       TEXT COLLATE "C" NOT NULL,
  name            TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
  size            BIGINT           NOT NULL CHECK (size >= 0),
  sha256          TEXT COLLATE "C" NOT NULL CHECK (length(sha256) = 64),
  content_type    TEXT COLLATE "C" NOT NULL CHECK (content_type <> ''),
  stored_at       TIMESTAMPTZ,
  PRIMARY KEY (session_id, upload_id, name),
  FOREIGN KEY (session_id, upload_id) REFERENCES evidence_uploads (session_id, id) ON DELETE CASCADE
);

-- What a person was shown does not change.
CREATE FUNCTION evidence_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM evidence_uploads WHERE session_id = NEW.session_id AND id = NEW.upload_id AND sealed_at IS NOT NULL;
  IF FOUND THEN RAISE EXCEPTION 'sealed evidence does not change'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER evidence_files_kept BEFORE INSERT OR UPDATE ON evidence_files FOR EACH ROW EXECUTE FUNCTION evidence_kept();
CREATE FUNCTION evidence_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'sealed evidence does not change';
END $$;
CREATE TRIGGER evidence_uploads_changed BEFORE UPDATE OF folder, manifest, sealed_at ON evidence_uploads
  FOR EACH ROW WHEN (OLD.sealed_at IS NOT NULL) EXECUTE FUNCTION evidence_sealed();

-- Environment variables that agents ask people for. Values are sealed, handed
-- out once, and then wiped.

CREATE TABLE env_requests (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  session_id      TEXT COLLATE "C" NOT NULL,
  status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'answered', 'taken', 'refused', 'expired')),
  keys            TEXT             NOT NULL CHECK (keys <> ''),
  created_at      TIMESTAMPTZ      NOT NULL,
  expires_at      TIMESTAMPTZ      NOT NULL,
  decided_by      TEXT             CHECK (decided_by <> ''),
  decided_at      TIMESTAMPTZ,
  note            TEXT,
  sealed          BYTEA,
  taken_at        TIMESTAMPTZ,
  taken_key       TEXT COLLATE "C" CHECK (taken_key <> ''),
  CONSTRAINT decided_by_somebody CHECK ((decided_by IS NULL) = (decided_at IS NULL)),
  CONSTRAINT undecided_while_pending CHECK (status <> 'pending' OR decided_at IS NULL),
  CONSTRAINT taken_at_some_time CHECK ((status = 'taken') = (taken_at IS NOT NULL) AND (taken_at IS NULL) = (taken_key IS NULL)),
  CONSTRAINT values_only_between CHECK (sealed IS NULL OR status IN ('answered', 'taken')),
  CONSTRAINT answered_with_values CHECK (status <> 'answered' OR sealed IS NOT NULL)
);
CREATE INDEX env_requests_list ON env_requests (organization_id, created_at, id);
CREATE INDEX env_requests_session ON env_requests (session_id, created_at, id);
CREATE INDEX env_requests_pending ON env_requests (organization_id) WHERE status = 'pending';
CREATE INDEX env_requests_due ON env_requests (expires_at) WHERE status IN ('pending', 'answered');
CREATE INDEX env_requests_handed ON env_requests (taken_at) WHERE status = 'taken' AND sealed IS NOT NULL;

CREATE FUNCTION session_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE evidence_uploads SET gone_at = created_at WHERE session_id = OLD.id AND gone_at IS NULL;
  DELETE FROM env_requests WHERE session_id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER sessions_gone AFTER DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION session_gone();
