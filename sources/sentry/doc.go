// Package sentry implements the Sentry module, hosted or self-hosted: reading
// issues and events, and updating issues.
//
// Results are compact and bounded, with a marker (`_truncated`) where something
// is dropped. Frames, exceptions and breadcrumbs are newest first, so that
// truncation drops the oldest. Nothing is cached.
//
// Webhook headers are not signed, so the body must match the resource in the
// header. Keys of events derive from IDs in the body, or else from the whole
// body, because a retry can have another Request-ID; two identical updates of
// an issue are therefore one event. A delivery identifies the installation by
// its UUID and not the organization of an integration, so the secret that
// verifies selects the integration. Issue webhooks have no stack trace, so the
// module fetches that of the latest event. Variables, headers and users are
// dropped.
package sentry
