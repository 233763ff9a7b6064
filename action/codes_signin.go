package action

// signInErrors are errors of credentials, of signing in, and of sessions.
func signInErrors() Area {
	return Area{"Credentials, sign-in and sessions", []Declaration{
		{"unauthenticated", ErrUnauthenticated, "Authentication required: send a session token or an API key as Authorization: Bearer, or sign in with a browser.", "", ""},
		{"invalid_token", ErrUnauthenticated, "", "", "The token is incomplete, altered, or signed with another `SALLYPORT_TOKEN_KEY`. Copy all of it, or `sallyport session create`."},
		{"invalid_api_key", ErrUnauthenticated, "This is not an API key, or not all of it: keys begin with %s and have %d characters. Copy all of it, or create another key.", "", "`sallyport api-key create NAME`."},
		{"key_expired", ErrUnauthenticated, "This API key has expired; ask for another.", "", ""},
		{"key_revoked", ErrUnauthenticated, "This API key was revoked; ask for another.", "", ""},
		{"unknown_session", ErrUnauthenticated, "This session does not exist any more; ask for a new session token.", "", ""},
		{"session_unknown", ErrUnauthenticated, "There is no such session; ask for a new session token.", "", ""},
		{"session_expired", ErrUnauthenticated, "This session has expired; ask for a new session token.", "", ""},
		{"session_over", ErrConflict, "The session that asked has ended, so nobody can receive the values; nothing was kept.", "", ""},
		{CodePaused, ErrConflict, "A person paused this session: nothing was executed, and new calls are refused until an owner or admin resumes it. Pending calls stay pending, and you may still wait for them. Otherwise stop here, tell the person, and do not try again by yourself at once.", "", "`sallyport session resume ID`."},
		{CodeCompleted, ErrConflict, "The run of this session is done, and the session does nothing more; stop. A repeated completion gets the same answer again.", "", ""},
		{"session_lost", nil, "", "", "A run failed because its session was revoked. Check what was done, then `sallyport run redrive ID`."},
		{"session_status", ErrConflict, "The session is %s; it can be %s, stopped or marked as failed.", "", ""},
		{"session_not_found", ErrNotFound, "There is no such session.", "list sessions", ""},
		{"bad_user_token", ErrUnauthenticated, "The host application's token is not valid: %s. Have it sign a new one.", "", "Compare the clocks of both machines, too."},
		{"subject_missing", ErrUnauthenticated, "The token does not say who it is for: its claim sub must be a text of 1 to 255 characters.", "", ""},
		{"no_role", ErrForbidden, "The provider knows you, but gives you no role here; ask whoever manages your groups there, or have the operator map one with --oidc-role-map.", "", ""},
		{"person_removed", ErrForbidden, "An owner or admin has removed you here; ask one to let you in again (People → Removed).", "", "`sallyport user readmit`."},
		{"role_from_elsewhere", ErrConflict, "This person's role comes from %s and follows it at each sign-in; change it there, or remove the person here.", "", ""},
		{"signs_in_elsewhere", ErrConflict, "This person signs in through %s, which decides whether they may; a sign-in link would bypass it. Add a local user instead.", "", ""},
		{"login_link_over", ErrUnauthenticated, "This sign-in link was used or has expired; ask for a new one.", "", "A link works once, for ten minutes: `sallyport user login-link NAME`, or restart `serve`."},
		{"login_link_exists", ErrConflict, "This sign-in link was already used; start again with another.", "", ""},
		{"login_expired", ErrUnauthenticated, "This sign-in has ended; ask for a new sign-in link.", "", "See `--login-idle` and `--login-life`."},
		{"provider_away", ErrNotReady, "The identity provider cannot be reached just now, or is not set up right; try again in a minute. The gateway's log says why. A one-time link still works.", "", ""},
		{"refused_there", ErrUnauthenticated, "The identity provider did not sign you in (%s); try again, or ask whoever runs it.", "", ""},
		{"other_issuer", ErrUnauthenticated, "The answer came from another identity provider than the one asked; sign in again.", "", ""},
		{"sign_in_failed", ErrUnauthenticated, "The identity provider's answer could not be verified, so you are not signed in; try again, or have the operator look into the gateway's log.", "", "Often a wrong client id or secret, or a wrong clock."},
		{"sign_in_not_found", ErrNotFound, "This sign-in is unknown or was already used; connect again.", "", ""},
		{"callback_replayed", ErrUnauthenticated, "This sign-in was already used; sign in again.", "", ""},
	}, "session_revoked session_ended other_session login_not_found too_many_attempts no_oidc sign_in_over"}
}

// permissionErrors are errors of a valid credential that may not do something.
func permissionErrors() Area {
	return Area{"Permissions", []Declaration{
		{"people_only", ErrForbidden, "A session token may not do this. A person decides here: wait for the outcome, or ask your user.", "", ""},
		{"session_only", ErrForbidden, "Only the session's own token may do this; people decide, agents call.", "", ""},
		{"scope_required", ErrForbidden, "This key is for workers: it claims, renews and finishes runs, and does nothing else.", "", ""},
		{"role_required", ErrForbidden, "", "", "Ask an owner or admin, or use an API key with their role."},
		{"operator_required", ErrForbidden, "The master key belongs to all organizations of this server; an owner of its first organization replaces it.", "", ""},
		{"host_only", ErrForbidden, "This is for tokens of a host application (--user-jwt-issuer). An owner or admin creates sign-in links for others.", "create sign-in link", ""},
		{"self_approval", ErrForbidden, "You created this session, and this organization does not let people approve calls of their own sessions; ask another owner or admin.", "", ""},
		{"forbidden", ErrForbidden, "Nobody may do this.", "", ""},
		{"foreign_origin", ErrForbidden, "", "", "A page of another origin sent the request. Open the gateway's own page; set `--public-url` if people use another name."},
		{"foreign_host", ErrForbidden, "This server does not answer to that Host; open %s, or start it with --allow-host.", "", ""},
		{"page_key", ErrForbidden, "This browser may read but not change: the page's key is missing or belongs to another sign-in. Sign in again with a new link.", "", ""},
	}, "owner_required last_owner"}
}
