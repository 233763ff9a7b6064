-- The group of sessions that are created without one; NULL: none.
ALTER TABLE organizations ADD COLUMN default_group TEXT CHECK (default_group <> '');
-- The group of an automation's sessions; NULL: the default group.
ALTER TABLE automations ADD COLUMN group_id TEXT CHECK (group_id <> '');
