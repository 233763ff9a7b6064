package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// TestHotQueriesUseTheirIndex reads the database's plans: what is asked often
// must not grow with the rows at rest.
func TestHotQueriesUseTheirIndex(t *testing.T) {
	db := openAt(t, newPath(t))
	rules := action.SweepRules{Now: time.Now(), SeenBefore: time.Now(), ApprovedBefore: time.Now(), Limit: 100}
	alone := rules
	alone.Alone = "me"
	after := cursor{at(time.Now()), "id"}
	list := func(f Filter) string {
		f.Organization = "o"
		return f.find(db.read, after, 50).Column(shown...).String()
	}
	count := func(f Filter) string {
		f.Organization = "o"
		return f.match(db.read.NewSelect().Table("invocations")).String()
	}
	type row struct {
		name, sql string
		want      []string // each must stand in the plan
	}
	tests := []row{
		{"load", loadSQL, []string{"SEARCH invocations USING INDEX sqlite_autoindex_invocations_1 (id=?)"}},
		{"begin", checkSQL, []string{
			"SEARCH s USING INDEX sqlite_autoindex_sessions_2 (organization_id=? AND id=?)",
			"SEARCH k USING PRIMARY KEY (organization_id=? AND session_id=? AND source_id=? AND action=? AND key=?)",
			"invocations_open (organization_id=? AND session_id=? AND source_id=? AND action=? AND params_hash=?)",
			"invocations_undelivered (organization_id=? AND session_id=? AND source_id=? AND action=? AND params_hash=? AND pickup_until>?)",
			"invocations_refused (organization_id=? AND session_id=? AND source_id=? AND action=? AND params_hash=? AND completed_at>?)",
			"invocations_pending (organization_id=? AND session_id=? AND expires_at>?)",
		}},
		{"finish", finishSQL, []string{"USING INDEX sqlite_autoindex_invocations_1 (id=?)"}},
		{"delivered", deliveredSQL, []string{"USING INDEX sqlite_autoindex_invocations_1 (id=?)"}},
		{"claim", strings.ReplaceAll(claimSQL, "RETURNING ?", "RETURNING id"), []string{"USING INDEX sqlite_autoindex_invocations_1 (id=?)"}},
		{"seen", db.read.NewRaw(seenSQL, "t", bun.List([]string{"a", "b"}), "t").String(), []string{"USING INDEX sqlite_autoindex_invocations_1 (id=?)"}},
		{"policy", overridesSQL, []string{"SEARCH p USING PRIMARY KEY (organization_id=?)"}},
		{"events", "SELECT * FROM invocation_events WHERE organization_id = 'o' AND invocation_id = 'i' ORDER BY at, id", []string{"invocation_events_list (organization_id=? AND invocation_id=?)"}},
		{"list", list(Filter{}), []string{"invocations_list (organization_id=? AND (created_at,id)<(?,?))"}},
		{"list of a session", list(Filter{Session: "s"}), []string{"invocations_session (organization_id=? AND session_id=? AND (created_at,id)<(?,?))"}},
		{"list of a session by status", list(Filter{Session: "s", Statuses: []action.Status{"completed"}}), []string{"invocations_session (organization_id=? AND session_id=? AND (created_at,id)<(?,?))"}},
		{"inbox", list(Filter{Statuses: []action.Status{"pending"}}), []string{"invocations_inbox (organization_id=? AND status=? AND (created_at,id)<(?,?))"}},
		{"count", count(Filter{}), []string{"invocations_list (organization_id=?)"}},
		{"count of the inbox", count(Filter{Statuses: []action.Status{"pending", "approved"}}), []string{"invocations_inbox (organization_id=? AND status=?)"}},
		{"count of a session", count(Filter{Session: "s", Statuses: []action.Status{"pending"}}), []string{"invocations_session (organization_id=? AND session_id=?)"}},
		{"unclaimed", unclaimed(db.read, time.Now(), 10).String(), []string{"invocations_unclaimed (approved_at<?)"}},
		{"old keys", staleKeys(db.read.NewSelect(), rules, 10).String(), []string{"idempotency_keys_age (created_at<?)", "sqlite_autoindex_invocations_1 (id=?)"}},
		{"login", "SELECT * FROM logins WHERE cookie_hash = 'x'", []string{"SEARCH logins USING INDEX sqlite_autoindex_logins"}},
	}
	for _, r := range []action.SweepRules{rules, alone} {
		for _, s := range sweeps(r) {
			index := map[string]string{
				"expired": "invocations_expiry (expires_at<?)", "withdrawn": "invocations_silent (waiter_seen_at<?)",
				"unclaimed": "invocations_unclaimed (approved_at<?)", "lost": "invocations_lease", "sealed": "invocations_sealed (pickup_until<?)",
			}[s.what]
			tests = append(tests,
				row{"look for " + s.what, s.overdue(db.read.NewSelect(), 1).String(), []string{index}},
				row{"sweep " + s.what, s.update(db.read, 100).String(), []string{index, "sqlite_autoindex_invocations_1 (id=?)"}},
			)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := explain(t, db, tt.sql)
			for _, want := range tt.want {
				if !strings.Contains(plan, want) {
					t.Errorf("no %s in the plan", want)
				}
			}
			for _, bad := range []string{"SCAN invocations\n", "SCAN i\n", "TEMP B-TREE"} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s in the plan", strings.TrimSpace(bad))
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", tt.sql, plan)
			}
		})
	}
	t.Run("several statuses", func(t *testing.T) {
		plan := explain(t, db, list(Filter{Statuses: []action.Status{"pending", "completed"}}))
		if strings.Count(plan, "invocations_inbox (organization_id=? AND status=? AND (created_at,id)<(?,?))") != 2 {
			t.Errorf("each status should be looked up in order:\n%s", plan)
		}
	})
}

func explain(t *testing.T, db *DB, query string) string {
	t.Helper()
	nothing := make([]any, 40) // for the placeholders
	rows, err := db.write.db.DB.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+query, nothing...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
