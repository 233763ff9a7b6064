package redact_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/redact"
)

// hashed is a JSON with a keyed hash, as the gateway uses it.
var hashed = redact.JSON{Hash: func(s string) string {
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte(s))
	return hex.EncodeToString(mac.Sum(nil))
}}

// Put together here so that no scanner takes them for real.
var (
	ghp = "ghp_" + strings.Repeat("a1B2", 9)
	jwt = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl"
	pem = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEcanary\nxyz\n-----END RSA PRIVATE" + " KEY-----"
)

func TestRedact(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"a clean document stays", ` { "b" : 1.0 , "a":[9007199254740993,"x\u0041",null] } `, ` { "b" : 1.0 , "a":[9007199254740993,"x\u0041",null] } `},
		{"a user and password", `{"auth":"dXNlcjpwYXNz","a":{"auth":"u:p/=="}}`, `{"auth":"[redacted:12]","a":{"auth":"[redacted:6]"}}`},
		{"a kind of auth", `{"auth":"OAuth 2","a":{"auth":{"type":"oauth2","pass":"x"}}}`, `{"auth":"OAuth 2","a":{"auth":{"type":"oauth2","pass":"[redacted:1]"}}}`},
		{"a secret name", `{"user":"u","password":"hunter2"}`, `{"user":"u","password":"[redacted:7]"}`},
		{
			"names of any case and punctuation", `{"API_Key":"a","x-api-key":"bb","Access.Token":"ccc","clientSecret":"dddd"}`,
			`{"API_Key":"[redacted:1]","x-api-key":"[redacted:2]","Access.Token":"[redacted:3]","clientSecret":"[redacted:4]"}`,
		},
		{"an escaped name", `{"pass\u0077ord":"x"}`, `{"pass\u0077ord":"[redacted:1]"}`},
		{
			"whole names only", `{"next_page_token":"x","tokens":3,"token_count":4,"secretary":"y","passwords_changed":"z"}`,
			`{"next_page_token":"x","tokens":3,"token_count":4,"secretary":"y","passwords_changed":"z"}`,
		},
		{"at any depth", `[{"a":{"b":[{"token":"x"}]}}]`, `[{"a":{"b":[{"token":"[redacted:1]"}]}}]`},
		{
			"numbers and objects", `{"secret":12.50,"credentials":{"a":[1, 2]},"cookie":["a"]}`,
			`{"secret":"[redacted:5]","credentials":"[redacted:12]","cookie":"[redacted:5]"}`,
		},
		{
			"nothing to hide", `{"token":null,"secret":true,"password":"","credentials":{ },"cookie":[]}`,
			`{"token":null,"secret":true,"password":"","credentials":{ },"cookie":[]}`,
		},
		{"redacted before", `{"token":"[redacted:7:0011aabb]","secret":"[redacted:7]"}`, `{"token":"[redacted:7:0011aabb]","secret":"[redacted:7]"}`},
		{"not quite redacted before", `{"token":"[redacted:7:x]","secret":"[redacted:] "}`, `{"token":"[redacted:14]","secret":"[redacted:12]"}`},
		{"a shape within a text", `{"text":"use ` + ghp + `, please"}`, `{"text":"use [redacted:40], please"}`},
		{"a shape as a name", `{"` + ghp + `":1}`, `{"[redacted:40]":1}`},
		{"a shape behind an escape", `["\n` + ghp + `\u0067"]`, `["\n[redacted:41]"]`},
		{"an escaped shape", `["\u0067` + ghp[1:] + `"]`, `["[redacted:40]"]`},
		{"JSON in a string", `{"text":"{\"password\": \"hunter2\", \"n\": 1.0}"}`, `{"text":"{\"password\": \"[redacted:7]\", \"n\": 1.0}"}`},
		{"JSON in JSON in a string", `["[\"{\\\"secret\\\":{\\\"a\\\":1}}\"]"]`, `["[\"{\\\"secret\\\":\\\"[redacted:7]\\\"}\"]"]`},
		{"clean JSON in a string stays escaped as it was", `["{\u0022a\":1}"]`, `["{\u0022a\":1}"]`},
		{"nearly JSON in a string", `["{\"password\": \"hunter2\", }"]`, `["{\"password\": \"[redacted:7]\", }"]`},
		{"invalid UTF-8", "[\"\xff\", 1]", "[\"\ufffd\", 1]"},
		{"lone surrogates stay", `["\ud800"]`, `["\ud800"]`},
		{"names twice", `{"a":1,"a":2}`, `{"a":1,"a":2}`},
		{"no JSON", `{"password":"hunter2"`, `"[not valid JSON, 21 bytes]"`},
		{"more than JSON", `{} hunter2`, `"[not valid JSON, 10 bytes]"`},
		{"no JSON under a secret name", `{"password":[hunter2]}`, `"[not valid JSON, 22 bytes]"`},
		{"too deep", strings.Repeat("[", 1001) + strings.Repeat("]", 1001), `"[not valid JSON, 2002 bytes]"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(redact.JSON{}.Redact([]byte(test.raw), nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRedactedValuesShowAKeyedHash(t *testing.T) {
	out := string(hashed.Redact([]byte(`[{"password":"one"},{"password":"one"},{"password":"two"}]`), nil))
	var list []map[string]string
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	a, b, c := list[0]["password"], list[1]["password"], list[2]["password"]
	if a != b || a == c || len(a) != len("[redacted:3:01234567]") {
		t.Errorf("got %s", out)
	}
	if again := string(hashed.Redact([]byte(out), nil)); again != out {
		t.Errorf("redacted again: %s", again)
	}
}

func TestRedactNothing(t *testing.T) {
	if out := hashed.Redact(nil, []string{"hunter2"}); out != nil {
		t.Errorf("got %q", out)
	}
}

func TestCleanDocumentIsNotCopied(t *testing.T) {
	raw := []byte(`{"title":"clean","n":[1,2]}`)
	if out := hashed.Redact(raw, []string{"a-secret"}); &out[0] != &raw[0] {
		t.Error("it was copied")
	}
}

// Everything that is secret in a text, and what stays around it.
func TestRedactText(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"github", "x " + ghp + " y", "x [redacted:40] y"},
		{"github, fine-grained", "github_pat_11AAAAAAA0abcdef_xyz", "[redacted:31]"},
		{"slack", "xoxb-" + "123456789012-abcdef", "[redacted:24]"},
		{"openai", "key sk-" + "proj-abcdef1234567890abcdef.", "key [redacted:30]."},
		{"no key but a class", "sk-toggleable__label-arrow-with-text", "sk-toggleable__label-arrow-with-text"},
		{"no key but a task", "task-1234567890123456789012", "task-1234567890123456789012"},
		{"aws", "AKIA" + "IOSFODNN7EXAMPLE", "[redacted:20]"},
		{"jwt", "(" + jwt + ")", "([redacted:" + itoa(len(jwt)) + "])"},
		{"base64 of an object is no jwt", "eyJhIjoxLCJiIjoyLCJjIjozfQ", "eyJhIjoxLCJiIjoyLCJjIjozfQ"},
		{"pem", "a\n" + pem + "\nb", "a\n[redacted:" + itoa(len(pem)) + "]\nb"},
		{"half a pem", pem[:50], "[redacted:50]"},
		{"a certificate", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----"},
		{"linear", "lin_api_" + "abcdefghijkl", "[redacted:20]"},
		{"sentry", "sntrys_" + "eyJpYXQiOjE3MDA=", "[redacted:23]"},
		{"gitlab", "glpat-" + "abcdefghij-1234", "[redacted:21]"},
		{"google", "AIza" + strings.Repeat("x", 35), "[redacted:39]"},
		{"our own", "sps_" + strings.Repeat("Ab", 40) + " spk_" + strings.Repeat("0a", 37), "[redacted:84] [redacted:78]"},
		{"a slack hook", "https://hooks.slack.com/services/T0/B0/abcdefghijkl", "https://[redacted:43]"},
		{"bearer", "authenticate with bearer  abc.DEF-123~/+=", "authenticate with bearer  [redacted:15]"},
		{"bearer, percent-encoded", "h=Bearer%20abcdefgh1", "h=Bearer%20[redacted:9]"},
		{"bearer of nothing", "the bearer of news", "the bearer of news"},
		{"basic", "Basic " + b64("user:pass"), "Basic [redacted:12]"},
		{"basic, at the end of a sentence", "Basic " + b64("user:pass") + ".", "Basic [redacted:12]."},
		{"basic information", "Basic information", "Basic information"},
		{"a header", "GET /\nAuthorization: token abc def\nAccept: x", "GET /\nAuthorization: [redacted:13]\nAccept: x"},
		{"a header in quotes", `curl -H "x-api-key: abc; d" http://x`, `curl -H "x-api-key: [redacted:6]" http://x`},
		{"cookies", "Set-Cookie: a=b; HttpOnly\r\nX: y", "Set-Cookie: [redacted:13]\r\nX: y"},
		{"a url's user", "https://u:p@example.com/x", "https://[redacted:3]@example.com/x"},
		{"a url's token", "https://x@example.com", "https://[redacted:1]@example.com"},
		{"git", "ssh://git@example.com/x", "ssh://git@example.com/x"},
		{"no user", "https://example.com/@me and a@b", "https://example.com/@me and a@b"},
		{"a query", "https://x/?a=1&access_token=abc%20d&b=2#f", "https://x/?a=1&access_token=[redacted:7]&b=2#f"},
		{"a signed url", "https://x/?X-Amz-Signature=00ff&Sig=1", "https://x/?X-Amz-Signature=[redacted:4]&Sig=[redacted:1]"},
		{"a fragment", "https://x/#token=abc", "https://x/#token=[redacted:3]"},
		{"an option", "run --password=hunter2 --verbose=1", "run --password=[redacted:7] --verbose=1"},
		{"an option in quotes", `password="hunter 2" x`, `password="[redacted:8]" x`},
		{"a comparison", "if token==x {", "if token==x {"},
		{"netrc", "machine h.example login me password hunter2\ndefault login x password secret", "machine h.example login me password [redacted:7]\ndefault login x password [redacted:6]"},
		{"netrc in lines", "machine h\n\tlogin me\n\tpassword secret\n", "machine h\n\tlogin me\n\tpassword [redacted:6]\n"},
		{"netrc without a machine", "login x password Y1", "login x password [redacted:2]"},
		{"netrc without a login", "machine h password secret", "machine h password [redacted:6]"},
		{"a login page", "the login page password field, the login form password reset.", "the login page password field, the login form password reset."},
		{"mysql", "mysqldump -u root -pSECRET db; mysql -p'a b' x", "mysqldump -u root -p[redacted:6] db; mysql -p'[redacted:3]' x"},
		{"mysql, in full", "mysql --password SECRET --password=SECRET", "mysql --password [redacted:6] --password=[redacted:6]"},
		{"an option in the next line", "x --password \\\n  SECRET", "x --password \\\n  [redacted:6]"},
		{"sshpass", "sshpass -pSECRET ssh h; sshpass -p SECRET ssh h; docker login -u me -p SECRET r", "sshpass -p[redacted:6] ssh h; sshpass -p [redacted:6] ssh h; docker login -u me -p [redacted:6] r"},
		{"no password of mysql", "mysql -p db; mkdir -pv a; ssh -p22 h; docker run --name mysql -p3306:3306 mysql", "mysql -p db; mkdir -pv a; ssh -p22 h; docker run --name mysql -p3306:3306 mysql"},
		{"tests that pass", "pass=12 fail=0, pass: 3, ?pass=hunter2", "pass=12 fail=0, pass: 3, ?pass=[redacted:7]"},
		{"a password in prose", "Your password: hunter2 is weak", "Your password: [redacted:7] is weak"},
		{"a type", "password: string;", "password: string;"},
		{"JSON within text", "Result: {\"token\": \"abc\", \"n\": 1, 'secret': 12}", "Result: {\"token\": \"[redacted:3]\", \"n\": 1, 'secret': [redacted:2]}"},
		{"escaped JSON within text", `got {\"token\": \"a\\\"bc\"}`, `got {\"token\": \"[redacted:7]\"}`},
		{"redacted before", "token=[redacted:3:00112233] Authorization: [redacted:9]", "token=[redacted:3:00112233] Authorization: [redacted:9]"},
		{"nothing", "", ""},
		{"times and ratios", "12:30, a:b, x=1, https://", "12:30, a:b, x=1, https://"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := redact.JSON{}.RedactText(test.text, nil)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if again := (redact.JSON{}).RedactText(got, nil); again != got {
				t.Errorf("redacted again: %s", again)
			}
		})
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// A credential that the gateway used comes back in many forms.
func TestKnownSecretsInEveryForm(t *testing.T) {
	const secret = `canary+/é "q\ÿ~`
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	forms := map[string]string{
		"as it is":                   secret,
		"within a text":              "x" + secret + "y",
		"in base64":                  b64(secret),
		"with a prefix":              b64("Bearer " + secret),
		"with another":               b64("u:" + secret),
		"with one more":              b64("me:" + secret + "\n"),
		"in base64 for URLs":         base64.RawURLEncoding.EncodeToString([]byte("user:" + secret)),
		"in a query":                 url.QueryEscape(secret),
		"in a path":                  url.PathEscape(secret),
		"percent-encoded as a whole": percent(secret),
		"in JSON":                    quote(secret),
		"in JSON in JSON":            quote(quote(secret)),
		"in a broken JSON text":      "got " + quote(secret) + " and",
	}
	for name, form := range forms {
		for _, raw := range []string{`{"text":` + quote(form) + `}`, `{` + quote(form) + `:1}`} {
			for how, out := range map[string]string{
				"Redact":        string(hashed.Redact([]byte(raw), []string{secret})),
				"ReplaceSecret": string(redact.ReplaceSecret([]byte(raw), []string{secret})),
			} {
				if !json.Valid([]byte(out)) || !strings.Contains(out, "[redacted") || strings.Contains(strings.ToLower(out), "canary") || strings.Contains(out, b64(secret)[1:15]) {
					if name == "percent-encoded as a whole" && how == "ReplaceSecret" {
						continue // looked for only in what is kept
					}
					t.Errorf("%s, %s: %s becomes %s", how, name, raw, out)
				}
			}
		}
		if out := hashed.RedactText("a "+form+" b", []string{secret}); strings.Contains(out, "canary") || !strings.HasPrefix(out, "a ") || !strings.HasSuffix(out, " b") {
			t.Errorf("RedactText, %s: %s", name, out)
		}
	}
}

// The digits at the edges of base64 hold bits of the secret too.
func TestBase64GoesAsAWhole(t *testing.T) {
	for _, prefix := range []string{"", "x", "xy", "Bearer "} {
		raw := `["a ` + b64(prefix+"canary-secret") + ` b"]`
		if got := string(redact.ReplaceSecret([]byte(raw), []string{"canary-secret"})); got != `["a [redacted] b"]` {
			t.Errorf("%s becomes %s", raw, got)
		}
	}
}

func TestKnownSecretsBehindEscapes(t *testing.T) {
	raw := `{"a":"\u0063anary-\u0073esame","\u0063anary-sesame":1,"b":"{\"k\":\"\\u0063anary-sesame\"}"}`
	want := `{"a":"[redacted:13]","[redacted:13]":1,"b":"{\"k\":\"[redacted:13]\"}"}`
	if got := string(redact.JSON{}.Redact([]byte(raw), []string{"canary-sesame"})); got != want {
		t.Errorf("got %s", got)
	}
}

// A credential may be a document, or end where a string of one does.
func TestKnownSecretsThatAreDocuments(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":"{\"k\":\"x1\"}"}`:           `{"a":"[redacted:10]"}`,
		`{"a":"[{\"k\":\"x1\"},2]"}`:       `{"a":"[[redacted:10],2]"}`,
		`{"a":"[{\"k\":\"x\\u0031\"},2]"}`: `{"a":"[[redacted:15],2]"}`,
	} {
		if got := string(redact.JSON{}.Redact([]byte(raw), []string{`{"k":"x1"}`})); got != want {
			t.Errorf("%s becomes %s; want %s", raw, got, want)
		}
	}
}

// Views of a text are made of its own escapes: with and without findings, of
// one that is longer or shorter than the one before.
func TestViewsOfOneDocument(t *testing.T) {
	raw := `["a \\\" \\u0067` + ghp[1:] + ` \\n z","%20 %70assword=hunter2&x=1 %20","\\u00e9 &lt;b&gt; &amp;quot;token&amp;quot;: &amp;quot;abc&amp;quot; \\t"]`
	want := `["a \\\" [redacted:45] \\n z","%20 %70assword=[redacted:7]&x=1 %20","\\u00e9 &lt;b&gt; &amp;quot;token&amp;quot;: &amp;quot;[redacted:3]&amp;quot; \\t"]`
	if got := string(redact.JSON{}.Redact([]byte(raw), nil)); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteString("%" + hex.EncodeToString([]byte{c}))
	}
	return b.String()
}

func TestNumericSecrets(t *testing.T) {
	for raw, want := range map[string]string{
		`{"n":123456789,"s":"12345678","m":1}`: `{"n":"[redacted]","s":"[redacted]","m":1}`,
		`[0.12345678e1, "x 123456780"]`:        `["[redacted]", "x [redacted]0"]`,
	} {
		if got := string(redact.ReplaceSecret([]byte(raw), []string{"12345678"})); got != want {
			t.Errorf("%s becomes %s; want %s", raw, got, want)
		}
	}
	if got := string(redact.JSON{}.Redact([]byte(`[123456789]`), []string{"12345678"})); got != `["[redacted:9]"]` {
		t.Errorf("got %s", got)
	}
}

func TestShortSecretsTearNothing(t *testing.T) {
	raw := []byte(`{"a":"a b c","b":12345}`)
	for _, secret := range []string{"", " ", "a", "12345", "\n"} {
		if got := redact.ReplaceSecret(raw, []string{secret}); &got[0] != &raw[0] {
			t.Errorf("%q: %s", secret, got)
		}
		if got := hashed.Redact(raw, []string{secret}); &got[0] != &raw[0] {
			t.Errorf("%q: %s", secret, got)
		}
	}
}

func TestReplaceSecret(t *testing.T) {
	clean := []byte(`{"content":[{"type":"text","text":"password=x ghp_` + strings.Repeat("x", 36) + `"}]}`)
	if out := redact.ReplaceSecret(clean, []string{"canary-secret"}); &out[0] != &clean[0] {
		t.Error("what is not known was touched, or copied")
	}
	for raw, want := range map[string]string{
		`{ "a" : "x canary-secret y" , "n":1.0}`: `{ "a" : "x [redacted] y" , "n":1.0}`,
		`{"a":"\ncanary-secret\u0041"}`:          `{"a":"\n[redacted]A"}`,
		`event: canary-secret`:                   `event: [redacted]`,
		`{"a":"&#99\u003banary-secret"}`:         `{"a":"[redacted]"}`,
		`{"a":"&\u002399;anary-secret"}`:         `{"a":"[redacted]"}`,
		`{"a":"canary-secret`:                    `{"a":"[redacted]`,
	} {
		if got := string(redact.ReplaceSecret([]byte(raw), []string{"canary-secret"})); got != want {
			t.Errorf("%s becomes %s; want %s", raw, got, want)
		}
	}
	broken := []byte("[\"\xff\",\"\\u0041\"]")
	if out := redact.ReplaceSecret(broken, []string{"canary-secret"}); !bytes.Equal(out, broken) {
		t.Errorf("it had no secret in it: %q", out)
	}
	// The secret is "nabcdef": here is a line break and then "abcdef".
	odd := []byte(`{"a":"\nabcdef"}`)
	if out := redact.ReplaceSecret(odd, []string{"nabcdef"}); string(out) != string(odd) {
		t.Errorf("an escape was taken apart: %s", out)
	}
}

// Texts made to be looked at again and again take no longer for it.
func TestHostileTextsTakeLinearTime(t *testing.T) {
	const size = 512 << 10
	for _, part := range []string{
		"sk-", "eyJ-", "basic+", "Basic /", "bearer ", "://", "a=", "password=", "\"token\": ", "'secret':'", "-----BEGIN ", "%20", "%6", "ghp_", "{\"", "[", `\`, `\"`,
		"--token ", "-u a:", "&amp;", "&", `\u005c`, "<token>", ">", "name: token value: ", "name=token\n\n", "?key=", "=> ", "token = ", "123456:AA", "1//0", "\"token\":[", "-pa ", "mysql -p", "login x password ", "password ",
	} {
		text := strings.Repeat(part, size/len(part))
		start := time.Now()
		redact.JSON{}.RedactText(text, []string{"%%%%%%%a", "sk-sk-sk-sk-x"})
		raw, _ := json.Marshal([]string{text})
		out := redact.JSON{}.Redact(raw, nil)
		if !json.Valid(out) {
			t.Errorf("%q: not valid", part)
		}
		if len((redact.JSON{}).Prune(raw, 10_000)) > 10_000 {
			t.Errorf("%q: not pruned", part)
		}
		t.Logf("%q: %v", part, time.Since(start).Round(time.Millisecond))
	}
}

// A text with one kind of bracket is not searched for the other at each.
func TestOneKindOfBracketTakesNoLonger(t *testing.T) {
	took := func(part string) time.Duration {
		text := strings.Repeat(part, 1<<20/len(part))
		start := time.Now()
		redact.JSON{}.RedactText(text, nil)
		return time.Since(start)
	}
	both := took(`["token":[{`)
	for _, part := range []string{`"token":[`, `["a": `, `{"a", `} {
		if one := took(part); one > 20*max(both, took(`["token":[{`)) {
			t.Errorf("%q: %v; with both kinds %v", part, one, both)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"a":"x canary1 y","password":{"b":"canary1"},"t":"{\"k\":\"canary1\"}"}`), "canary1")
	f.Add([]byte(`["Y2FuYXJ5MQ==","%63anary1","\u0063anary1",1234567]`), "1234567")
	f.Add([]byte("{\"canary1\":[1,\"\\ncanary1\xff\\ud800\"]}"), "canary1")
	f.Add([]byte(`{"url":"https://a:b@c/?token=x&sig=1","h":"Authorization: Basic YTpi","p":"-----BEGIN PRIVATE KEY-----x"}`), "secret")
	f.Fuzz(func(t *testing.T, raw []byte, secret string) {
		before := bytes.Clone(raw)
		known := strings.Trim(secret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && len(secret) >= redact.MinSecret && !strings.Contains("redacted", secret)
		for _, out := range [][]byte{hashed.Redact(raw, []string{secret}), redact.ReplaceSecret(raw, []string{secret})} {
			if !bytes.Equal(raw, before) {
				t.Fatal("the input was changed")
			}
			if len(raw) > 0 && json.Valid(raw) && !json.Valid(out) {
				t.Fatalf("not valid: %s", out)
			}
			if known && json.Valid(raw) {
				noneIn(t, out, secret, 0)
			}
		}
		if out := hashed.RedactText(string(raw), []string{secret}); known && strings.Contains(out, secret) {
			t.Fatalf("%q is in %q", secret, out)
		}
	})
}

// noneIn looks for the secret in every string, name and number.
func noneIn(t *testing.T, doc []byte, secret string, depth int) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return
		}
		var text string
		switch v := token.(type) {
		case string:
			text = v
		case json.Number:
			text = string(v)
		}
		if strings.Contains(text, secret) || strings.Contains(text, b64("user:"+secret)) {
			t.Fatalf("%q is in %q of %s", secret, text, doc)
		}
		if depth < 2 && json.Valid([]byte(text)) && strings.ContainsAny(text, "[{") {
			noneIn(t, []byte(text), secret, depth+1)
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	small := []byte(`{"assignee":"u_1","description":"Something went wrong in the payment flow, please look.","labels":["bug","urgent"],"priority":2,"team":"ENG","title":"Payment fails"}`)
	text := []byte(`{"content":[{"type":"text","text":"{\n  \"id\": \"ISS-1\",\n  \"title\": \"Payment fails\",\n  \"url\": \"https://linear.app/x/issue/ISS-1\"\n}"}]}`)
	secrets := []string{ghp}
	run := func(name string, raw []byte, secrets []string) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				hashed.Redact(raw, secrets)
			}
		})
	}
	run("small", small, nil)
	run("small, with a secret", small, secrets)
	run("text, with a secret", text, secrets)
	var issues strings.Builder
	for i := range 600 {
		issues.WriteString(`{"id":"ISS-` + itoa(i) + `","title":"The \"card\" is declined","url":"https://x.example/a%20b?tab=a&page=2","description":"## Steps\n\n1. Open the cart\n2. Pay with \u0060curl\u0060\n\n\tif err != nil {\n\t\treturn \"pay: \" + err\n\t}\n\nSee <b>notes</b>: these are many, and of no use to anybody here.","author":{"name":"Ann"},"next_page_token":"x"},`)
	}
	list := "[" + strings.TrimSuffix(issues.String(), ",") + "]"
	run("structured", []byte(`{"content":[],"structuredContent":{"issues":`+list+`}}`), secrets)
	run("document in a text", []byte(`{"content":[{"type":"text","text":`+quoted(list)+`}]}`), secrets)
	run("document in prose", []byte(`{"content":[{"type":"text","text":`+quoted("Found: "+quoted(list)+".")+`}]}`), secrets)
	run("1 MiB", []byte(`{"data":"`+strings.Repeat("The quick brown fox. ", 50_000)+`"}`), secrets)
}

func BenchmarkReplacer(b *testing.B) {
	body := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("The quick brown fox. ", 50) + `"}]}`)
	r := redact.NewReplacer(ghp)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r.Replace(body)
	}
}
