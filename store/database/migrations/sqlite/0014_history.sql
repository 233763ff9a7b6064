-- The history of policy by who made it.
CREATE INDEX policy_events_by ON policy_events (organization_id, by, at, id);
