-- The version of MCP that a connector is pinned to; NULL: as agreed with the server.
ALTER TABLE connectors ADD COLUMN protocol TEXT CHECK (length(protocol) = 10);
