-- Evidence: what ended waits to be sealed, and the chain of its seals.

-- Triggers write it in the transaction that makes a row final, whatever code
-- does that: what ended is sealed or waits. Its one index is the table, for
-- each organization in the order of ids, which is that of time: what waits for
-- a chain that does not hold is in nobody's way.
CREATE TABLE audit_queue (
  organization_id TEXT NOT NULL,
  row_id          TEXT NOT NULL,
  kind            TEXT NOT NULL CHECK (kind IN ('invocation', 'event', 'policy')),
  PRIMARY KEY (organization_id, row_id, kind)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER invocations_ended AFTER UPDATE OF completed_at ON invocations WHEN OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO audit_queue (row_id, kind, organization_id) VALUES (NEW.id, 'invocation', NEW.organization_id);
END;
CREATE TRIGGER invocations_began_ended AFTER INSERT ON invocations WHEN NEW.completed_at IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO audit_queue (row_id, kind, organization_id) VALUES (NEW.id, 'invocation', NEW.organization_id);
END;
CREATE TRIGGER invocation_events_ended AFTER INSERT ON invocation_events
BEGIN
  INSERT OR IGNORE INTO audit_queue (row_id, kind, organization_id) VALUES (NEW.id, 'event', NEW.organization_id);
END;
CREATE TRIGGER policy_events_ended AFTER INSERT ON policy_events
BEGIN
  INSERT OR IGNORE INTO audit_queue (row_id, kind, organization_id) VALUES (NEW.id, 'policy', NEW.organization_id);
END;

INSERT INTO audit_queue (row_id, kind, organization_id)
  SELECT id, 'invocation', organization_id FROM invocations WHERE completed_at IS NOT NULL
  UNION ALL SELECT id, 'event', organization_id FROM invocation_events
  UNION ALL SELECT id, 'policy', organization_id FROM policy_events;

-- One link: hash is keyed, over the link before, this one and the row's digest.
CREATE TABLE audit_seals (
  organization_id TEXT    NOT NULL,
  seq             INTEGER NOT NULL CHECK (seq >= 1),
  kind            TEXT    NOT NULL CHECK (kind IN ('invocation', 'event', 'policy')),
  row_id          TEXT    NOT NULL,
  digest          BLOB    NOT NULL CHECK (length(digest) = 32),
  hash            BLOB    NOT NULL CHECK (length(hash) = 32),
  sealed_at       TEXT    NOT NULL CHECK (length(sealed_at) = 27),
  PRIMARY KEY (organization_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX audit_seals_row ON audit_seals (row_id, kind);

-- The last link of each chain.
CREATE TABLE audit_heads (
  organization_id TEXT    NOT NULL PRIMARY KEY REFERENCES organizations (id),
  seq             INTEGER NOT NULL CHECK (seq >= 1),
  hash            BLOB    NOT NULL CHECK (length(hash) = 32),
  mac             BLOB    NOT NULL CHECK (length(mac) = 32),
  at              TEXT    NOT NULL CHECK (length(at) = 27)
) STRICT, WITHOUT ROWID;

-- A chain that began does not end: without a head its evidence was removed.
ALTER TABLE organizations ADD COLUMN chained INTEGER NOT NULL DEFAULT 0 CHECK (chained IN (0, 1));
CREATE TRIGGER audit_heads_began AFTER INSERT ON audit_heads
BEGIN
  UPDATE organizations SET chained = 1 WHERE id = NEW.organization_id;
END;
CREATE TRIGGER organizations_chained BEFORE UPDATE OF chained ON organizations WHEN NEW.chained < OLD.chained
BEGIN
  SELECT RAISE(ABORT, 'a chain that began does not end');
END;

-- The last link that retention removed of each chain, and how many invocations
-- went so far.
CREATE TABLE audit_checkpoints (
  organization_id TEXT    NOT NULL PRIMARY KEY REFERENCES organizations (id),
  seq             INTEGER NOT NULL CHECK (seq >= 1),
  hash            BLOB    NOT NULL CHECK (length(hash) = 32),
  mac             BLOB    NOT NULL CHECK (length(mac) = 32),
  until           TEXT    NOT NULL CHECK (length(until) = 27),
  at              TEXT    NOT NULL CHECK (length(at) = 27),
  removed         INTEGER NOT NULL CHECK (removed >= 0)
) STRICT, WITHOUT ROWID;

-- History does not change, and goes only as far as a checkpoint says: a row
-- that was not sealed never does. Events go with their invocation.
CREATE TRIGGER invocations_kept BEFORE DELETE ON invocations WHEN NOT EXISTS (
  SELECT 1 FROM audit_seals s JOIN audit_checkpoints c ON c.organization_id = s.organization_id AND c.seq >= s.seq
  WHERE s.row_id = OLD.id AND s.kind = 'invocation' AND s.organization_id = OLD.organization_id)
BEGIN
  SELECT RAISE(ABORT, 'no checkpoint covers this invocation');
END;
CREATE TRIGGER invocation_events_update BEFORE UPDATE ON invocation_events BEGIN SELECT RAISE(ABORT, 'history does not change'); END;
CREATE TRIGGER invocation_events_delete BEFORE DELETE ON invocation_events WHEN EXISTS (SELECT 1 FROM invocations i WHERE i.id = OLD.invocation_id)
BEGIN
  SELECT RAISE(ABORT, 'history does not change');
END;
CREATE TRIGGER audit_seals_update BEFORE UPDATE ON audit_seals BEGIN SELECT RAISE(ABORT, 'history does not change'); END;
CREATE TRIGGER audit_seals_delete BEFORE DELETE ON audit_seals WHEN NOT EXISTS (
  SELECT 1 FROM audit_checkpoints c WHERE c.organization_id = OLD.organization_id AND c.seq >= OLD.seq)
BEGIN
  SELECT RAISE(ABORT, 'no checkpoint covers this seal');
END;

-- What REPLACE removes, no trigger of a removal sees. NEW.rowid is -1 where
-- none is given.
CREATE TRIGGER invocations_replaced BEFORE INSERT ON invocations
WHEN (SELECT completed_at FROM invocations WHERE id = NEW.id) IS NOT NULL OR (SELECT completed_at FROM invocations WHERE rowid = NEW.rowid) IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'a terminal invocation does not change');
END;
CREATE TRIGGER invocations_renamed BEFORE UPDATE OF id ON invocations WHEN NEW.id <> OLD.id
BEGIN
  SELECT RAISE(ABORT, 'the id of an invocation does not change');
END;
CREATE TRIGGER invocation_events_replaced BEFORE INSERT ON invocation_events
WHEN EXISTS (SELECT 1 FROM invocation_events WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM invocation_events WHERE rowid = NEW.rowid)
BEGIN
  SELECT RAISE(ABORT, 'history does not change');
END;
CREATE TRIGGER policy_events_replaced BEFORE INSERT ON policy_events
WHEN EXISTS (SELECT 1 FROM policy_events WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM policy_events WHERE rowid = NEW.rowid)
BEGIN
  SELECT RAISE(ABORT, 'history does not change');
END;
CREATE TRIGGER audit_seals_replaced BEFORE INSERT ON audit_seals
WHEN EXISTS (SELECT 1 FROM audit_seals WHERE organization_id = NEW.organization_id AND seq = NEW.seq)
  OR EXISTS (SELECT 1 FROM audit_seals WHERE row_id = NEW.row_id AND kind = NEW.kind)
BEGIN
  SELECT RAISE(ABORT, 'history does not change');
END;

-- What goes with an invocation is found by it.
CREATE INDEX invocation_events_invocation ON invocation_events (invocation_id);
