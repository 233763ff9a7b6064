package conformance_test

import (
	"net/http"
	"testing"
	"time"
)

// One process takes a delivery in and is killed at a step of its way, from the
// row of the delivery to the last word on its run. Its sender sends it again
// where he was told nothing. Another process does the rest, and nothing twice.
func TestInboundTakerKilledAtEachStep(t *testing.T) {
	t.Parallel()
	c, people, takers := newIntake(t, 1, "--inbox-lease", "1s", "--inbox-every", "100ms")
	other := takers[0]
	p := newTap(t, c.postgres.URL)
	victim := newGateway(t, "ingest", "--public-url", "http://127.0.0.1:1", "--inbox-lease", "1s", "--database-url", p.url)
	victim.env = keys()
	t.Cleanup(victim.finish)
	r := people.gitHub("triage")
	const (
		keep, claim = "INSERT INTO inbox", "SET status = 'processing', holder"
		settle, run = `SELECT "id", "attempt" FROM "inbox"`, "INSERT INTO outbox"
	)
	var keys []string
	for n, step := range []struct {
		statement string
		when      moment
		heard     bool // the sender
	}{
		{keep, before, false},
		{keep, unheard, false},
		{claim, before, true},
		{claim, unheard, true},
		{settle, before, true},
		{run, atCommit, true},
		{run, unheard, true},
	} {
		victim.takes()
		d, key := r.issue(n)
		keys = append(keys, key)
		other.pause()
		reached, heard := p.at(step.statement, step.when), make(chan bool, 1)
		go func() {
			got, err := d.send(t, r.at(victim))
			heard <- err == nil && got.Status == http.StatusOK
		}()
		if told := step.heard; told {
			told = <-heard
			heard <- told
		}
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("%s, %s: it never came there", step.statement, step.when)
		}
		victim.kill()
		other.resume()
		if told := <-heard; told != step.heard {
			t.Errorf("%s, %s: the sender is told that it was kept: %v", step.statement, step.when, told)
		} else if !told {
			d.taken(t, r.at(other))
		}
		people.onceEach(keys...)
	}
}
