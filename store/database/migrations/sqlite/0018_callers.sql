-- What callers can be asked who left with a held call and come back for it by
-- themselves, as the clients of tasks do: its source is told when it runs.
CREATE TABLE returning_callers (
  invocation_id TEXT    NOT NULL PRIMARY KEY REFERENCES invocations (id) ON DELETE CASCADE,
  can           INTEGER NOT NULL CHECK (can BETWEEN 1 AND 65535) -- bits of action.ClientFeatures
) STRICT, WITHOUT ROWID;
