package action

// gatewayErrors are errors of the gateway itself, its database and its keys.
func gatewayErrors() Area {
	const keys = "[Replacing the master key](instances.md#replacing-the-master-key)."
	return Area{"The gateway, its database and keys", []Declaration{
		{"internal", nil, "", "", "The gateway log has the cause. Include it when you report the error."},
		{"not_ready", ErrNotReady, "This instance cannot serve calls at the moment. Its log shows the cause.", "", "`/readyz` shows more."},
		{"shutting_down", ErrNotReady, "", "", "Repeat the same request in a few seconds: it joins a call that is still open."},
		{codeDatabaseUnavailable, ErrNotReady, "The gateway cannot reach its database at the moment. Try again in a few seconds.", "", "You can repeat the same call with the same params: it joins the first one and never runs twice."},
		{"unavailable", ErrUnavailable, "The session of this idempotency key was deleted during the request. Try again.", "", ""},
		{"key_differs", ErrConflict, "This database uses another %s key. Set the same SALLYPORT_%s_KEY on every instance, or restore the old key file.", "", ""},
		{"master_key_not_replaced", ErrConflict, "The key in SALLYPORT_MASTER_KEY is the current one, so nothing was replaced. Swap the keys on every instance: the new one in SALLYPORT_MASTER_KEY, this one in SALLYPORT_OLD_MASTER_KEYS. Restart the instances one by one and run this again; see Keys in docs/instances.md.", "", keys},
		{"master_key_in_file", ErrConflict, "The database may be shared, and a key file belongs to one machine. Set SALLYPORT_MASTER_KEY of every instance to the key of %s, restart, and rotate as described under Keys in docs/instances.md.", "", keys},
		{"old_master_keys_missing", ErrConflict, "The master key comes from SALLYPORT_MASTER_KEY, so only you can set another. Generate one (openssl rand -hex 32), set it there and the old one in SALLYPORT_OLD_MASTER_KEYS, restart, and run this again. With several instances every one must know both keys first; see Keys in docs/instances.md.", "", keys},
		{"rotation_running", ErrConflict, "A rotation is in progress. Try again in a minute.", "", ""},
		{"vault_key_not_found", ErrNotFound, "Key %q not found. Store one first.", "", "A derived key is missing from the database. Restore a backup."},
		{"signal_too_large", ErrTooLarge, "A signal can have at most %d bytes. Send less.", "", "This is a bug; report it with the log."},
	}, ""}
}
