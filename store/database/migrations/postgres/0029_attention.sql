-- The column of migrations/sqlite/0029_attention.sql.
ALTER TABLE runs ADD COLUMN attention_id TEXT COLLATE "C" CHECK (attention_id IS NULL OR attention_id <> '' AND status IN ('needs_human', 'failed'));

UPDATE runs SET attention_id = gen_random_uuid()::text WHERE status = 'needs_human' AND claim_id IS NULL;

CREATE UNIQUE INDEX runs_attention ON runs (attention_id) WHERE attention_id IS NOT NULL;
CREATE INDEX runs_attention_list ON runs (organization_id, created_at, id) WHERE attention_id IS NOT NULL;
CREATE INDEX runs_attention_age ON runs (completed_at) WHERE attention_id IS NOT NULL AND completed_at IS NOT NULL;
