package cloudlogs_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/aws"
	"sallyport/sources"
	"sallyport/sources/cloudlogs"
)

// remoteLine is entry i of the logs of these tests: one every ten seconds before noon.
type remoteLine struct {
	at    time.Time
	level string
	text  string
	n     int
}

const remoteLines = 250

func remoteLog() (list []remoteLine) {
	for i := range remoteLines {
		level := "info"
		if i%10 == 0 {
			level = "error"
		}
		list = append(list, remoteLine{noon.Add(-time.Duration(remoteLines-i) * 10 * time.Second), level, fmt.Sprintf("line %d", i), i})
	}
	return list
}

// remote is a service of logs: what starts it, its address, and the name of the field with
// the number of a line.
type remote struct {
	start func(t *testing.T) (address string)
	field string
}

func remotes() map[string]remote {
	return map[string]remote{
		"journald": {func(t *testing.T) string {
			return "journald:api.service?directory=" + url.QueryEscape(journalOf(t, remoteLog()))
		}, "N"},
		"cloudwatch": {func(t *testing.T) string { return startCloudWatch(t, &logServer{lines: remoteLog()}) }, "n"},
		"gcloud":     {func(t *testing.T) string { return startGoogleCloud(t, &logServer{lines: remoteLog()}) }, "jsonPayload.n"},
	}
}

func remoteDesk(t *testing.T, address string) *desk {
	t.Helper()
	return newDesk(t, func(c *cloudlogs.Config) { c.Services["remote"], c.Services["other"] = address, address })
}

func TestRemoteLogs(t *testing.T) {
	for name, r := range remotes() {
		t.Run(name, func(t *testing.T) {
			d := remoteDesk(t, r.start(t))
			for params, want := range map[string]string{
				`{"service":"remote","limit":2}`:                                                           "line 249 line 248",
				`{"service":"remote","limit":2,"level":"error"}`:                                           "line 240 line 230",
				`{"service":"remote","text":"LINE 77"}`:                                                    "line 77",
				`{"service":"remote","fields":{"` + r.field + `":"42"}}`:                                   "line 42",
				`{"service":"remote","since":"2026-03-01T11:59:00Z","until":"2026-03-01T11:59:20Z"}`:       "line 246 line 245 line 244",
				`{"service":"remote","since":"2026-03-01T09:00:00Z","until":"2026-03-01T10:00:00Z"}`:       "",
				`{"service":"remote","since":"20h","limit":1,"text":"line 0"}`:                             "line 0",
				`{"service":"remote","since":"2h","level":"critical"}`:                                     "",
				`{"service":"remote","since":"2026-03-01T11:59:20Z","until":"2026-03-01T11:59:20Z"}`:       "line 246",
				`{"service":"remote","since":"2026-03-01T11:59:20.001Z","until":"2026-03-01T11:59:29.9Z"}`: "",
			} {
				if got := d.messages(params); got != want {
					t.Errorf("%s: got %q, want %q", params, got, want)
				}
			}
			// Every entry is on exactly one page, and its ID finds it again.
			seen, cursor := []string{}, ""
			for range remoteLines {
				page := d.query(fmt.Sprintf(`{"service":"remote","since":"2h","limit":40%s}`, cursor))
				for _, e := range page.Entries {
					seen = append(seen, e.Message)
				}
				if page.Cursor == "" {
					break
				}
				cursor = fmt.Sprintf(`,"cursor":%q`, page.Cursor)
			}
			want := []string{}
			for i := remoteLines - 1; i >= 0; i-- {
				want = append(want, fmt.Sprintf("line %d", i))
			}
			if !slices.Equal(seen, want) {
				t.Errorf("the pages have %d entries: %q", len(seen), seen)
			}
			e := d.query(`{"service":"remote","text":"line 123"}`).Entries[0]
			var again cloudlogs.Entry
			if err := d.run("get_log_entry", fmt.Sprintf(`{"id":%q}`, e.ID), &again); err != nil {
				t.Fatal(err)
			}
			if e.Level != "info" || again.ID != e.ID || !again.Time.Equal(e.Time) || again.Message != e.Message || !bytes.Equal(again.Fields, e.Fields) || len(e.Fields) == 0 {
				t.Errorf("got %+v again, want %+v", again, e)
			}
			for _, key := range []string{"", `x" OR insertId != "`, "i=1 --unit=other.service", "i=ff", "s=0639c7b814f84c2c9b3a3c4b6d6c0001;i=ff;b=0639c7b814f84c2c9b3a3c4b6d6c0002;m=ff;t=ff;x=ff", "00000000000000000000000000000000000000000000000000000999"} {
				id := cloudlogs.RemoteID("remote", e.Time, key)
				d.refused("get_log_entry", fmt.Sprintf(`{"id":%q}`, id), "unknown_entry", "query the logs again")
			}
		})
	}
}

func TestRemoteAddresses(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "")
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, []byte(`{"type":"authorized_user","private_key":"canary"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	for address, want := range map[string]string{
		"journald:--flush":                                   "has the unit",
		"journald:api.service?dir=/x":                        `has the option "dir"`,
		"cloudwatch:/aws/lambda/api":                         "needs a region",
		"cloudwatch:?region=eu-central-1":                    "has the log group",
		"cloudwatch:/x?region=eu-central-1&endpoint=ftp://x": "endpoint",
		"gcloud:X":                 "has the project",
		"gcloud:my-project":        "is not the key file of a service account",
		"gcloud://host/my-project": "write gcloud:NAME",
	} {
		_, err := cloudlogs.New(cloudlogs.Config{Services: map[string]string{"api": address}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}

// Errors of a cloud say who must do what, and never hold a credential.
func TestRemoteErrors(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *logServer) string{"cloudwatch": startCloudWatch, "gcloud": startGoogleCloud} {
		t.Run(name, func(t *testing.T) {
			s := &logServer{lines: remoteLog()}
			d := remoteDesk(t, start(t, s))
			for _, c := range []struct {
				status           int
				body, code, says string
			}{
				{400, `{"__type":"com.amazonaws.logs#AccessDeniedException","message":"User canary is not authorized"}`, "AccessDeniedException", "operator must check"},
				{403, `{"error":{"status":"PERMISSION_DENIED","message":"canary"}}`, "PERMISSION_DENIED", "operator must check"},
				{400, `{"__type":"ResourceNotFoundException"}`, "ResourceNotFoundException", "does not have the logs"},
				{429, ``, "", "limits requests"},
				{400, `{"__type":"ThrottlingException"}`, "ThrottlingException", "limits requests"},
				{500, `<html>`, "", "refused the query"},
			} {
				s.fails = func(w http.ResponseWriter) {
					w.WriteHeader(c.status)
					fmt.Fprint(w, c.body)
				}
				err := d.run("query_logs", `{"service":"remote"}`, &struct{}{})
				var no *sources.Refusal
				if !errors.As(err, &no) || no.Code != c.code || !strings.Contains(no.Message, c.says) || strings.Contains(no.Message, "canary") {
					t.Errorf("%d %s: got %v", c.status, c.body, err)
				}
			}
			s.fails = func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }
			if err := d.run("query_logs", `{"service":"remote"}`, &struct{}{}); action.Public(err).Code != sources.FaultProtocol {
				t.Errorf("an answer that is a page: %v", err)
			}
			s.server.Close()
			if err := d.run("query_logs", `{"service":"remote"}`, &struct{}{}); !errors.Is(err, action.ErrUnavailable) || !strings.Contains(err.Error(), "operator") {
				t.Errorf("away: %v", err)
			}
		})
	}
}

// A window of CloudWatch with more pages than are read at once is halved.
func TestManyEntriesInAMinute(t *testing.T) {
	var lines []remoteLine
	for i := range 3000 {
		lines = append(lines, remoteLine{noon.Add(-time.Duration(3000-i) * 10 * time.Millisecond), "info", fmt.Sprintf("line %d", i), i})
	}
	s := &logServer{lines: lines}
	d := remoteDesk(t, startCloudWatch(t, s))
	if got, want := d.messages(`{"service":"remote","limit":3}`), "line 2999 line 2998 line 2997"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.deepest > 200 {
		t.Errorf("a window was read up to entry %d", s.deepest)
	}
}

// logServer holds the lines of a cloud's logging service.
type logServer struct {
	lines  []remoteLine
	fails  func(http.ResponseWriter) // nil: it answers
	server *httptest.Server

	deepest int // the largest number of entries before a page
}

func (s *logServer) start(t *testing.T, h http.Handler) string {
	t.Helper()
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.fails != nil && r.URL.Path != "/token" {
			s.fails(w)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.server.Close)
	return s.server.URL
}

// startCloudWatch serves FilterLogEvents: the oldest events first, 50 a page, to signed
// requests.
func startCloudWatch(t *testing.T, s *logServer) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	const page = 50
	at := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		sum := sha256.Sum256(body)
		again := &http.Request{Method: r.Method, Header: http.Header{}, URL: &url.URL{Host: r.Host, Path: "/"}}
		for _, name := range []string{"Content-Type", "X-Amz-Target"} {
			again.Header.Set(name, r.Header.Get(name))
		}
		stamp, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		aws.Keys{ID: "test", Secret: "canary-secret"}.Sign(again, "logs", "eu-central-1", hex.EncodeToString(sum[:]), stamp)
		if err != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") || r.Header.Get("X-Amz-Target") != "Logs_20140328.FilterLogEvents" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"InvalidSignatureException"}`)
			return
		}
		var q struct {
			Group  string `json:"logGroupName"`
			Stream string `json:"logStreamNamePrefix"`
			Start  int64  `json:"startTime"`
			End    int64  `json:"endTime"`
			Token  string `json:"nextToken"`
		}
		decode(t, body, &q)
		if q.Group != "/aws/lambda/api" || q.Stream != "2026/" || q.Start > q.End {
			t.Errorf("the request is %s", body)
		}
		skip, _ := strconv.Atoi(q.Token)
		s.deepest = max(s.deepest, skip)
		events, token := []map[string]any{}, ""
		for _, l := range s.lines {
			ms := l.at.UnixMilli()
			if ms < q.Start || ms > q.End {
				continue
			}
			if skip--; skip >= 0 {
				continue
			}
			if len(events) == page {
				n, _ := strconv.Atoi(q.Token)
				token = strconv.Itoa(n + page)
				break
			}
			events = append(events, map[string]any{
				"eventId": fmt.Sprintf("%056d", l.n), "timestamp": ms, "ingestionTime": ms, "logStreamName": "2026/a",
				"message": fmt.Sprintf(`{"level":%q,"msg":%q,"n":%d}`, l.level, l.text, l.n),
			})
		}
		answer := map[string]any{"events": events}
		if token != "" {
			answer["nextToken"] = token
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	return "cloudwatch:/aws/lambda/api?region=eu-central-1&stream=2026/&endpoint=" + at
}

var googleFilter = regexp.MustCompile(`^timestamp >= "([^"]+)" AND timestamp <= "([^"]+)"(?: AND severity >= ([A-Z]+))? AND \(resource\.type="gce_instance" -- x\n\)$|^timestamp = "([^"]+)" AND insertId = "([^"]+)" AND \(resource\.type="gce_instance" -- x\n\)$`)

// startGoogleCloud serves entries.list, newest first, to tokens that it issued for a
// signed assertion.
func startGoogleCloud(t *testing.T, s *logServer) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	at := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			parts := strings.Split(r.FormValue("assertion"), ".")
			sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
			signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
			claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
			if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature); err != nil || !bytes.Contains(claims, []byte(`"scope":"https://www.googleapis.com/auth/logging.read"`)) {
				t.Errorf("the assertion %s: %v", claims, err)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"access_token":"canary-token","expires_in":3600,"token_type":"Bearer"}`)
			return
		}
		if r.URL.Path != "/v2/entries:list" || r.Header.Get("Authorization") != "Bearer canary-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var q struct {
			Resources []string `json:"resourceNames"`
			Filter    string   `json:"filter"`
			Order     string   `json:"orderBy"`
			Size      int      `json:"pageSize"`
			Token     string   `json:"pageToken"`
		}
		decode(t, body, &q)
		m := googleFilter.FindStringSubmatch(q.Filter)
		if m == nil || q.Order != "timestamp desc" || !slices.Equal(q.Resources, []string{"projects/my-project"}) {
			t.Errorf("the request is %s", body)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		from, _ := time.Parse(time.RFC3339Nano, m[1]+m[4])
		to, _ := time.Parse(time.RFC3339Nano, m[2]+m[4])
		skip, _ := strconv.Atoi(q.Token)
		entries, next := []map[string]any{}, ""
		for _, l := range slices.Backward(s.lines) {
			id := fmt.Sprintf("id-%d", l.n)
			if l.at.Before(from) || l.at.After(to) || m[5] != "" && m[5] != id || m[3] == "ERROR" && l.level != "error" || m[3] == "CRITICAL" {
				continue
			}
			if skip--; skip >= 0 {
				continue
			}
			if len(entries) == min(q.Size, 60) {
				n, _ := strconv.Atoi(q.Token)
				next = strconv.Itoa(n + len(entries))
				break
			}
			entries = append(entries, map[string]any{
				"insertId": id, "timestamp": l.at.Format(time.RFC3339Nano), "severity": strings.ToUpper(l.level), "logName": "projects/my-project/logs/api",
				"jsonPayload": map[string]any{"message": l.text, "n": l.n},
			})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"entries": entries, "nextPageToken": next})
	}))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "logs@my-project.iam.gserviceaccount.com", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": at + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	// A comment at the end of the operator's filter does not hide the rest.
	return "gcloud:my-project?filter=" + url.QueryEscape(`resource.type="gce_instance" -- x`) + "&endpoint=" + at
}

func decode(t *testing.T, body []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%s: %v", body, err)
	}
}

// journalOf returns a folder with a journal of the unit api.service, and of another unit.
func journalOf(t *testing.T, lines []remoteLine) string {
	t.Helper()
	const program = "/lib/systemd/systemd-journal-remote"
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("making a journal needs systemd-journal-remote (Debian: apt-get install systemd-journal-remote)")
	}
	var export bytes.Buffer
	for i, l := range lines {
		for u, unit := range []string{"api.service", "other.service"} {
			n := 2*i + u + 1
			us := l.at.UnixMicro()
			priority := map[string]int{"info": 6, "error": 3}[l.level]
			fmt.Fprintf(&export, "__CURSOR=s=0639c7b814f84c2c9b3a3c4b6d6c0001;i=%x;b=0639c7b814f84c2c9b3a3c4b6d6c0002;m=%x;t=%x;x=%x\n__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=0639c7b814f84c2c9b3a3c4b6d6c0002\n_SYSTEMD_UNIT=%s\nPRIORITY=%d\nN=%d\nMESSAGE=%s\n\n",
				n, n, us, n, us, n, unit, priority, l.n, l.text)
		}
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "--output="+filepath.Join(dir, "test.journal"), "-")
	cmd.Stdin = &export
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}
