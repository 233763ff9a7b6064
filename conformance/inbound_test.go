package conformance_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// trigger is what deliveries come in by, as it is answered when it is made.
type trigger struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Secret string `json:"secret"`
}

// at is the trigger's URL at one process.
func (r *trigger) at(g *gateway) string {
	_, path, _ := strings.Cut(r.URL, "/webhooks/")
	return g.URL + "/webhooks/" + path
}

func (a *api) automation(name string) (id string) {
	a.t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	a.must("POST", "/api/v1/automations", map[string]any{"name": name, "instructions": "Look into it."}, &made)
	return made.ID
}

// trigger makes one of an automation that is there.
func (a *api) trigger(automation, provider string, more map[string]any) (made trigger) {
	a.t.Helper()
	body := map[string]any{"automation": automation, "provider": provider}
	for name, value := range more {
		body[name] = value
	}
	a.must("POST", "/api/v1/triggers", body, &made)
	if chosen, ok := body["secret"].(string); ok {
		if made.Secret != "" {
			a.t.Errorf("a secret that was chosen is shown: %q", made.Secret)
		}
		made.Secret = chosen
	}
	return made
}

// gitHub makes an automation of its own and a trigger for its issues.
func (a *api) gitHub(automation string) trigger {
	a.t.Helper()
	return a.trigger(a.automation(automation), "github", map[string]any{"event_type": "issue"})
}

// delivery is what a service posts.
type delivery struct {
	header http.Header
	body   string
}

// issueBody is what GitHub says of the nth issue.
func issueBody(n int) string {
	return fmt.Sprintf(`{"action":"opened","issue":{"id":%[1]d,"number":%[1]d,"title":"It is broken (%[1]d)","state":"open","html_url":"https://github.com/octocat/hello/issues/%[1]d",`+
		`"user":{"login":"octocat","type":"User"},"labels":[],"created_at":"2026-10-02T07:00:00Z","updated_at":"2026-10-02T08:00:00Z","body":"It does not work."},`+
		`"repository":{"id":1,"full_name":"octocat/hello","html_url":"https://github.com/octocat/hello","default_branch":"trunk"},"sender":{"login":"octocat","type":"User"}}`, n)
}

// ofGitHub signs a body as GitHub does, under a delivery's id.
func ofGitHub(secret, id, body string) delivery {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return delivery{http.Header{
		"X-Github-Event": {"issues"}, "X-Github-Delivery": {id}, "Content-Type": {"application/json"},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}, body}
}

// issue is the delivery of the nth issue, and its key.
func (r *trigger) issue(n int) (d delivery, key string) {
	key = fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", n)
	return ofGitHub(r.Secret, key, issueBody(n)), key
}

// send posts it, from any goroutine and to a process that may be gone.
func (d delivery) send(t *testing.T, to string) (reply, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(d.body))
	if err != nil {
		return reply{}, err
	}
	request.Header = d.header.Clone()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, raw}, err
}

// taken posts it and expects to hear that it was kept.
func (d delivery) taken(t *testing.T, to string) {
	t.Helper()
	if r, err := d.send(t, to); err != nil || r.Status != http.StatusOK {
		t.Errorf("a delivery to %s was answered %d %s, %v", to, r.Status, r.Body, err)
	}
}

// What the API shows of inbound work.
type (
	receipt struct {
		ID, Status string
		Attempt    int
		LastError  string `json:"last_error"`
		Doubled    bool   `json:"duplicate"`
		Native     string
	}
	inboundEvent struct {
		ID      string
		Trigger string `json:"trigger_id"`
		Key     string `json:"dedup_key"`
		Run     string `json:"run_id"`
		Skip    string `json:"skip_reason"`
		Title   string
	}
	runRow struct {
		ID, Status, Code string
		Event            string `json:"event_id"`
		Session          string `json:"session_id"`
		By               string `json:"claimed_by"`
	}
	parcel struct {
		ID, Status string
		Run        string `json:"run_id"`
		Attempt    int
	}
)

var ofBody = regexp.MustCompile(`:[0-9a-f]{16}$`)

// sent is the id that the sender gave: where that is not signed, the key has a
// hash of the body behind it.
func (e inboundEvent) sent() string { return ofBody.ReplaceAllString(e.Key, "") }

// rowsOf returns all that a list of the API has.
func rowsOf[T any](a *api, path, query string) (all []T) {
	a.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []T
			Next  string `json:"next_cursor"`
		}
		a.must("GET", path+"?limit=100&"+query+"&cursor="+url.QueryEscape(cursor), nil, &page)
		if all, cursor = append(all, page.Items...), page.Next; cursor == "" {
			return all
		}
	}
}

const (
	deliveriesPath = "/api/v1/deliveries"
	inboundPath    = "/api/v1/inbound-events"
	runsPath       = "/api/v1/runs"
	outboxPath     = "/api/v1/outbox"
)

// workedOff waits until no delivery waits or is worked on.
func (a *api) workedOff() {
	a.t.Helper()
	await(a.t, "all deliveries to be worked off", func() bool {
		return !slices.ContainsFunc(rowsOf[receipt](a, deliveriesPath, ""), func(r receipt) bool { return r.Status == "queued" || r.Status == "processing" })
	})
}

// onceEach waits until all is worked off, and checks that each key has one event
// with one run, which is in the outbox once; and that there is nothing else.
func (a *api) onceEach(keys ...string) {
	a.t.Helper()
	a.workedOff()
	for _, r := range rowsOf[receipt](a, deliveriesPath, "status=failed") {
		a.t.Errorf("a delivery failed: %+v", r)
	}
	events := rowsOf[inboundEvent](a, inboundPath, "")
	var got, of, parcels []string
	for _, e := range events {
		if got = append(got, e.sent()); e.Run == "" {
			a.t.Errorf("an event started nothing: %+v", e)
		}
		of = append(of, e.ID)
	}
	same(a.t, "keys of events", got, keys)
	var began, runs []string
	for _, r := range rowsOf[runRow](a, runsPath, "") {
		began, runs = append(began, r.Event), append(runs, r.ID)
	}
	same(a.t, "events of runs", began, of)
	for _, p := range rowsOf[parcel](a, outboxPath, "") {
		parcels = append(parcels, p.Run)
	}
	same(a.t, "runs in the outbox", parcels, runs)
}

// same compares lists in any order.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d, not %d: %.2000s, want %.2000s", what, len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}

// takes starts an ingest process, the first time or again, and waits until it
// is ready.
func (g *gateway) takes() {
	g.t.Helper()
	g.spawn()
	g.wakes()
}

// wakes waits until a process that was started is ready.
func (g *gateway) wakes() {
	g.t.Helper()
	ready := regexp.MustCompile(`ready at (http://(\S+));`)
	g.await("ingest to be ready", func() bool {
		if g.ended() {
			g.t.Fatalf("ingest ended at its start:\n%s", g.logged())
		}
		found := ready.FindSubmatch(g.logged())
		if found == nil {
			return false
		}
		g.URL, g.addr = string(found[1]), string(found[2])
		g.api = newAPI(g.t, g.URL)
		r, err := g.try("GET", "/readyz", nil)
		return err == nil && r.Status == http.StatusOK
	})
}

// newIntake starts a gateway and so many ingest processes on a PostgreSQL.
func newIntake(t *testing.T, takers int, args ...string) (c *cluster, people *gateway, all []*gateway) {
	t.Helper()
	c = newServers(t, false)
	people = c.prepare("gateway")
	people.start()
	for range takers {
		all = append(all, c.prepare("ingest", append(args, "--public-url", people.URL)...)) // as behind one balancer
	}
	for _, g := range all {
		g.spawn()
	}
	for _, g := range all {
		g.wakes()
	}
	return c, people, all
}

// decode reads JSON that a test got.
func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}
