package sentry

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// responseError converts an unsuccessful response to an error.
func responseError(r *outbound.Response, a request) error {
	if r.Status >= 500 {
		return action.Errorf(action.ErrOutcomeUnknown, sources.FaultFailed,
			"Sentry failed by itself (HTTP %d). Try again later; read an issue before you repeat a change of it.", r.Status)
	}
	code, text, fields := parseError(r.Body)
	refusal := &sources.Refusal{Code: code, Status: r.Status, Detail: text}
	switch {
	case r.Status == http.StatusUnauthorized && strings.HasSuffix(code, "-required"):
		// sso-required, sudo-required, 2fa-required: the credential is valid.
		refusal.Message = "Sentry wants its user to sign in there in another way first; have an admin connect Sentry with a token of an internal integration."
	case r.Status == http.StatusUnauthorized:
		refusal.Credential = true
		refusal.Message = "Sentry does not take the credential of this connection any more; have an admin connect Sentry again."
	case r.Status == http.StatusForbidden:
		refusal.Message = fmt.Sprintf("The credential of this connection may not do that: it lacks the scope %s, or access to the project; have an admin connect Sentry with it.", a.scope)
	case r.Status == http.StatusNotFound:
		refusal.Message = a.missing
	case r.Status >= 300 && r.Status < 400:
		refusal.Message = "Sentry sends this elsewhere; have an admin set the base URL of the connection to the organization's region, such as https://de.sentry.io."
	case len(fields) > 0:
		refusal.Message = fmt.Sprintf("Sentry does not take what is in %s; correct it and call again.", strings.Join(fields, " and "))
	case a.query.Has("query"):
		refusal.Message = fmt.Sprintf("Sentry refuses this (HTTP %d); check query, which must be in Sentry's search syntax, and the other params.", r.Status)
	default:
		refusal.Message = fmt.Sprintf("Sentry refuses this (HTTP %d); check the params.", r.Status)
	}
	return refusal
}

// parseError returns the code and the text of an error, bounded and printable,
// and the params it concerns. Sentry sends {"detail": "text"}, {"detail":
// {"code", "message"}}, a bare string, or an object of invalid fields. The text
// can hold user content and is for people only.
func parseError(body []byte) (code, text string, params []string) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return "", "", nil
	}
	if fields, ok := v.(object); ok {
		if v, ok = fields["detail"]; !ok {
			return "", sources.Printable(string(body), maxErrorText), paramNames(fields)
		}
	}
	switch v := v.(type) {
	case string:
		text = v
	case object:
		code, _ = v["code"].(string)
		text, _ = v["message"].(string)
	}
	return sources.ValidID(code), sources.Printable(text, maxErrorText), nil
}

const maxErrorText = 300

// paramNames returns the params that correspond to the fields.
func paramNames(fields object) (params []string) {
	known := map[string]string{
		"query": "query", "sort": "sort", "statsPeriod": "statsPeriod", "environment": "environment",
		"project": "project_slug", "cursor": "cursor", "limit": "limit", "per_page": "limit",
	}
	for _, name := range mutableParams {
		known[name] = name
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if name, ok := known[field]; ok {
			params = append(params, name)
		}
	}
	return params
}
