package action

// policyErrors are errors of policy, grants, people and what they are told.
func policyErrors() Area {
	return Area{"Policy, grants and people", []Declaration{
		{"unknown_action", ErrInvalid, "", "", "`sallyport connector onboard NAME` lists a connector's tools."},
		{"no_such_source", nil, "", "list actions", ""},
		{"override_not_found", ErrNotFound, "No mode is set for %s.", "list modes", ""},
		{"quota_not_found", ErrNotFound, "No quota per %s is set for %s.", "list quotas", ""},
		{"capability_not_found", ErrNotFound, "The group %q has no capability at %q.", "list capabilities", ""},
		{"gate_not_found", ErrNotFound, "There is no such gate approval.", "list gates", ""},
		{"grant_not_found", ErrNotFound, "There is no such grant.", "list grants", ""},
		{"grant_request_not_found", ErrNotFound, "There is no such grant request.", "list grant requests", ""},
		{"is_grant_request", ErrNotFound, "%s is a grant request, not a pending call.", "decide grant request", ""},
		{"already_allowed", ErrConflict, "This action runs without asking as it is, so there is nothing to grant; just call it.", "", ""},
		{"too_many_grants", ErrTooMany, "There are already %d usable grants for this; revoke some of them, or replace them by one that pins less.", "", ""},
		{"tool_unreviewed", ErrConflict, "", "", "No grant is made for a tool that changed since its review. Review it (`sallyport connector review`), or pass `--unreviewed` on purpose."},
		{"user_not_found", ErrNotFound, "There is no such user.", "list users", ""},
		{"api_key_not_found", ErrNotFound, "There is no such API key.", "list API keys", ""},
		{"organization_not_found", ErrNotFound, "There is no such organization.", "", ""},
		{"notify_not_found", ErrNotFound, "Notifications by %s are not configured.", "set notification channel", ""},
		{"audit_broken", ErrConflict, "The evidence of organization %s does not hold at link %d: %s Nothing from there on is %s. Verify the audit log, and restore what was changed from a backup.", "", "Change nothing, run `sallyport audit verify`, and compare with a backup ([evidence](evidence.md))."},
	}, "invalid_key ambiguous_source invalid_grant request_expired too_many_requests user_exists"}
}
