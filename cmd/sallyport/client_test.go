package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sallyport/api"
)

// What others wrote cannot move the cursor, hide or reorder anything.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                 "plain",
		"héllo 🚪":               "héllo 🚪",
		"\x1b[2Jgone":           `\u001b[2Jgone`,
		"two\nlines\tand\r":     `two\u000alines\u0009and\u000d`,
		"admin\u202egnp.exe":    `admin\u202egnp.exe`,
		"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
		"bad \xff":              "bad \ufffd",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

// --json changes nothing of what the server said but its blanks.
func TestPrintJSON(t *testing.T) {
	var out bytes.Buffer
	std := &stdio{Out: &out}
	if err := std.printJSON(json.RawMessage(`{"n":12345678901234567890.10,"b":"<&>","a":[]}`)); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"n\": 12345678901234567890.10,\n  \"b\": \"<&>\",\n  \"a\": []\n}\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 89 * time.Second: "1m", 4*time.Minute + 59*time.Second: "5m", 59*time.Minute + 40*time.Second: "1h", 3 * time.Hour: "3h", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

// Whatever answers, the error is a sentence that helps.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"a problem":            {409, `{"status":409,"code":"already_decided","detail":"ada approved it."}`, "ada approved it."},
		"a problem of a field": {400, `{"code":"invalid_field","detail":"Too long.","field":"/title"}`, "Too long. (title)"},
		"a field in the text":  {400, `{"code":"invalid_field","detail":"title is too long.","field":"/title"}`, "title is too long."},
		"a list elsewhere":     {404, `{"code":"x","detail":"There is none. GET /api/v1/grants lists them."}`, "none. sallyport grant list lists"},
		"a proxy's page":       {502, `<html>Bad Gateway</html>`, "no answer of Sallyport"},
		"nothing":              {500, ``, "no answer of Sallyport"},
		"control characters":   {400, `{"code":"x","detail":"a\u001b[2Jb"}`, `a\u001b[2Jb`},
		"success of another":   {200, `<html>Hello</html>`, "one version"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := newClient(server.URL, "key")
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = fetch(t.Context(), client, api.GetMe, api.None{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, which lacks %q", err, c.want)
			}
		})
	}
}

// The key is sent to the server that was named and does not follow a
// redirection to another.
func TestKeyStays(t *testing.T) {
	var leaked string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = r.Header.Get("Authorization")
	}))
	defer thief.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(thief.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client, err := newClient(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = fetch(t.Context(), client, api.PutSecret, api.ByKeyWith[api.NewSecret]{Body: api.NewSecret{Value: "secret"}})
	if p := new(problem); err == nil || errors.As(err, &p) {
		t.Errorf("the redirection was followed: %v", err)
	}
	if leaked != "" {
		t.Errorf("the key went elsewhere: %q", leaked)
	}
}

// Who names a server is asked for a key of his own: the variables of an agent's
// terminal do not have it act as who runs the gateway.
func TestKeyOfTheFolderIsForNoNamedServer(t *testing.T) {
	data := t.TempDir()
	if err := (endpoint{URL: "http://127.0.0.1:8787", MCPURL: "http://127.0.0.1:8787/mcp", APIKey: "spk_of_the_folder"}).write(data); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SALLYPORT_API_KEY", "")
	if c, err := (&remote{Data: data}).connect(); err != nil || c.Key != "spk_of_the_folder" {
		t.Errorf("the folder alone: %v", err)
	}
	for at, says := range map[string]string{
		"http://127.0.0.1:8787": "unset SALLYPORT_URL", "http://127.0.0.1:8787/mcp": "without a path", "http://127.0.0.1:8787/x/": "without a path", "127.0.0.1:8787": "is no URL of a server",
	} {
		if _, err := (&remote{URL: at, Data: data}).connect(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// Whoever takes --url for the connector's does not send it the key.
func TestConnectorUpdateSendsNoKeyToAConnector(t *testing.T) {
	var leaked []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header["Authorization"]...)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer upstream.Close()
	t.Setenv("SALLYPORT_API_KEY", "spk_x")
	for at, want := range map[string]int{upstream.URL: exitError, upstream.URL + "/mcp": exitUsage, upstream.URL + "/v1/": exitUsage} {
		var out, said bytes.Buffer
		status := execute(t.Context(), []string{"connector", "update", "Dead", "--rename", "Alive", "--url", at}, nil, &out, &said)
		if status != want || !strings.Contains(said.String(), "the connector's is --endpoint") {
			t.Errorf("%s: status %d, %s", at, status, said.String())
		}
	}
	if leaked != nil {
		t.Errorf("the connector's server got %q", leaked)
	}
}

// A command to paste goes to the server of the one that printed it.
func TestHintKeepsTheServer(t *testing.T) {
	for want, r := range map[string]remote{
		"sallyport approve ID":                            {},
		"sallyport approve ID --data '/a b'":              {Data: "/a b"},
		"sallyport approve ID --url https://gate.example": {URL: "https://gate.example", Data: "/not/asked"},
	} {
		if got := r.hint("approve", "ID"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
