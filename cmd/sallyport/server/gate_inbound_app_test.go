package server

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/ingest/event"
)

// likeInstalled is GitHub with an App that is installed, as number 42, at the
// account of number 9.
func likeInstalled(w http.ResponseWriter, r *asked) {
	switch r.Path {
	case "/app/installations/42":
		reply(w, 200, `{"id":42,"account":{"id":9,"login":"acme"},"permissions":{"issues":"write"}}`)
	case "/app/installations/42/access_tokens":
		reply(w, 201, `{"token":"ghs_0123456789","expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	default:
		reply(w, 200, `{"total_count":1,"repositories":[{"full_name":"acme/site","owner":{"login":"acme"}}]}`)
	}
}

// TestDeliveriesOfAnInstalledApp: what GitHub tells of an installation is for who
// connected it, and not for who has the installation's number.
func TestDeliveriesOfAnInstalledApp(t *testing.T) {
	t.Parallel()
	const secret = "of the whole deployment"
	p := serveHouse(t, func(o *Options) { o.WebhookSecrets.of = map[string][]string{"github": {secret}} })
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	gitHub := newService(t, likeInstalled)
	p.must("PUT", "/integrations/apps/github", map[string]any{"app_id": "7", "slug": "acme-gate", "private_key": file, "base_url": gitHub.URL}, nil)
	p.inBrowser(map[string]any{"provider": "github", "kind": "app_installation"}, map[string]any{"installation_id": "42"})
	p.must("POST", "/automations", map[string]any{"name": "triage"}, nil)
	p.must("POST", "/triggers", map[string]any{"automation": "triage", "provider": "github", "event_type": "issue"}, nil)

	for _, owner := range []string{"42", "9"} {
		body := strings.NewReplacer(
			`"owner":{"login":"octocat"}`, `"owner":{"login":"acme","id":`+owner+`,"url":"`+gitHub.URL+`/users/acme"}`,
			`"sender":`, `"installation":{"id":42,"node_id":"MDIz"},"sender":`,
		).Replace(opened(10, "of account "+owner))
		if got := p.tells(p.URL+"/webhooks/direct/github", secret, "d-"+owner, body); got != 200 {
			t.Fatalf("answered %d", got)
		}
	}
	if made := p.run(event.RunQueued); !strings.HasSuffix(made.Title, "of account 9") {
		t.Errorf("a run began with %q", made.Title)
	}
}
