-- The table of migrations/sqlite/0018_callers.sql.

CREATE TABLE returning_callers (
  invocation_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES invocations (id) ON DELETE CASCADE,
  can           INTEGER          NOT NULL CHECK (can BETWEEN 1 AND 65535) -- bits of action.ClientFeatures
);
