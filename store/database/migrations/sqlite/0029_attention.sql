-- Runs that a person has to look at: left to a person, or failed, until somebody acts.
-- Each time a run comes to need somebody has an ID of its own, so that people are
-- notified of each once. Failures of before are not raised.
ALTER TABLE runs ADD COLUMN attention_id TEXT CHECK (attention_id IS NULL OR attention_id <> '' AND status IN ('needs_human', 'failed'));

UPDATE runs SET attention_id = lower(hex(randomblob(18))) WHERE status = 'needs_human' AND claim_id IS NULL;

CREATE UNIQUE INDEX runs_attention ON runs (attention_id) WHERE attention_id IS NOT NULL;
CREATE INDEX runs_attention_list ON runs (organization_id, created_at, id) WHERE attention_id IS NOT NULL;
CREATE INDEX runs_attention_age ON runs (completed_at) WHERE attention_id IS NOT NULL AND completed_at IS NOT NULL;
