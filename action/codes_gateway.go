package action

// gatewayErrors are errors of the gateway itself, its database and its keys.
func gatewayErrors() Area {
	const keys = "[Replacing the master key](instances.md#replacing-the-master-key)."
	return Area{"The gateway, its database and keys", []Declaration{
		{"internal", nil, "", "", "The gateway's log has the cause. Report it with that."},
		{"not_ready", ErrNotReady, "This instance cannot serve calls just now; its log says why.", "", "`/readyz` says more."},
		{"shutting_down", ErrNotReady, "", "", "Repeat the same request in a few seconds: it joins a call that is still open."},
		{codeAway, ErrNotReady, "The gateway cannot reach its database at the moment; try again in a few seconds.", "", "The same call may be repeated with the same params: it is joined, never run twice."},
		{"unavailable", ErrUnavailable, "The session of this idempotency key was deleted at this moment; try again.", "", ""},
		{"key_differs", ErrConflict, "This database was written with another %s key: set the same SALLYPORT_%s_KEY on every instance, or restore the old key file.", "", ""},
		{"master_key_not_replaced", ErrConflict, "The key in SALLYPORT_MASTER_KEY is the current one; nothing was replaced. Swap the keys on every instance: the new one into SALLYPORT_MASTER_KEY, this one into SALLYPORT_OLD_MASTER_KEYS. Restart them one by one, and run this again; see Keys in docs/instances.md.", "", keys},
		{"master_key_in_file", ErrConflict, "The database may be shared, and a key file belongs to one machine: put the key of %s into SALLYPORT_MASTER_KEY of every instance, restart, and rotate as docs/instances.md says under Keys.", "", keys},
		{"old_master_keys_missing", ErrConflict, "The master key comes from SALLYPORT_MASTER_KEY, and only you can set another: make one (openssl rand -hex 32), put it there and the old one into SALLYPORT_OLD_MASTER_KEYS, restart, and run this again. With several instances every one must know both keys first; see Keys in docs/instances.md.", "", keys},
		{"rotation_running", ErrConflict, "A rotation is in progress; try again in a minute.", "", ""},
		{"vault_key_not_found", ErrNotFound, "There is no key %q; put one first.", "", "A derived key is missing from the database. Restore a backup."},
		{"signal_too_large", ErrTooLarge, "A signal carries at most %d bytes; send less.", "", "A bug; report it with the log."},
	}, ""}
}
