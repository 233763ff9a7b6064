package store

import (
	"database/sql"
	"regexp"
	"slices"
	"testing"
)

func TestInboundConstraints(t *testing.T) {
	onBoth(t, impossibleInbound)
}

// inboundRows are of an automation a and of session s of [seed].
var inboundRows = []string{
	`INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at) VALUES ('default', 'a', 'A', TRUE, '', 'me', 'T', 'T')`,
	`INSERT INTO triggers (id, organization_id, automation_id, name, kind, provider, type, enabled, config, created_by, created_at, updated_at)
	  VALUES ('t', 'default', 'a', 't', 'webhook', 'github', 'issue', TRUE, '{}', 'me', 'T', 'T')`,
	`INSERT INTO schedules (id, organization_id, automation_id, name, cron, time_zone, enabled, missed, next_at, created_by, created_at, updated_at)
	  VALUES ('c', 'default', 'a', 'c', '0 7 * * *', 'UTC', TRUE, 'once', 'T', 'me', 'T', 'T')`,
	`INSERT INTO inbox (id, organization_id, endpoint, provider, dedup_key, size, status, attempt, next_at, received_at, sealed)
	  VALUES ('d', 'default', 'direct/github', 'github', 'k', 1, 'queued', 0, 'T', 'T', BYTES)`,
	`INSERT INTO inbox (id, organization_id, endpoint, provider, dedup_key, size, status, attempt, next_at, received_at, processed_at)
	  VALUES ('done', 'default', 'direct/github', 'github', 'other', 1, 'completed', 1, 'T', 'T', 'T')`,
	`INSERT INTO events (id, organization_id, trigger_id, automation_id, provider, type, dedup_key, title, created_at)
	  VALUES ('e', 'default', 't', 'a', 'github', 'issue', 'k', 'n', 'T')`,
	`INSERT INTO events (id, organization_id, trigger_id, automation_id, provider, type, dedup_key, title, created_at)
	  VALUES ('f', 'default', 't', 'a', 'github', 'issue', 'other', 'n', 'T')`,
	`INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at) VALUES ('r', 'default', 'a', 'e', 't', 'queued', 0, 'T')`,
	`INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at) VALUES ('q', 'default', 'a', 'f', 't', 'queued', 0, 'T')`,
	`INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at) VALUES ('p', 'default', 'r', 'pending', 0, 'T', 'T')`,
	`INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at) VALUES ('o', 'default', 'q', 'pending', 0, 'T', 'T')`,
	`INSERT INTO poll_groups (id, organization_id, provider, integration_id, poll_seconds, next_at, failures, turn) VALUES ('g', 'default', 'linear', 'i', 60, 'T', 0, 0)`,
}

func impossibleInbound(t *testing.T, raw *sql.DB) {
	seed(t, raw)
	for _, text := range inboundRows {
		if err := change(t, raw, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	refusal := regexp.MustCompile("constraint failed|violates")
	const claimed = "claim_id = 'c', session_id = 's', deadline = created_at"
	for name, text := range map[string]string{
		"polling nothing":                   "triggers SET kind = 'polling', poll_seconds = 60",
		"polling at no time":                "triggers SET kind = 'polling', integration_id = 'i'",
		"a webhook that polls":              "triggers SET poll_seconds = 60",
		"a config that is no object":        "triggers SET config = '[]'",
		"a trigger of nothing":              "triggers SET automation_id = 'b'",
		"a disabled schedule that is due":   "schedules SET enabled = FALSE",
		"another way to miss":               "schedules SET missed = 'all'",
		"a delivery twice":                  "inbox SET dedup_key = 'other' WHERE id = 'd'",
		"worked off by nobody":              "inbox SET status = 'processing' WHERE id = 'd'",
		"held for ever":                     "inbox SET status = 'processing', holder = 'w' WHERE id = 'd'",
		"held while it waits":               "inbox SET holder = 'w', lease_until = next_at WHERE id = 'd'",
		"ended at no time":                  "inbox SET status = 'completed', sealed = NULL WHERE id = 'd'",
		"a payload of what is completed":    "inbox SET sealed = BYTES WHERE id = 'done'",
		"waiting without a payload":         "inbox SET sealed = NULL WHERE id = 'd'",
		"an event twice":                    "events SET dedup_key = 'k' WHERE id = 'f'",
		"skipped for no reason":             "events SET skip_reason = '' WHERE id = 'f'",
		"two runs of an event":              "runs SET event_id = 'e' WHERE id = 'q'",
		"a run of no event":                 "runs SET event_id = 'x' WHERE id = 'q'",
		"worked on by nobody":               "runs SET status = 'running' WHERE id = 'r'",
		"claimed without a session":         "runs SET status = 'claimed', claim_id = 'c', deadline = created_at WHERE id = 'r'",
		"claimed for ever":                  "runs SET status = 'claimed', claim_id = 'c', session_id = 's' WHERE id = 'r'",
		"claimed while it waits":            "runs SET " + claimed + " WHERE id = 'r'",
		"a run that ended at no time":       "runs SET status = 'failed' WHERE id = 'r'",
		"a run that ended and goes on":      "runs SET completed_at = created_at WHERE id = 'r'",
		"one session for two":               "runs SET status = 'running', " + claimed,
		"sent by nobody":                    "outbox SET status = 'sending' WHERE id = 'p'",
		"delivered at no time":              "outbox SET status = 'delivered' WHERE id = 'p'",
		"two deliveries of a run under way": "outbox SET run_id = 'r' WHERE id = 'o'",
		"a group that is held for ever":     "poll_groups SET holder = 'w'",
		"a broker half trusted":             "organizations SET unverified_events = 2",
	} {
		if err := change(t, raw, "UPDATE "+text); err == nil || !refusal.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{
		"UPDATE runs SET status = 'running', " + claimed + " WHERE id = 'r'",
		"UPDATE inbox SET status = 'processing', holder = 'w', lease_until = next_at WHERE id = 'd'",
		"DELETE FROM automations",
	} {
		if err := change(t, raw, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	var left []string
	for _, table := range []string{"triggers", "schedules", "events"} {
		var n int
		if err := raw.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			left = append(left, table)
		}
	}
	if !slices.Equal(left, []string{"events"}) { // history stays
		t.Errorf("what is left of a deleted automation: %v", left)
	}
}
