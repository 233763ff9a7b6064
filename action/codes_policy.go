package action

// policyErrors are errors of policy, grants, people and notifications.
func policyErrors() Area {
	return Area{"Policy, grants and people", []Declaration{
		{"unknown_action", ErrInvalid, "", "", "`sallyport connector onboard NAME` lists the tools of a connector."},
		{"no_such_source", nil, "", "list actions", ""},
		{"override_not_found", ErrNotFound, "No mode is set for %s.", "list modes", ""},
		{"quota_not_found", ErrNotFound, "No quota per %s is set for %s.", "list quotas", ""},
		{"capability_not_found", ErrNotFound, "Group %q has no capability at %q.", "list capabilities", ""},
		{"gate_not_found", ErrNotFound, "Gate approval not found.", "list gates", ""},
		{"grant_not_found", ErrNotFound, "Grant not found.", "list grants", ""},
		{"grant_request_not_found", ErrNotFound, "Grant request not found.", "list grant requests", ""},
		{"is_grant_request", ErrNotFound, "%s is a grant request, not a pending call.", "decide grant request", ""},
		{"already_allowed", ErrConflict, "This action already runs without approval and needs no grant. Call it.", "", ""},
		{"too_many_grants", ErrTooMany, "There are already %d usable grants for this action. Revoke some, or replace them with one that pins fewer params.", "", ""},
		{"tool_unreviewed", ErrConflict, "", "", "The tool changed since its review, so it cannot get a grant. Review it (`sallyport connector review`), or pass `--unreviewed`."},
		{"user_not_found", ErrNotFound, "User not found.", "list users", ""},
		{"api_key_not_found", ErrNotFound, "API key not found.", "list API keys", ""},
		{"organization_not_found", ErrNotFound, "Organization not found.", "", ""},
		{"notify_not_found", ErrNotFound, "Notifications by %s are not configured.", "set notification channel", ""},
		{"audit_broken", ErrConflict, "The audit log of organization %s is broken at link %d: %s Nothing after that link is %s. Verify the audit log, and restore the changed records from a backup.", "", "Change nothing, run `sallyport audit verify`, and compare with a backup ([audit log](evidence.md))."},
	}, "invalid_key ambiguous_source invalid_grant request_expired too_many_requests user_exists"}
}
