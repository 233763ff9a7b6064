package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"sallyport/action"
)

// slowCommits has every commit that writes a call whose params say "slow" take
// a while, as on a server that waits for its disk or its standby.
const slowCommits = `
CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slowly AFTER INSERT OR UPDATE OF status ON open_calls DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.params LIKE '%slow%') EXECUTE FUNCTION slowly();
CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON invocations DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.params LIKE '%slow%') EXECUTE FUNCTION slowly()`

// raw is a way to the database past the store.
func raw(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func change(t *testing.T, url, text string) {
	t.Helper()
	if _, err := raw(t, url).ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// executing is a write that runs at once, whether or not it joins others.
func (l *lostWorld) executing(joins bool) *action.Draft {
	d := crashDraft(l.s, `{"slow":1}`)
	d.Joins = joins
	return d
}

// slowCases begin with a held call whose commits are slow, too.
var slowCases = map[string]lostCase{
	"a held call begins":               {cut: "commit\x00", do: func(l *lostWorld) error { return l.fresh(l.held(`{"slow":1}`)) }},
	"a write begins":                   {cut: "commit\x00", do: func(l *lostWorld) error { return l.fresh(l.executing(true)) }},
	"a write begins and joins nothing": {cut: "commit\x00", do: func(l *lostWorld) error { return l.fresh(l.executing(false)) }},
	"a write begins with a key":        {cut: "commit\x00", do: func(l *lostWorld) error { return l.keyed() }},
	"a call by a grant begins": {
		cut: "commit\x00", spare: 1, check: (*lostWorld).usedOnce,
		do: func(l *lostWorld) error { return l.byGrant(false) },
	},
	"an approval makes a grant": {cut: "commit\x00", check: grantsAndEvents(1, 1), do: (*lostWorld).approveWith},
	"approve":                   {cut: "SET status = 'approved'", do: (*lostWorld).approve},
	"claim":                     {cut: "SET status = 'executing'", do: (*lostWorld).claim},
	"finish":                    {cut: "executor = $16 RETURNING", do: func(l *lostWorld) error { return l.finish(l.d.ID) }},
	"deny":                      {cut: "DELETE FROM open_calls", do: func(l *lostWorld) error { _, err := l.Deny(l.ctx, l.v); return err }},
}

func (l *lostWorld) keyed() error {
	d := l.executing(true)
	d.IdempotencyKey = "k"
	return l.fresh(d)
}

// TestRetryWaitsForPendingCommit breaks the connection while the server still
// commits: the caller tries again before the row can be seen, and must find out
// that it is its own. A call whose row is taken for another's would never run.
func TestRetryWaitsForPendingCommit(t *testing.T) {
	for name, c := range slowCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migrated(t)
			p := newProxy(t, url)
			l := newLostWorld(t, p.url)
			if err := l.prepare(name); err != nil {
				t.Fatal(err)
			}
			change(t, url, "UPDATE open_calls SET params = '{\"slow\":0}'; "+slowCommits)
			p.cutAt(c.cut, during, c.spare)
			if err := c.do(l); err != nil {
				t.Fatal(err)
			}
			if p.happened() != 1 {
				t.Fatalf("%q was cut %d times", c.cut, p.happened())
			}
			if c.check != nil {
				if err := c.check(l); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestJoinDuringDenial: the repeat has found the held call, and then
// a person denies it. It must not ask that person again.
func TestJoinDuringDenial(t *testing.T) {
	url := migrated(t)
	p := newProxy(t, url)
	l, other := newLostWorld(t, p.url), newLostWorld(t, url)
	arrived, release := p.holdAt(l.d.ID) // which the repeat reads when it has found it
	type answer struct {
		*action.BeginResult
		err error
	}
	done := make(chan answer, 1)
	go func() { b, err := l.Begin(l.ctx, l.held(`{"first":1}`)); done <- answer{b, err} }()
	<-arrived
	_, err := other.Deny(other.ctx, l.v)
	release()
	a := <-done
	if err := errors.Join(err, a.err); err != nil {
		t.Fatal(err)
	}
	if a.Status != action.StatusDenied || a.DeniedReason != action.DeniedRepeated {
		t.Errorf("the repeat is %s %s, want that it is denied", a.Status, a.DeniedReason)
	}
}

// TestPolicyChangesBeforeInsert: policy moves, or the session is revoked, after
// Begin has checked it and before it writes the row.
func TestPolicyChangesBeforeInsert(t *testing.T) {
	for name, c := range map[string]struct {
		change string
		want   error
	}{
		"policy":      {"UPDATE organizations SET policy_version = policy_version + 1", action.ErrPolicyMoved},
		"the session": {"UPDATE sessions SET revoked_at = now()", action.ErrUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			url := migrated(t)
			p := newProxy(t, url)
			l := newLostWorld(t, p.url)
			d := crashDraft(l.s, `{"a":1}`)
			d.Joins = false // and takes no lock
			arrived, release := p.holdAt("INSERT INTO open_calls")
			done := make(chan error, 1)
			go func() { _, err := l.Begin(l.ctx, d); done <- err }()
			<-arrived
			change(t, url, c.change)
			release()
			if err := <-done; !errors.Is(err, c.want) {
				t.Error(fmt.Errorf("error %w, want %w", err, c.want))
			}
			if err := l.rows(0, action.StatusExecuting); err != nil {
				t.Error(err)
			}
		})
	}
}
