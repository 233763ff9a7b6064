package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/cmd/sallyport/command"
)

// A decision carries the hashes of what was shown, so that the server can
// reject any other call.
func TestDecisionsCarryHashes(t *testing.T) {
	answers := map[string]string{
		"GET /api/v1/me":                   `{"name":"ada"}`,
		"GET /api/v1/invocations/1":        `{"params":{"a":1},"params_hash":"p1","tool_hash":"t1"}`,
		"GET /api/v1/invocations/1/params": `{"params":{"a":1},"params_hash":"p2","tool_hash":"t2"}`,
		"GET /api/v1/connectors/x":         `{"tool_risks":{"a":"read","b":"write"},"tools":[]}`,
		"GET /api/v1/connectors/x/tools": `{"items":[
			{"tool":"same","state":"reviewed","current":{"behaviour_hash":"b1","text_hash":"x1","definition":{}}},
			{"tool":"new","state":"new","current":{"behaviour_hash":"b2","text_hash":"x2","definition":{}}},
			{"tool":"gone","state":"removed","reviewed":{"behaviour_hash":"b3","text_hash":"x3","definition":{}}}]}`,
	}
	for line, want := range map[string]string{
		"approve 1":             `POST /api/v1/invocations/1/approve {"params_hash":"p1","tool_hash":"t1"}`,
		"approve 1 --grant org": `POST /api/v1/invocations/1/approve {"grant":{"scope":"org"},"mode":"grant","params_hash":"p1","tool_hash":"t1"}`,
		"approve 1 --grant session --max-calls 2 --pin /a,b":                 `POST /api/v1/invocations/1/approve {"grant":{"max_calls":2,"pin":["/a,b"],"scope":"session"},"mode":"grant","params_hash":"p1","tool_hash":"t1"}`,
		"approve 1 --grant org --unreviewed":                                 `POST /api/v1/invocations/1/approve {"grant":{"scope":"org","unreviewed":true},"mode":"grant","params_hash":"p1","tool_hash":"t1"}`,
		"approve 1 --unreviewed":                                             ``,
		"grant create n:a --unreviewed":                                      `POST /api/v1/grants {"action":"a","scope":"organization","source":"n","unreviewed":true}`,
		"approve 1 --pin /a":                                                 ``,
		"approve 1 --expires 5m":                                             ``,
		"deny 1 --reason no":                                                 `POST /api/v1/invocations/1/deny {"params_hash":"p1","reason":"no","tool_hash":"t1"}`,
		"connector review x":                                                 ``,
		"connector review x --accept new":                                    ``,
		"connector review x --accept new@ee834d0c9ce1":                       `POST /api/v1/connectors/x/review {"tools":[{"behaviour_hash":"b2","text_hash":"x2","tool":"new"}]}`,
		"connector review x --accept new@1ec9c0d438ee":                       ``,
		"connector review x --accept new@gone":                               ``,
		"connector review x --accept gone@gone":                              `POST /api/v1/connectors/x/review {"tools":[{"tool":"gone"}]}`,
		"connector review x --accept gone@735108fe78f1":                      ``,
		"connector review x --accept none@gone":                              ``,
		"connector review x --accept new@ee834d0c9ce1 --accept gone":         ``,
		"connector review x --accept new@ee834d0c9ce1 --digest e259b6cdf983": ``,
		"connector review x --accept-all":                                    ``,
		"connector review x --accept-all --digest ee834d0c9ce1":              ``,
		"connector review x --accept-all --digest e259b6cdf983":              `POST /api/v1/connectors/x/review {"tools":[{"behaviour_hash":"b2","text_hash":"x2","tool":"new"},{"tool":"gone"}]}`,
		"connector update x --tool-risk b=danger --tool-risk c=read":         `PATCH /api/v1/connectors/x {"tool_risks":{"a":"read","b":"danger","c":"read"}}`,
		"connector update x --tool-risk a=":                                  `PATCH /api/v1/connectors/x {"tool_risks":{"b":"write"}}`,
		"grant create n:a --pin /t=\"x,y\"":                                  `POST /api/v1/grants {"action":"a","pins":{"/t":"x,y"},"scope":"organization","source":"n"}`,
		"grant create n:a --pin /t=1 --pin /t=1":                             ``,
		"grant approve 1 --pin /t=1 --pin /t=2":                              ``,
		"grant approve 1 --pin /t=1 --pin /u=2":                              `POST /api/v1/grant-requests/1/approve {"pins":{"/t":1,"/u":2}}`,
		"approve 1 --grant org --pin /a --pin /a":                            ``,
		"session create --ttl 2d":                                            `POST /api/v1/sessions {"client":"cli","ttl":"48h0m0s"}GET /api/v1/integrations `,
		"session create --ttl 2d --json":                                     `POST /api/v1/sessions {"client":"cli","ttl":"48h0m0s"}`,
		"session create --connect linear":                                    `GET /api/v1/integrations POST /api/v1/sessions {"client":"cli","connections":["linear"]}GET /api/v1/sessions/ `,
		"session create --connect linear --json":                             `GET /api/v1/integrations POST /api/v1/sessions {"client":"cli","connections":["linear"]}`,
		"policy quota set n:a --per group --calls 1 --window 1d":             `PUT /api/v1/policy/quotas/n:a {"calls":1,"per":"group","seconds":86400}`,
		"policy set n:a ask":                                                 `PUT /api/v1/policy/modes/n:a {"mode":"require_approval"}`,
		"connector profile x --mode ask --tool t":                            `POST /api/v1/connectors/x/profile {"mode":"require_approval","tools":["t"]}`,
		"grant create --any --session s":                                     `POST /api/v1/grants {"any":true,"scope":"session","session_id":"s"}`,
		"capability set g n --level 3 --gate q --allow a,b":                  `PUT /api/v1/capabilities/g/n {"allowed_actions":["a","b"],"level":3,"required_gate":"q"}`,
	} {
		t.Run(line, func(t *testing.T) {
			var sent string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, known := answers[r.Method+" "+r.URL.Path]
				if r.Header.Get("Authorization") != "Bearer key" { // the check that the URL is a gateway
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = io.WriteString(w, `{"status":401,"code":"unauthenticated","detail":"no"}`)
					return
				}
				if !known {
					sent, answer = sent+r.Method+" "+r.URL.Path+" "+sortedJSON(t, r.Body), "{}"
				}
				_, _ = io.WriteString(w, answer)
			}))
			defer server.Close()
			t.Setenv("SALLYPORT_URL", server.URL)
			t.Setenv("SALLYPORT_API_KEY", "key")
			var out, errs bytes.Buffer
			status := executeClient(t.Context(), strings.Fields(line), nil, &out, &errs)
			if diff := cmp.Diff(want, sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s%s", diff, errs.String())
			}
			if refused := want == "" && line != "connector review x"; refused != (status != command.ExitOK) {
				t.Errorf("status %d: %s", status, errs.String())
			}
		})
	}
}

// sortedJSON returns JSON with sorted object keys; empty for no body.
func sortedJSON(t *testing.T, body io.Reader) string {
	t.Helper()
	var value any
	if err := json.NewDecoder(body).Decode(&value); errors.Is(err, io.EOF) {
		return ""
	} else if err != nil {
		t.Error(err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Error(err)
	}
	return string(raw)
}

// The call is shown before the decision, each part once, and unredacted only
// with --reveal.
func TestShowsBeforeItDecides(t *testing.T) {
	const row = `{"id":"1","source_name":"notes","source_id":"connector:n","action":"add","risk":"write","session_id":"s","status":"STATUS","params":{"k":"[redacted]"},
		"summary":"k=[redacted]","mode_source":"SOURCE","session_title":"nightly","session_created_by":"u1","session_creator":"ada","group":"ops","decision":[{"layer":"inferred","note":"Writes wait."},{"layer":"drift","note":"It changed.","alert":true},
		{"layer":"grant","note":"No grant."}],"denied_reason":"policy","denied_note":"Now denied."}`
	what := "1  notes:add (connector:n), write, of session s\n    in the session nightly of ada (user u1), group ops\n"
	for _, c := range []struct{ line, source, status, shown, err string }{
		{"pending", "inferred", "pending", what + "    Writes wait.\n! It changed.\n    params {\"k\":\"[redacted]\"}\n", ""},
		{"pending", "drift", "pending", what + "! It changed.\n    params {", ""},
		{"approve 1", "inferred", "approved", what + "    Writes wait.\n! It changed.\n    params {\"k\":\"[redacted]\"}\nPOST\napproved", ""},
		{"approve 1 --json", "inferred", "approved", what + "    Writes wait.\n! It changed.\n    params {\"k\":\"[redacted]\"}\nPOST\n{", ""},
		{"approve 1 --reveal", "inferred", "approved", what + "    Writes wait.\n! It changed.\n    unredacted params {\"k\":\"hunter2\"}\nPOST\napproved", ""},
		{"deny 1", "inferred", "denied", what + "    Writes wait.\n! It changed.\n    params {\"k\":\"[redacted]\"}\nPOST\ndenied", ""},
		{"approve 1 --wait 1s", "inferred", "denied", "POST\napproved", "denied (policy): Now denied."},
		{"approve 1 --wait 1s", "inferred", "expired", "POST\napproved", "expired before it ran"},
		{"approve 1 --wait 1s", "inferred", "completed", "POST\napproved", ""},
	} {
		var out bytes.Buffer
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			row := strings.NewReplacer("STATUS", c.status, "SOURCE", c.source).Replace(row)
			switch {
			case r.Method == http.MethodPost:
				_, _ = io.WriteString(&out, "POST\n")
				_, _ = io.WriteString(w, `{"invocation":`+row+`}`)
			case strings.HasSuffix(r.URL.Path, "/params"):
				_, _ = io.WriteString(w, `{"full":true,"params":{"k":"hunter2"}}`)
			case strings.HasSuffix(r.URL.Path, "/1"):
				_, _ = io.WriteString(w, row)
			case strings.HasSuffix(r.URL.Path, "/sessions/s"), strings.HasSuffix(r.URL.Path, "/users"):
				t.Errorf("%s is read, which the call says", r.URL.Path)
			default:
				_, _ = io.WriteString(w, `{"name":"ada","items":[`+row+`]}`)
			}
		}))
		t.Setenv("SALLYPORT_URL", server.URL)
		t.Setenv("SALLYPORT_API_KEY", "key")
		status := executeClient(t.Context(), strings.Fields(c.line), nil, &out, &out)
		server.Close()
		shown := out.String()
		if !strings.Contains(shown, c.shown) || !strings.Contains(shown, c.err) || (c.err != "") != (status == command.ExitError) {
			t.Errorf("%s, %s: status %d\n%s\nwant %s", c.line, c.status, status, shown, c.shown)
		}
		if !strings.Contains(c.line, "--json") && strings.Count(shown, `"k"`)+strings.Count(shown, "k=") != 1 {
			t.Errorf("%s shows params twice:\n%s", c.line, shown)
		}
		if !strings.Contains(c.line, "--reveal") && strings.Contains(shown, "hunter2") {
			t.Errorf("%s tells a secret:\n%s", c.line, shown)
		}
	}
}

// The summary of an integration's call is shown with the account, or with the
// ID of an account that is private to another user.
func TestPendingCallSummary(t *testing.T) {
	const row = `{"id":"1","source_name":"Slack","source_id":"slack","action":"send_message","risk":"write","session_id":"s","params":{},
		"summary":"Send to C0123, NOTIFYING @channel","integration_id":"ID","session_created_by":"u9"}`
	const what = "1  Slack:send_message (slack), write, of session s\n    Send to C0123, NOTIFYING @channel\n    for "
	for id, account := range map[string]string{"i1": "integration Work (i1), account Acme", "i2": "integration i2"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			row := strings.ReplaceAll(row, "ID", id)
			switch r.URL.Path {
			case "/api/v1/integrations":
				_, _ = io.WriteString(w, `{"items":[{"id":"i1","name":"Work","account":"T1","account_name":"Acme"}]}`)
			case "/api/v1/invocations/1":
				_, _ = io.WriteString(w, row)
			case "/api/v1/invocations":
				_, _ = io.WriteString(w, `{"items":[`+row+`]}`)
			case "/api/v1/grant-requests":
				_, _ = io.WriteString(w, `{}`)
			default:
				_, _ = io.WriteString(w, `{"name":"ada","invocation":`+row+`}`)
			}
		}))
		t.Setenv("SALLYPORT_URL", server.URL)
		t.Setenv("SALLYPORT_API_KEY", "key")
		for _, line := range []string{"pending", "approve 1", "deny 1"} {
			var out bytes.Buffer
			status := executeClient(t.Context(), strings.Fields(line), nil, &out, &out)
			if want := what + account + "\n    in the session of user u9\n"; status != command.ExitOK || !strings.Contains(out.String(), want) {
				t.Errorf("%s: status %d\n%s\nwant %s", line, status, out.String(), want)
			}
		}
		server.Close()
	}
}

// Accepting a tool without its hash shows the tool and the command to accept
// it. An outdated list is reported.
func TestReviewListsTagsToAccept(t *testing.T) {
	tools := `{"error":"no answer","fetched_at":"2026-01-02T15:04:05Z","items":[{"tool":"it's","state":"new","current":{"behaviour_hash":"b","text_hash":"x","definition":{"n":1}}}]}`
	var fresh []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fresh = append(fresh, r.URL.RawQuery)
		_, _ = io.WriteString(w, tools)
	}))
	defer server.Close()
	t.Setenv("SALLYPORT_API_KEY", "key")
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC).Local().Format("15:04")
	one, all := "@3ff1726cd443", "--accept-all --digest 5e45ddae497c"
	for _, c := range []struct {
		flags            []string
		status           int
		query, out, errs string
	}{
		{nil, command.ExitOK, "fresh=true", "cannot list its tools: no answer; this list is from " + at + " (", ""},
		{nil, command.ExitOK, "fresh=true", all, ""},
		{[]string{"--accept-all"}, command.ExitUsage, "fresh=true", "it's" + one + " is new", "sallyport connector review 'my x' " + all + " --url " + server.URL},
		{[]string{"--accept", "it's"}, command.ExitUsage, "", "it's" + one + " is new", `sallyport connector review 'my x' --accept 'it'\''s` + one + "' --url " + server.URL},
		{[]string{"--accept", "it's@0123456789ab"}, command.ExitError, "", "", "changed since it was shown"},
	} {
		var out, errs bytes.Buffer
		fresh = nil
		line := append([]string{"connector", "review", "my x", "--url", server.URL}, c.flags...)
		status := executeClient(t.Context(), line, nil, &out, &errs)
		if status != c.status || !cmp.Equal(fresh, []string{c.query}) || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) {
			t.Errorf("%q: status %d, asked %q\n%s%s", c.flags, status, fresh, out.String(), errs.String())
		}
	}
}

// Text from other parties is escaped wherever it is printed.
func TestForeignText(t *testing.T) {
	const evil = "\x1b[2J\u202egnp"
	text, _ := json.Marshal(evil)
	item := strings.ReplaceAll(`{"id":E,"tool":E,"state":E,"name":E,"source_name":E,"source_id":E,"action":E,"summary":E,"risk":E,"reason":E,
		"keys":[{"key":E,"description":E,"suggestions":[{"label":E,"instructions":E,"value":E}]}],"note":E,"session_id":E,"subject":E,"kind":E,"by":E,"before":{E:E},"after":E,"gate":E,"group":E,"task":E,"actions":[E],"terms":{"source_id":E,"action":E,"pins":{E:E}},
		"pins":{E:E},"provider":E,"allowed_actions":[E],"required_gate":E,"granted_by":E,"created_by":E,"approved_by":E,"decided_note":E,"status":E,"per":E,"updated_by":E,
		"current":{"definition":{E:E}},"changes":[{"path":E,"kind":E,"before":E,"after":{E:E}}]}`, "E", string(text))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.TrimSuffix(item, "}")+`,"items":[`+item+`],"steps":[{"layer":`+string(text)+`,"note":`+string(text)+
			`}],"limits":[{"what":`+string(text)+`}],"grants":[`+string(text)+`],"request":`+item+`,"grant":`+item+`,"invocation":`+item+
			`,"capabilities":[{"name":`+string(text)+`,"actions":[{"action":`+string(text)+`,"reason":`+string(text)+`}]}],"faults":[{"row":`+string(text)+`,"message":`+string(text)+`}]}`)
	}))
	defer server.Close()
	t.Setenv("SALLYPORT_URL", server.URL)
	t.Setenv("SALLYPORT_API_KEY", "key")
	for _, line := range []string{
		"pending", "env requests", "env refuse 1", "env answer 1", "approve 1 --grant org", "deny 1", "capability list", "capability show g", "capability set g p --level 1",
		"gate list", "gate approve q --group g --task t", "grant list", "grant create n:a", "grant remove 1", "grant requests",
		"grant approve 1", "grant deny 1", "connector review x", "connector review x --accept-all", "policy log", "policy quota list",
		"policy quota set n:a --per session --calls 1 --window 1m", "policy explain --session s --action n:a", "audit verify",
	} {
		var out, errs bytes.Buffer
		executeClient(t.Context(), strings.Fields(line), strings.NewReader("x"), &out, &errs)
		if shown := out.String() + errs.String(); strings.ContainsAny(shown, "\x1b\u202e") {
			t.Errorf("%s prints it raw:\n%q", line, shown)
		} else if !strings.Contains(shown, `\u202e`) {
			t.Errorf("%s does not show it at all:\n%s", line, shown)
		}
	}
}
