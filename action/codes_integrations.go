package action

// integrationErrors are errors of integrations and of the services behind them.
func integrationErrors() Area {
	return Area{"Integrations", []Declaration{
		{"integration_not_found", ErrNotFound, "There is no such integration.", "list integrations", "It may be private to another person."},
		{"integration_exists", ErrConflict, "This account is already connected with another visibility; disconnect that integration first.", "", ""},
		{"integration_unusable", ErrUnavailable, "The Slack integration cannot be used now; connect it again.", "", ""},
		{"credential_refused", ErrInvalid, "", "", "Copy the credential again; check its permissions and the base URL."},
		{"other_account", ErrConflict, "The credential belongs to another account, which is an integration of its own now; this one is unchanged.", "", ""},
		{"connection_claimed", ErrConflict, "Several organizations have integrations of this connection of Nango's, so its events are dropped; disconnect all but one.", "", ""},
		{"connection_not_found", ErrNotFound, "This browser began no such connection, or it has ended; connect again.", "", ""},
		{"connection_over", ErrGone, "This connection took too long; connect again.", "", ""},
		{"too_many_integrations", ErrTooMany, "An organization has at most %d integrations; disconnect one first.", "", ""},
		{"no_app", ErrInvalid, "", "set provider app", "The gateway is not registered at the service: `sallyport integration app set PROVIDER`."},
		{"provider_app_not_found", ErrNotFound, "The gateway is not registered at %s.", "list provider apps", ""},
		{"provider_app_in_use", ErrConflict, "%d integrations, private ones among them, get their tokens through this registration; disconnect them first.", "", ""},
		{"no_metadata", ErrNotFound, "There is no metadata of %s.", "", ""},
		{"no_module", ErrUnavailable, "This gateway does not know the provider %s.", "", "This instance is older than another one. Upgrade all instances."},
		{"module_failed", ErrOutcomeUnknown, "The gateway could not read the answer of %s; its log has the details.", "", "It may have happened: check at the service."},
		{"service_refused", ErrUnavailable, "%s refused: %s", "", "A service refused a poll. Check the integration."},
		{"no_organization", nil, "", "", "Sentry's token reaches no organization. Create one with `org:read`."},
		{"moved", nil, "", "", "The issue moved to another repository; nothing was changed. `get_issue` says where."},
		{"not_merged", nil, "", "", "GitHub did not merge. `get_pr` shows its `mergeable_state`."},
		{"not_done", nil, "", "", "The service accepted the request and did nothing. Check before you call again."},
		{"not_ours", nil, "", "", "The credential was created at the service; revoke it there."},
		{"not_revoked", nil, "", "", "The service did not revoke the credential. Remove the app there."},
		{"logs_not_offered", ErrForbidden, "The operator does not offer this gateway's logs to this organization; --logs-for %s does.", "", ""},
		{"too_much", nil, "", "", "The query read for too long. Ask for a shorter, more recent time."},
	}, "integration_moved invalid_integration invalid_settings too_many_connections no_such_provider several_organizations " +
		"organization_required other_organization repository_moved invalid_branch no_such_team unknown_service unknown_entry " +
		"too_many_queries too_large"}
}
