package action

// integrationErrors are errors of integrations and of the services behind them.
func integrationErrors() Area {
	return Area{"Integrations", []Declaration{
		{"integration_not_found", ErrNotFound, "Integration not found.", "list integrations", "It may be private to another person."},
		{"integration_exists", ErrConflict, "This account is already connected with another visibility. Disconnect that integration first.", "", ""},
		{"integration_unusable", ErrUnavailable, "The Slack integration cannot be used at the moment. Connect it again.", "", ""},
		{"credential_refused", ErrInvalid, "", "", "Copy the credential again. Check its permissions and the base URL."},
		{"other_account", ErrConflict, "The credential belongs to another account, which now has its own integration. This integration is unchanged.", "", ""},
		{"connection_claimed", ErrConflict, "Several organizations use this Nango connection, so its events are dropped. Disconnect all but one.", "", ""},
		{"connection_not_found", ErrNotFound, "This browser did not start this connection, or the connection has ended. Connect again.", "", ""},
		{"connection_over", ErrGone, "The connection took too long. Connect again.", "", ""},
		{"too_many_integrations", ErrTooMany, "An organization can have at most %d integrations. Disconnect one first.", "", ""},
		{"no_app", ErrInvalid, "", "set provider app", "The gateway is not registered at the service. Run `sallyport integration app set PROVIDER`."},
		{"provider_app_not_found", ErrNotFound, "The gateway is not registered at %s.", "list provider apps", ""},
		{"provider_app_in_use", ErrConflict, "%d integrations, private ones included, get their tokens through this registration. Disconnect them first.", "", ""},
		{"no_metadata", ErrNotFound, "No metadata for %s.", "", ""},
		{"no_module", ErrUnavailable, "This gateway does not support the provider %s.", "", "This instance is older than another one. Upgrade all instances."},
		{"module_failed", ErrOutcomeUnknown, "The gateway could not read the answer of %s. Its log has the details.", "", "The call may have happened. Check at the service."},
		{"service_refused", ErrUnavailable, "%s rejected the request: %s", "", "A service rejected a poll. Check the integration."},
		{"no_organization", nil, "", "", "The Sentry token has no organization. Create one with `org:read`."},
		{"moved", nil, "", "", "The issue moved to another repository; nothing was changed. `get_issue` shows where."},
		{"not_merged", nil, "", "", "GitHub did not merge. `get_pr` shows its `mergeable_state`."},
		{"not_done", nil, "", "", "The service accepted the request and did nothing. Check before you call again."},
		{"not_ours", nil, "", "", "The credential was created at the service. Revoke it there."},
		{"not_revoked", nil, "", "", "The service did not revoke the credential. Remove the app there."},
		{"logs_not_offered", ErrForbidden, "The operator does not offer the logs of this gateway to this organization; --logs-for %s does.", "", ""},
		{"too_much", nil, "", "", "The query took too long. Request a shorter or more recent time range."},
	}, "integration_moved invalid_integration invalid_settings too_many_connections no_such_provider several_organizations " +
		"organization_required other_organization repository_moved invalid_branch no_such_team unknown_service unknown_entry " +
		"too_many_queries too_large"}
}
