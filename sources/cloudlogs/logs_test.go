package cloudlogs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/sources"
	"sallyport/sources/cloudlogs"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// desk is a module over a folder of files.
type desk struct {
	t      *testing.T
	dir    string
	module *sources.Module
}

func newDesk(t *testing.T, change ...func(*cloudlogs.Config)) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir()}
	c := cloudlogs.Config{
		Services: map[string]string{
			"api": filepath.Join(d.dir, "api.log*"), "worker": filepath.Join(d.dir, "worker.log"), "journal": filepath.Join(d.dir, "journal*"),
		},
		Now: func() time.Time { return noon },
	}
	for _, f := range change {
		f(&c)
	}
	m, err := cloudlogs.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.module = m
	return d
}

// write writes a file whose time is that of the logs.
func (d *desk) write(name string, content []byte, written time.Time) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content)
		_ = z.Close()
		content = b.Bytes()
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Chtimes(path, written, written); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) run(name, params string, answer any) error {
	d.t.Helper()
	for _, a := range d.module.Actions {
		if a.Name != name {
			continue
		}
		raw, err := a.Run(d.t.Context(), nil, json.RawMessage(params))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, answer); err != nil {
			d.t.Fatalf("%v in %s", err, raw)
		}
		return nil
	}
	d.t.Fatalf("there is no action %s", name)
	return nil
}

func (d *desk) query(params string) cloudlogs.Page {
	d.t.Helper()
	var p cloudlogs.Page
	if err := d.run("query_logs", params, &p); err != nil {
		d.t.Fatalf("%s: %v", params, err)
	}
	return p
}

// messages queries and returns what the entries say.
func (d *desk) messages(params string) string {
	d.t.Helper()
	var list []string
	for _, e := range d.query(params).Entries {
		list = append(list, e.Message)
	}
	return strings.Join(list, " ")
}

// refused checks the code of a refusal and that its sentence has says in it.
func (d *desk) refused(name, params, code, says string) {
	d.t.Helper()
	err := d.run(name, params, &struct{}{})
	var r *sources.Refusal
	if !errors.As(err, &r) || r.Code != code || !strings.Contains(r.Message, says) {
		d.t.Errorf("%s %s: got %v; want %s and %q", name, params, err, code, says)
	}
	if err != nil && strings.Contains(err.Error(), d.dir) {
		d.t.Errorf("the error tells a path: %v", err)
	}
}

// line is a line of JSON some time before noon.
func line(ago time.Duration, level, message string, more ...string) string {
	return fmt.Sprintf(`{"time":%q,"level":%q,"msg":%q%s}`+"\n", noon.Add(-ago).Format(time.RFC3339Nano), level, message, strings.Join(more, ""))
}

func TestQueries(t *testing.T) {
	d := newDesk(t)
	d.write("api.log", []byte(line(50*time.Minute, "debug", "a")+line(40*time.Minute, "info", "b", `,"http":{"status":200,"path":"/x"},"ok":true`)+
		line(30*time.Minute, "WARN", "c", `,"http":{"status":500}`)+line(20*time.Minute, "error", "d timeout", `,"user":"ann","n":1.50`)+line(10*time.Minute, "fatal", "e")), noon)
	d.write("worker.log", []byte(line(5*time.Minute, "info", "another")), noon)
	for params, want := range map[string]string{
		`{"service":"api"}`:                                              "e d timeout c b a",
		`{"service":"api","limit":2.0}`:                                  "e d timeout",
		`{"service":"api","since":"25m"}`:                                "e d timeout",
		`{"service":"api","since":"45m","until":"30m"}`:                  "c b",
		`{"service":"api","since":"2026-03-01T12:30:00+01:00"}`:          "e d timeout c",
		`{"service":"api","level":"warning"}`:                            "e d timeout c",
		`{"service":"api","level":"critical"}`:                           "e",
		`{"service":"api","text":"TIMEOUT"}`:                             "d timeout",
		`{"service":"api","text":"\"/x\""}`:                              "b",
		`{"service":"api","fields":{"http.status":500}}`:                 "c",
		`{"service":"api","fields":{"http.status":"200","ok":true}}`:     "b",
		`{"service":"api","fields":{"user":"ann","n":1.50}}`:             "d timeout",
		`{"service":"api","fields":{"user":"an"}}`:                       "",
		`{"service":"api","fields":{"user.name":"ann"}}`:                 "",
		`{"service":"api","since":"2026-03-01T00:00:00Z","until":"51m"}`: "",
		`{"service":"worker"}`:                                           "another",
		`{"service":"journal"}`:                                          "",
	} {
		if got := d.messages(params); got != want {
			t.Errorf("%s: got %q, want %q", params, got, want)
		}
	}
	e := d.query(`{"service":"api","text":"timeout"}`).Entries[0]
	if want := noon.Add(-20 * time.Minute); !e.Time.Equal(want) || e.Level != "error" || e.Service != "api" || e.Cut ||
		!strings.Contains(string(e.Fields), `"n":1.50`) {
		t.Errorf("got %+v", e)
	}
}

func TestBounds(t *testing.T) {
	d := newDesk(t, func(c *cloudlogs.Config) { c.MaxRange, c.MaxEntries = 6*time.Hour, 10 })
	for params, says := range map[string]string{
		`{"service":"api","since":"7h"}`: "/since must be at most 6h before until",
		`{"service":"api","since":"1d"}`: "6h",
		`{"service":"api","since":"2026-02-01T00:00:00Z","until":"2026-02-02T00:00:00Z"}`: "6h",
		`{"service":"api","since":"1h","until":"2h"}`:                                     "before until",
		`{"service":"api","since":"yesterday"}`:                                           "/since must be a time",
		`{"service":"api","since":"-5m"}`:                                                 "/since must be a time",
		`{"service":"api","until":"9999-01-01T00:00:00Z"}`:                                "/until must be a time",
		`{"service":"api","limit":11}`:                                                    "/limit must be from 1 to 10",
		`{"service":"api","level":"loud"}`:                                                "/level must be one of trace",
	} {
		d.refused("query_logs", params, "invalid_params", says)
	}
	d.refused("query_logs", `{"service":"../../etc/passwd"}`, "unknown_service", "list_services")
	d.refused("query_logs", `{"service":"api","cursor":"x"}`, "invalid_cursor", "without it")
	d.refused("get_log_entry", `{"id":"x"}`, "unknown_entry", "query the logs again")

	for _, c := range []cloudlogs.Config{
		{},
		{Services: map[string]string{"a/b": "x"}},
		{Services: map[string]string{"a": ""}},
		{Services: map[string]string{"a": "["}},
		{Services: map[string]string{"a": "x"}, MaxEntries: -1},
	} {
		if _, err := cloudlogs.New(c); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
}

func TestTooMuchToRead(t *testing.T) {
	d := newDesk(t, func(c *cloudlogs.Config) { c.Timeout = time.Nanosecond })
	d.write("api.log", []byte(line(0, "info", "x")), noon)
	d.refused("query_logs", `{"service":"api"}`, "too_much", "ask for a shorter time")
}

func TestServices(t *testing.T) {
	d := newDesk(t)
	d.write("api.log", []byte(line(0, "info", "a")), noon)
	d.write("api.log.1", []byte(line(time.Hour, "info", "b")), noon.Add(-time.Hour))
	if err := os.Mkdir(filepath.Join(d.dir, "api.logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	var got struct{ Services []cloudlogs.Service }
	if err := d.run("list_services", `{}`, &got); err != nil {
		t.Fatal(err)
	}
	if s := got.Services; len(s) != 3 || s[0].Name != "api" || s[0].Files != 2 || s[0].Bytes == 0 || !s[0].Newest.Equal(noon) || s[1].Files != 0 {
		t.Errorf("got %+v", s)
	}
}

// TestUnreadableFiles: one of several that cannot be read is left out, and that
// is told; where it is is not.
func TestUnreadableFiles(t *testing.T) {
	d := newDesk(t)
	if err := os.WriteFile(filepath.Join(d.dir, "api.log.1.gz"), []byte("this is not compressed"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.write("api.log", []byte(line(5*time.Minute, "info", "x")+line(0, "info", "y")), noon)
	d.write("api.log.2.gz", []byte(line(9*time.Minute, "info", "w")), noon)
	whole, err := os.ReadFile(filepath.Join(d.dir, "api.log.2.gz"))
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)-6] ^= 1 // the checksum
	if err := os.WriteFile(filepath.Join(d.dir, "api.log.2.gz"), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	p := d.query(`{"service":"api"}`)
	if p.Unreadable != 2 || len(p.Entries) < 2 || p.Entries[0].Message != "y" {
		t.Fatalf("got %+v", p)
	}
	var e cloudlogs.Entry
	if err := d.run("get_log_entry", `{"id":"`+p.Entries[1].ID+`"}`, &e); err != nil || e.Message != "x" {
		t.Errorf("got %+v, %v", e, err)
	}
}

// TestLinks: of a pattern nobody is led out of its folder by who may write
// there, but a path that the operator names may be a link.
func TestLinks(t *testing.T) {
	elsewhere := t.TempDir()
	secret := filepath.Join(elsewhere, "secret.log")
	if err := os.WriteFile(secret, []byte(line(0, "info", "secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, func(c *cloudlogs.Config) {
		dir := filepath.Dir(c.Services["worker"])
		c.Services["deep"] = filepath.Join(dir, "*", "secret.log")
		c.Services["linked"] = filepath.Join(dir, "folder", "*.log")
	})
	d.write("api.log", []byte(line(0, "info", "x")), noon)
	for name, to := range map[string]string{
		"api.log.1": secret, "api.log.2": filepath.Join("..", filepath.Base(elsewhere), "secret.log"), // leave it
		"api.log.3":  filepath.Join(d.dir, "inside"), // does not
		"worker.log": secret,                         // named
		"away":       elsewhere, "folder": elsewhere,
	} {
		if err := os.Symlink(to, filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	d.write("inside", []byte(line(time.Minute, "info", "y")), noon)
	for service, want := range map[string]string{"api": "x y", "worker": "secret", "deep": "", "linked": "secret"} {
		if got := d.messages(`{"service":"` + service + `"}`); got != want {
			t.Errorf("%s: got %q, want %q", service, got, want)
		}
	}
	if p := d.query(`{"service":"api"}`); p.Unreadable != 2 {
		t.Errorf("%d files are told as left out", p.Unreadable)
	}
}

// blockingHandler blocks every log record until the channel is closed. A query logs a
// file that it cannot read, so it runs until then. The handlers of slog hold a mutex while
// they write, at which synctest would wait forever for a second query.
type blockingHandler struct {
	slog.Handler
	release chan struct{}
}

func (h blockingHandler) Handle(context.Context, slog.Record) error {
	<-h.release
	return nil
}

func (h blockingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// TestTwoAtOnce: a third waits for a moment, and is then refused.
func TestTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := blockingHandler{slog.NewTextHandler(io.Discard, nil), make(chan struct{})}
		d := newDesk(t, func(c *cloudlogs.Config) { c.Log = slog.New(h) })
		if err := os.WriteFile(filepath.Join(d.dir, "api.log.1.gz"), []byte("not compressed"), 0o600); err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		for range 2 {
			done.Go(func() {
				if err := d.run("query_logs", `{"service":"api"}`, &struct{}{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		d.refused("query_logs", `{"service":"api"}`, "too_many_queries", "when one of them has ended")
		done.Go(func() {
			if err := d.run("query_logs", `{"service":"api"}`, &struct{}{}); err != nil {
				t.Errorf("it did not wait: %v", err)
			}
		})
		synctest.Wait()
		close(h.release)
		done.Wait()
	})
}
