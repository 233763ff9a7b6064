package action

// signInErrors are errors of credentials, of signing in, and of sessions.
func signInErrors() Area {
	return Area{"Credentials, sign-in and sessions", []Declaration{
		{"unauthenticated", ErrUnauthenticated, "Authentication required: send a session token or an API key as Authorization: Bearer, or sign in with a browser.", "", ""},
		{"invalid_token", ErrUnauthenticated, "", "", "The token is incomplete, altered, or signed with another `SALLYPORT_TOKEN_KEY`. Copy all of it, or run `sallyport session create`."},
		{"invalid_api_key", ErrUnauthenticated, "Authentication failed: the API key is not valid. Keys start with %s and have %d characters. Copy the whole key, or create another.", "", "`sallyport api-key create NAME`."},
		{"key_expired", ErrUnauthenticated, "This API key has expired. Ask for another.", "", ""},
		{"key_revoked", ErrUnauthenticated, "This API key was revoked. Ask for another.", "", ""},
		{"unknown_session", ErrUnauthenticated, "This session no longer exists. Ask for a new session token.", "", ""},
		{"session_unknown", ErrUnauthenticated, "Session not found. Ask for a new session token.", "", ""},
		{"session_expired", ErrUnauthenticated, "This session has expired. Ask for a new session token.", "", ""},
		{"session_over", ErrConflict, "The session that requested the values has ended, so nobody can receive them. Nothing was stored.", "", ""},
		{CodePaused, ErrConflict, "A person paused this session: nothing was executed, and new calls are refused until an owner or admin resumes it. Pending calls stay pending, and you can still wait for them. Otherwise stop, tell the person, and do not retry on your own.", "", "`sallyport session resume ID`."},
		{CodeCompleted, ErrConflict, "The run of this session is complete, and the session accepts no more calls. Stop. A repeated completion gets the same answer again.", "", ""},
		{"session_lost", nil, "", "", "The run failed because its session was revoked. Check what was done, then run `sallyport run redrive ID`."},
		{"session_status", ErrConflict, "The session is %s. It can be %s, stopped or marked as failed.", "", ""},
		{"session_not_found", ErrNotFound, "Session not found.", "list sessions", ""},
		{"bad_user_token", ErrUnauthenticated, "The token of the host application is not valid: %s. Sign a new one.", "", "Compare the clocks of both machines, too."},
		{"subject_missing", ErrUnauthenticated, "The token does not identify a person: its claim sub must be a string of 1 to 255 characters.", "", ""},
		{"no_role", ErrForbidden, "The identity provider signed you in but gives you no role here. Ask the person who manages your groups, or ask the operator to map one with --oidc-role-map.", "", ""},
		{"person_removed", ErrForbidden, "An owner or admin removed you. Ask one to let you sign in again (People → Removed).", "", "`sallyport user readmit`."},
		{"role_from_elsewhere", ErrConflict, "The role of this person comes from %s and is updated at each sign-in. Change it there, or remove the person here.", "", ""},
		{"signs_in_elsewhere", ErrConflict, "This person signs in through %s, which decides whether they may; a sign-in link would bypass it. Add a local user instead.", "", ""},
		{"login_link_over", ErrUnauthenticated, "This sign-in link was used or has expired. Ask for a new one.", "", "A link works once, for ten minutes. Run `sallyport user login-link NAME`, or restart `serve`."},
		{"login_link_exists", ErrConflict, "This sign-in link was already used. Start again with another.", "", ""},
		{"login_expired", ErrUnauthenticated, "This sign-in has ended. Ask for a new sign-in link.", "", "See `--login-idle` and `--login-life`."},
		{"provider_away", ErrNotReady, "The identity provider is unreachable or not configured correctly. Try again in a minute; the gateway log has the cause. A one-time link still works.", "", ""},
		{"refused_there", ErrUnauthenticated, "The identity provider did not sign you in (%s). Try again, or ask its administrator.", "", ""},
		{"other_issuer", ErrUnauthenticated, "The answer came from a different identity provider. Sign in again.", "", ""},
		{"sign_in_failed", ErrUnauthenticated, "The answer of the identity provider could not be verified, so you are not signed in. Try again, or ask the operator to check the gateway log.", "", "A common cause is a wrong client ID or secret, or a wrong clock."},
		{"sign_in_not_found", ErrNotFound, "This sign-in is unknown or was already used. Connect again.", "", ""},
		{"callback_replayed", ErrUnauthenticated, "This sign-in was already used. Sign in again.", "", ""},
	}, "session_revoked session_ended other_session login_not_found too_many_attempts no_oidc sign_in_over"}
}

// permissionErrors are errors of a valid credential that may not do something.
func permissionErrors() Area {
	return Area{"Permissions", []Declaration{
		{"people_only", ErrForbidden, "A session token cannot do this; a person must decide. Wait for the outcome, or ask your user.", "", ""},
		{"session_only", ErrForbidden, "Only the session's own token can do this. People decide, agents call.", "", ""},
		{"scope_required", ErrForbidden, "This key is for workers: it can claim, renew and finish runs, nothing else.", "", ""},
		{"role_required", ErrForbidden, "", "", "Ask an owner or admin, or use an API key with their role."},
		{"operator_required", ErrForbidden, "The master key belongs to all organizations of this server. Only an owner of its first organization can replace it.", "", ""},
		{"host_only", ErrForbidden, "This is for tokens of a host application (--user-jwt-issuer). An owner or admin creates sign-in links for others.", "create sign-in link", ""},
		{"self_approval", ErrForbidden, "You created this session, and this organization does not let people approve calls of their own sessions. Ask another owner or admin.", "", ""},
		{"forbidden", ErrForbidden, "This operation is not allowed for anyone.", "", ""},
		{"foreign_origin", ErrForbidden, "", "", "A page of another origin sent the request. Open the gateway's own page; set `--public-url` if people use another name."},
		{"foreign_host", ErrForbidden, "This server does not accept this Host header. Open %s, or start it with --allow-host.", "", ""},
		{"page_key", ErrForbidden, "This browser can read but not change: the page key is missing or belongs to another sign-in. Sign in again with a new link.", "", ""},
	}, "owner_required last_owner"}
}
