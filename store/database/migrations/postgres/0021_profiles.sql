-- How the modes of a connector's tools were set as a whole, and what its preset proposes.
ALTER TABLE connectors ADD COLUMN profile TEXT CHECK (profile IN ('ask', 'strict', 'read-only', 'trust-hints'));
ALTER TABLE connectors ADD COLUMN preset_modes TEXT CHECK (preset_modes <> '{}'); -- a JSON object; NULL: none
-- Who chose the profile, until the first list of tools, to which it is then applied.
ALTER TABLE connectors ADD COLUMN profile_by TEXT CHECK (profile_by IS NULL OR profile_by <> '' AND profile IS NOT NULL);
