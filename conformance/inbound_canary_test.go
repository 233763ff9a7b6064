package conformance_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The whole way from a delivery to a run, with secrets that can be found again:
// those that sign, those of the sessions that work on runs, and those that
// somebody wrote into what was delivered. They are in the answers that show them
// once, and with who works on the run; never in the log, in the rows, in what
// people are shown, or in what agents are told of others.
func TestInboundCanary(t *testing.T) {
	t.Parallel()
	const deployed, chosen = "canary-deployed-5e4d3c2b1a09", "canary-chosen-0f1e2d3c4b5a"
	leaked := "ghp_" + strings.Repeat("l34k3d", 6)
	g := startGateway(t, "--log-level", "debug", "--webhook-secrets", "github="+deployed, "--dispatch-every", "50ms", "--run-sweep-every", "100ms", "--inbox-pause", "1ms")
	r := g.gitHub("triage")
	own := g.trigger("triage", "custom", map[string]any{"secret": chosen + "-of-a-trigger", "config": map[string]any{"verification": map[string]any{"scheme": "header"}, "title_path": "/title"}})
	var rotated, key struct{ Secret, Key string }
	g.must("POST", "/api/v1/triggers/"+r.ID+"/rotate", map[string]any{"keep": "1h"}, &rotated)
	g.must("POST", "/api/v1/api-keys", map[string]any{"name": "worker", "scope": "runs"}, &key)
	var claimed claimedRun

	// A run that is claimed, and whose worker tells too much.
	body := strings.Replace(issueBody(1), "It does not work.", "My token is "+leaked, 1)
	body = strings.Replace(body, "It is broken", "Help with "+leaked, 1)
	for _, secret := range []string{r.Secret, rotated.Secret} {
		ofGitHub(secret, "first", body).taken(t, r.at(g))
	}
	custom := delivery{http.Header{"X-Webhook-Token": {own.Secret}}, fmt.Sprintf(`{"title":"Deploy with %[1]s","password":%[1]q,"authorization":"Bearer %[1]s"}`, leaked)}
	custom.taken(t, own.at(g))
	ofGitHub(deployed, "of-nobody", body).taken(t, g.URL+"/webhooks/direct/github")
	ofGitHub(rotated.Secret, "unreadable", leaked).taken(t, r.at(g))
	g.workedOff()
	g.as(key.Key).must("POST", runsPath+"/claim", nil, &claimed)
	if !bytes.Contains(claimed.Event.Context, []byte(leaked)) {
		t.Errorf("the worker is told %s", claimed.Event.Context)
	}
	g.forgetSeen() // the secrets are shown once, right up to here
	g.must("POST", runsPath+"/"+claimed.Run.ID+"/finish", map[string]any{
		"claim_id": claimed.Claim, "status": "failed", "message": "tried " + leaked, "result": map[string]any{"token": leaked, "said": "with " + leaked},
	}, nil)

	// Runs that are delivered to somebody who says all that he got.
	said := make(chan []byte, 10)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said <- body
		w.WriteHeader(http.StatusForbidden)
		_ = r.Header.Write(w)
		_, token, _ := strings.Cut(string(body), `"token":`)
		fmt.Fprintf(w, "no: %.200s", token)
	}))
	t.Cleanup(echo.Close)
	var made struct{ Secret string }
	g.must("PUT", "/api/v1/run-endpoint", map[string]any{"url": echo.URL}, &made)
	g.forgetSeen()
	var posted handover
	select {
	case heard := <-said:
		decode(t, heard, &posted)
	case <-time.After(patience):
		t.Fatal("nothing is delivered")
	}
	g.await("the answer to be noted", func() bool {
		return bytes.Contains(g.do("GET", outboxPath, nil).Body, []byte("and said"))
	})
	for _, path := range []string{"/api/v1/triggers", "/api/v1/triggers/" + r.ID, "/api/v1/triggers/" + r.ID + "/secrets", "/api/v1/automations", "/api/v1/providers", "/api/v1/run-endpoint", "/api/v1/sessions", "/api/v1/api-keys", deliveriesPath, inboundPath, runsPath, outboxPath} {
		if got := g.do("GET", path, nil); got.Status != http.StatusOK {
			t.Errorf("GET %s: %d", path, got.Status)
		}
	}
	var shown []byte
	for path, ids := range map[string][]string{deliveriesPath: idsOf[receipt](g.api, deliveriesPath), inboundPath: idsOf[inboundEvent](g.api, inboundPath), runsPath: idsOf[runRow](g.api, runsPath)} {
		for _, id := range ids {
			shown = append(shown, g.do("GET", path+"/"+id, nil).Body...)
		}
	}
	g.do("GET", "/webhooks/direct/github/"+r.ID, nil)
	g.do("GET", "/metrics", nil)
	g.stop()

	canaries := map[string]string{
		"the trigger's secret": r.Secret, "its new secret": rotated.Secret, "a secret that was chosen": own.Secret, "the deployment's secret": deployed,
		"the endpoint's secret": made.Secret, "a worker's key": key.Key, "the token of a run's session": claimed.Session.Token,
		"a token that was delivered": posted.Data.Session.Token, "a token in a payload": leaked,
	}
	places := map[string][]byte{"the log": g.loggedWithoutLink(), "what the API said": g.seenBytes()}
	g.files(func(name string, raw []byte) { places["the file "+name] = raw })
	for what, canary := range canaries {
		if len(canary) < 16 {
			t.Errorf("%s is %q", what, canary)
			continue
		}
		forms := encodings(canary)
		if key, is := strings.CutPrefix(canary, "whsec_"); is {
			forms = append(forms, key)
		}
		for place, raw := range places {
			for _, form := range forms {
				if at := bytes.Index(raw, []byte(form)); at >= 0 {
					t.Errorf("%s is in %s, as %q: …%q…", what, place, form, raw[max(0, at-120):min(len(raw), at+len(form)+40)])
				}
			}
		}
	}
	if !bytes.Contains(shown, []byte("octocat/hello")) || !bytes.Contains(shown, []byte("Deploy with")) {
		t.Errorf("the story did not happen; nothing was proved: %s", shown)
	}
}

func idsOf[T interface{ id() string }](a *api, path string) (ids []string) {
	for _, row := range rowsOf[T](a, path, "") {
		ids = append(ids, row.id())
	}
	return ids
}

func (r receipt) id() string      { return r.ID }
func (e inboundEvent) id() string { return e.ID }
func (r runRow) id() string       { return r.ID }
