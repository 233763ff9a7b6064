package linear_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/linear"
)

var update = flag.Bool("update", false, "write the golden files anew")

// service answers like Linear: the answers in their order, the last one for
// all that follow. It keeps what was asked.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	answers []answer
	asked   []request

	patience time.Duration // of the client, with waits and repeats; zero: none
}

type answer struct {
	status int // zero: 200
	header http.Header
	body   string
	lost   bool // the connection breaks instead
}

type request struct {
	Line      string
	Header    http.Header
	Operation string          `json:"operationName"`
	Query     string          `json:"query"`
	Variables json.RawMessage `json:"variables"`
}

func newService(t *testing.T, answers ...answer) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := request{Line: r.Method + " " + r.URL.Path, Header: r.Header}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asked)
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	if a.lost {
		panic(http.ErrAbortHandler)
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, strings.ReplaceAll(a.body, "{id}", newID(asked.Variables)))
}

// newID is the id that a mutation's input chose.
func newID(variables json.RawMessage) string {
	var v struct{ Input struct{ ID string } }
	_ = json.Unmarshal(variables, &v)
	return v.Input.ID
}

// requests returns what was asked.
func (s *service) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *service) conn(t *testing.T, kind action.IntegrationKind) *sources.Conn {
	t.Helper()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{MaxWait: max(s.patience, 1)})
	t.Cleanup(pool.Close)
	return &sources.Conn{Kind: kind, Token: "lin_api_canary", HTTP: pool.Client(t.Name(), base, "lin_api_canary")}
}

func run(t *testing.T, s *service, name, params string) (string, error) {
	t.Helper()
	got, err := find(t, name).Run(t.Context(), s.conn(t, action.KindAPIKey), json.RawMessage(params))
	return string(got), err
}

func find(t *testing.T, name string) sources.ModuleAction {
	t.Helper()
	for _, a := range linear.Module().Actions {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("there is no action %s", name)
	return sources.ModuleAction{}
}

var anyID = regexp.MustCompile(`"id": "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)

// transcript shows the requests as golden files hold them.
func (s *service) transcript() string {
	var b strings.Builder
	for _, r := range s.requests() {
		var variables bytes.Buffer
		_ = json.Indent(&variables, r.Variables, "", "  ")
		shown := variables.String()
		if strings.HasPrefix(r.Operation, "Create") || strings.HasPrefix(r.Operation, "Add") {
			shown = anyID.ReplaceAllString(shown, `"id": "<new>"`)
		}
		fmt.Fprintf(&b, "%s\nAuthorization: %s\nContent-Type: %s\n\n%s %s\n\n%s\n", r.Line,
			r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Operation, shown, r.Query)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
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
