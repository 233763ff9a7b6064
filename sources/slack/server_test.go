package slack_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/slack"
)

var update = flag.Bool("update", false, "write the golden files anew")

// service answers like Slack: the answers in their order, the last one for all
// that follow. It keeps what was asked.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	answers []answer
	asked   []string

	patience time.Duration // of the client, with waits and repeats; zero: none
}

type answer struct {
	status int // zero: 200
	header http.Header
	body   string
	lost   bool // the connection breaks instead
}

func newService(t *testing.T, answers ...answer) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf("%s %s\nAuthorization: %s\nContent-Type: %s\n\n%s\n", r.Method, r.URL,
		r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body))
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	if a.lost {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = io.WriteString(w, a.body)
}

// requests returns what was asked.
func (s *service) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *service) conn(t *testing.T, kind action.IntegrationKind) *sources.Conn {
	t.Helper()
	base, err := url.Parse(s.URL + "/api")
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{MaxWait: max(s.patience, 1)})
	t.Cleanup(pool.Close)
	return &sources.Conn{Kind: kind, Token: "xoxb-canary", HTTP: pool.Client(t.Name(), base, "xoxb-canary")}
}

// send posts a message. Slack has no idempotency keys, so this call is never
// retried.
func send(t *testing.T, s *service, params string) (string, error) {
	t.Helper()
	got, err := slack.Module().Actions[0].Run(t.Context(), s.conn(t, action.KindBotToken), []byte(params))
	return string(got), err
}

func golden(t *testing.T, s *service) {
	t.Helper()
	path := filepath.Join("testdata", strings.ReplaceAll(t.Name(), "/", "-")+".golden")
	got := strings.Join(s.requests(), "\n")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
