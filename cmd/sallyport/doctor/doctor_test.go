package doctor

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	_ "github.com/jackc/pgx/v5/stdlib"

	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/server"
	"sallyport/internal/dbtest"
	"sallyport/store"
)

// With PostgreSQL and Valkey, doctor changes nothing: a migrated, unused
// database stays without an organization.
func TestDoctorOnServers(t *testing.T) {
	url, valkey := migratedDatabase(t), dbtest.Valkey(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `DELETE FROM organizations`); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := executeDoctor(t.Context(), []string{"doctor", "--data", filepath.Join(t.TempDir(), "none"), "--database-url", url, "--valkey-url", valkey}, nil, &out, &errs)
	for _, want := range []string{"ok    database: reachable", "ok    clock", "ok    inbox", "ok    outbox", "ok    Valkey: it answers", "warn  files: evidence is stored on this machine only"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "fail ") || status != command.ExitOK {
		t.Errorf("status %d, %s", status, errs.String())
	}
	var n int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM organizations`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d organizations: %v", n, err)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// Without the database of a running gateway, doctor reports that it checked no
// rows.
func TestDoctorReportsMissingDatabase(t *testing.T) {
	dir := t.TempDir()
	said := func() string {
		var out bytes.Buffer
		executeDoctor(t.Context(), []string{"doctor", "--data", dir}, nil, &out, &out)
		return out.String()
	}
	if text := said(); !strings.Contains(text, "ok    database: there is none yet") {
		t.Error(text)
	}
	if err := os.WriteFile(command.EndpointPath(dir), []byte(`{"url":"http://127.0.0.1:1","pid":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := said(); !strings.Contains(text, "warn  database: this data folder has none") || !strings.Contains(text, "pass doctor its --database-url") {
		t.Error(text)
	}
	if text := said(); strings.Contains(text, `\u00`) {
		t.Error(text)
	}
}

// The message of a server that is not ready is shown once.
func TestDoctorReportsUnreadyServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"code":"not_ready","detail":"This instance cannot serve calls at the moment. Its log shows the cause."}`)
	}))
	defer server.Close()
	data := t.TempDir()
	if err := (command.Endpoint{URL: server.URL, MCPURL: server.URL + "/mcp", APIKey: "spk_x"}).Write(data); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	executeDoctor(t.Context(), []string{"doctor", "--data", data}, nil, &out, &errs)
	if !strings.Contains(out.String(), "fail  server: ") || strings.Count(out.String(), "Its log shows the cause") != 1 {
		t.Error(out.String())
	}
}

// A failing connector is not also counted among those that are ok.
func TestDoctorReportsFailingConnectors(t *testing.T) {
	failing := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/connectors" {
			_, _ = io.WriteString(w, `{"items":[{"name":"works","enabled":true},{"name":"fails","slug":"fails","enabled":true,"error":"`+failing+`"}],"total":2}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	defer server.Close()
	data := t.TempDir()
	if err := (command.Endpoint{URL: server.URL, MCPURL: server.URL + "/mcp", APIKey: "spk_x"}).Write(data); err != nil {
		t.Fatal(err)
	}
	for _, failing = range []string{"", "It refused the connection."} {
		var out, errs bytes.Buffer
		executeDoctor(t.Context(), []string{"doctor", "--data", data}, nil, &out, &errs)
		text := out.String()
		if strings.Contains(text, "ok    connectors: 2 connectors, none failing") != (failing == "") || strings.Contains(text, "warn  connectors: fails: It refused the connection; for details") != (failing != "") {
			t.Errorf("%q: %s", failing, text)
		}
	}
}

// executeDoctor runs the command like the program, and returns its exit status.
func executeDoctor(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var grammar struct {
		Doctor Command `cmd:""`
	}
	return command.Execute(ctx, &grammar, append([]string{"doctor"}, args[1:]...), &command.Streams{In: stdin, Out: stdout, Err: stderr}, cli.Vars(), cli.FlagTypes(), kong.Configuration(server.LoadConfig))
}

// migratedDatabase returns the URL of an empty PostgreSQL database with all
// tables.
func migratedDatabase(t *testing.T) string {
	t.Helper()
	return dbtest.PostgresFrom(t, "tables", func(url string) error {
		db, err := store.Open(t.Context(), store.Config{URL: url})
		if err != nil {
			return err
		}
		return db.Close()
	})
}
