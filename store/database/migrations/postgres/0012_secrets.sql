-- When a secret was last read to be sent, to within a minute.
ALTER TABLE secrets ADD COLUMN last_used_at TIMESTAMPTZ;
