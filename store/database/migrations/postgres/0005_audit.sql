-- The tables of migrations/sqlite/0005_audit.sql: evidence.

CREATE TABLE audit_queue (
  organization_id TEXT COLLATE "C" NOT NULL,
  row_id          TEXT COLLATE "C" NOT NULL,
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('invocation', 'event', 'policy')),
  PRIMARY KEY (organization_id, row_id, kind)
);
CREATE FUNCTION queue_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit_queue (row_id, kind, organization_id) VALUES (NEW.id, TG_ARGV[0], NEW.organization_id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER invocations_ended AFTER UPDATE OF completed_at ON invocations
  FOR EACH ROW WHEN (OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL) EXECUTE FUNCTION queue_audit('invocation');
CREATE TRIGGER invocations_began_ended AFTER INSERT ON invocations
  FOR EACH ROW WHEN (NEW.completed_at IS NOT NULL) EXECUTE FUNCTION queue_audit('invocation');
CREATE TRIGGER invocation_events_ended AFTER INSERT ON invocation_events FOR EACH ROW EXECUTE FUNCTION queue_audit('event');
CREATE TRIGGER policy_events_ended AFTER INSERT ON policy_events FOR EACH ROW EXECUTE FUNCTION queue_audit('policy');

INSERT INTO audit_queue (row_id, kind, organization_id)
  SELECT id, 'invocation', organization_id FROM invocations WHERE completed_at IS NOT NULL
  UNION ALL SELECT id, 'event', organization_id FROM invocation_events
  UNION ALL SELECT id, 'policy', organization_id FROM policy_events;

CREATE TABLE audit_seals (
  organization_id TEXT COLLATE "C" NOT NULL,
  seq             BIGINT           NOT NULL CHECK (seq >= 1),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('invocation', 'event', 'policy')),
  row_id          TEXT COLLATE "C" NOT NULL,
  digest          BYTEA            NOT NULL CHECK (length(digest) = 32),
  hash            BYTEA            NOT NULL CHECK (length(hash) = 32),
  sealed_at       TIMESTAMPTZ      NOT NULL,
  PRIMARY KEY (organization_id, seq)
);
CREATE UNIQUE INDEX audit_seals_row ON audit_seals (row_id, kind);

CREATE TABLE audit_heads (
  organization_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES organizations (id),
  seq             BIGINT           NOT NULL CHECK (seq >= 1),
  hash            BYTEA            NOT NULL CHECK (length(hash) = 32),
  mac             BYTEA            NOT NULL CHECK (length(mac) = 32),
  at              TIMESTAMPTZ      NOT NULL
);

ALTER TABLE organizations ADD COLUMN chained SMALLINT NOT NULL DEFAULT 0 CHECK (chained IN (0, 1));
CREATE FUNCTION begin_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organizations SET chained = 1 WHERE id = NEW.organization_id;
  RETURN NULL;
END $$;
CREATE TRIGGER audit_heads_began AFTER INSERT ON audit_heads FOR EACH ROW EXECUTE FUNCTION begin_chain();
CREATE FUNCTION keep_chained() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a chain that began does not end';
END $$;
CREATE TRIGGER organizations_chained BEFORE UPDATE OF chained ON organizations
  FOR EACH ROW WHEN (NEW.chained < OLD.chained) EXECUTE FUNCTION keep_chained();

CREATE TABLE audit_checkpoints (
  organization_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES organizations (id),
  seq             BIGINT           NOT NULL CHECK (seq >= 1),
  hash            BYTEA            NOT NULL CHECK (length(hash) = 32),
  mac             BYTEA            NOT NULL CHECK (length(mac) = 32),
  until           TIMESTAMPTZ      NOT NULL,
  at              TIMESTAMPTZ      NOT NULL,
  removed         BIGINT           NOT NULL CHECK (removed >= 0)
);

CREATE FUNCTION keep_invocation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM audit_seals s JOIN audit_checkpoints c ON c.organization_id = s.organization_id AND c.seq >= s.seq
    WHERE s.row_id = OLD.id AND s.kind = 'invocation' AND s.organization_id = OLD.organization_id) THEN
    RAISE EXCEPTION 'no checkpoint covers this invocation';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER invocations_kept BEFORE DELETE ON invocations FOR EACH ROW EXECUTE FUNCTION keep_invocation();

CREATE FUNCTION keep_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM invocations i WHERE i.id = OLD.invocation_id) THEN
    RAISE EXCEPTION 'history does not change';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER invocation_events_update BEFORE UPDATE ON invocation_events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER invocation_events_delete BEFORE DELETE ON invocation_events FOR EACH ROW EXECUTE FUNCTION keep_event();

CREATE FUNCTION keep_seal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM audit_checkpoints c WHERE c.organization_id = OLD.organization_id AND c.seq >= OLD.seq) THEN
    RAISE EXCEPTION 'no checkpoint covers this seal';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER audit_seals_update BEFORE UPDATE ON audit_seals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_seals_delete BEFORE DELETE ON audit_seals FOR EACH ROW EXECUTE FUNCTION keep_seal();

-- What TRUNCATE removes, no trigger of a row sees.
CREATE TRIGGER invocations_truncated BEFORE TRUNCATE ON invocations EXECUTE FUNCTION refuse_change();
CREATE TRIGGER invocation_events_truncated BEFORE TRUNCATE ON invocation_events EXECUTE FUNCTION refuse_change();
CREATE TRIGGER policy_events_truncated BEFORE TRUNCATE ON policy_events EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_queue_truncated BEFORE TRUNCATE ON audit_queue EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_seals_truncated BEFORE TRUNCATE ON audit_seals EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_heads_truncated BEFORE TRUNCATE ON audit_heads EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_checkpoints_truncated BEFORE TRUNCATE ON audit_checkpoints EXECUTE FUNCTION refuse_change();
