package store_test

import (
	"bytes"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store"
)

// TestSealAndRetainAfterLostConnection breaks the connection as links are
// written, and as retention removes some: they are there, or gone, once.
func TestSealAndRetainAfterLostConnection(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	for how, moment := range map[cut]string{beforeIt: "before", afterIt: "after", withIt: "with"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, migrated(t))
			l := newLostWorld(t, p.url)
			if _, err := l.Deny(t.Context(), l.v); err != nil {
				t.Fatal(err)
			}
			sound := func(links int64) {
				t.Helper()
				r, err := l.VerifyAudit(t.Context(), store.DefaultOrganization, key, nil)
				if err != nil || !r.OK || r.Unsealed != 0 || r.Checked != links {
					t.Errorf("the report is %+v, %v", r, err)
				}
			}
			p.cutAt("commit\x00", how, 0)
			if _, err := l.Seal(t.Context(), key, 10); err != nil || p.happened() != 1 {
				t.Fatalf("cut %d times, %v", p.happened(), err)
			}
			sound(1)
			p.cutAt("commit\x00", how, 0)
			if _, err := l.Retain(t.Context(), store.DefaultOrganization, time.Now().Add(time.Minute), key, 10); err != nil || p.happened() != 1 {
				t.Fatalf("cut %d times, %v", p.happened(), err)
			}
			sound(0)
			if err := l.rows(0, action.StatusDenied); err != nil {
				t.Error(err)
			}
		})
	}
}
