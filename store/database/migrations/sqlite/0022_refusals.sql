-- Calls that were refused without a row of their own, as counts: one row for
-- each session, kind and action, and at most a minute.
CREATE TABLE refusal_counts (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  organization_id TEXT    NOT NULL REFERENCES organizations (id),
  session_id      TEXT    NOT NULL CHECK (session_id <> ''),
  kind            TEXT    NOT NULL CHECK (kind <> ''),
  source_id       TEXT    CHECK (source_id <> ''),
  action          TEXT    CHECK (action <> ''),
  count           INTEGER NOT NULL CHECK (count >= 1),
  first_at        TEXT    NOT NULL CHECK (length(first_at) = 27),
  last_at         TEXT    NOT NULL CHECK (length(last_at) = 27),
  CONSTRAINT first_before_last CHECK (first_at <= last_at)
) STRICT;
CREATE INDEX refusal_counts_list ON refusal_counts (organization_id, last_at, id);
CREATE INDEX refusal_counts_session ON refusal_counts (organization_id, session_id, last_at, id);

-- They wait for their seal in a queue of their own: an instance of an earlier
-- version, which does not know them, must not seal them.
CREATE TABLE refusal_queue (
  organization_id TEXT NOT NULL,
  row_id          TEXT NOT NULL,
  PRIMARY KEY (organization_id, row_id)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER refusal_counts_ended AFTER INSERT ON refusal_counts
BEGIN
  INSERT OR IGNORE INTO refusal_queue (organization_id, row_id) VALUES (NEW.organization_id, NEW.id);
END;

-- As text, see 0020_checks.sql.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
  'kind = ''invocation'' OR kind = ''event'' OR kind = ''policy''',
  'kind = ''invocation'' OR kind = ''event'' OR kind = ''policy'' OR kind = ''refusal''')
WHERE type = 'table' AND name = 'audit_seals';
PRAGMA writable_schema = RESET;

-- History does not change, and goes only as far as a checkpoint says.
CREATE TRIGGER refusal_counts_update BEFORE UPDATE ON refusal_counts BEGIN SELECT RAISE(ABORT, 'history does not change'); END;
CREATE TRIGGER refusal_counts_kept BEFORE DELETE ON refusal_counts WHEN NOT EXISTS (
  SELECT 1 FROM audit_seals s JOIN audit_checkpoints c ON c.organization_id = s.organization_id AND c.seq >= s.seq
  WHERE s.row_id = OLD.id AND s.kind = 'refusal' AND s.organization_id = OLD.organization_id)
BEGIN
  SELECT RAISE(ABORT, 'no checkpoint covers this count: history does not change');
END;
CREATE TRIGGER refusal_counts_replaced BEFORE INSERT ON refusal_counts
WHEN EXISTS (SELECT 1 FROM refusal_counts WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM refusal_counts WHERE rowid = NEW.rowid)
BEGIN
  SELECT RAISE(ABORT, 'history does not change');
END;
