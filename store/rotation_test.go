package store

import (
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// What goes on after it was stopped stands in the history once, and what goes
// back to an earlier key stands there again.
func TestRecordRotation(t *testing.T) {
	resealOnBoth(t, func(t *testing.T, db *DB, _ *sql.DB) {
		const a, b = "72cd6e8422c407fb", "75877bb41d393b5f"
		if last, err := db.LastRotation(t.Context(), "default"); last.KeyID != "" || err != nil {
			t.Errorf("at first: %+v, %v", last, err)
		}
		first := Rotation{Organization: "default", KeyID: b, Old: []string{a}, By: "olga"}
		again := Rotation{Organization: "default", KeyID: b, Old: []string{a}, By: "gateway"}
		back := Rotation{Organization: "default", KeyID: a, Old: []string{b}, By: "otto"}
		for _, r := range []Rotation{first, again, back, first} {
			if err := db.RecordRotation(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		last, err := db.LastRotation(t.Context(), "default")
		if diff := cmp.Diff(first, last); diff != "" || err != nil {
			t.Errorf("the last one (-want +got), %v:\n%s", err, diff)
		}
		page, err := db.PolicyEvents(t.Context(), action.PolicyEventFilter{Organization: "default", Kind: action.EventMasterKey})
		if err != nil || len(page.Items) != 3 {
			t.Fatalf("%d are on record, %v", len(page.Items), err)
		}
		e := page.Items[0]
		if e.Subject != b || e.By != "olga" || string(e.Before) != `{"key_ids":["`+a+`"]}` || string(e.After) != `{"key_id":"`+b+`"}` {
			t.Errorf("got %+v, before %s, after %s", e, e.Before, e.After)
		}
	})
}
