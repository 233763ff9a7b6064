-- The tables of migrations/sqlite/0022_refusals.sql: counts of refused calls.
CREATE TABLE refusal_counts (
  id              TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
  session_id      TEXT COLLATE "C" NOT NULL CHECK (session_id <> ''),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind <> ''),
  source_id       TEXT COLLATE "C" CHECK (source_id <> ''),
  action          TEXT             CHECK (action <> ''),
  count           BIGINT           NOT NULL CHECK (count >= 1),
  first_at        TIMESTAMPTZ      NOT NULL,
  last_at         TIMESTAMPTZ      NOT NULL,
  CONSTRAINT first_before_last CHECK (first_at <= last_at)
);
CREATE INDEX refusal_counts_list ON refusal_counts (organization_id, last_at, id);
CREATE INDEX refusal_counts_session ON refusal_counts (organization_id, session_id, last_at, id);

CREATE TABLE refusal_queue (
  organization_id TEXT COLLATE "C" NOT NULL,
  row_id          TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (organization_id, row_id)
);
CREATE FUNCTION queue_refusal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO refusal_queue (organization_id, row_id) VALUES (NEW.organization_id, NEW.id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER refusal_counts_ended AFTER INSERT ON refusal_counts FOR EACH ROW EXECUTE FUNCTION queue_refusal();

-- Not validated: the constraint before it held for every row, and the table may be large.
ALTER TABLE audit_seals DROP CONSTRAINT audit_seals_kind_check;
ALTER TABLE audit_seals ADD CONSTRAINT audit_seals_kind_check CHECK (kind IN ('invocation', 'event', 'policy', 'refusal')) NOT VALID;

CREATE FUNCTION keep_refusal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM audit_seals s JOIN audit_checkpoints c ON c.organization_id = s.organization_id AND c.seq >= s.seq
    WHERE s.row_id = OLD.id AND s.kind = 'refusal' AND s.organization_id = OLD.organization_id) THEN
    RAISE EXCEPTION 'no checkpoint covers this count: history does not change';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER refusal_counts_update BEFORE UPDATE ON refusal_counts FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER refusal_counts_kept BEFORE DELETE ON refusal_counts FOR EACH ROW EXECUTE FUNCTION keep_refusal();
CREATE TRIGGER refusal_counts_truncated BEFORE TRUNCATE ON refusal_counts EXECUTE FUNCTION refuse_change();
CREATE TRIGGER refusal_queue_truncated BEFORE TRUNCATE ON refusal_queue EXECUTE FUNCTION refuse_change();
