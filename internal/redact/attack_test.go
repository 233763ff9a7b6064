package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"sallyport/internal/redact"
)

// places are documents in which § is a credential that only its place tells,
// in all the places that services and programs have for one.
var places = []string{
	// Headers.
	`{"headers":{"authorization":"§","X-Api-Key":["§"],"PRIVATE-TOKEN":"§","X-Amz-Security-Token":"§","X-Acme-Token":"§"}}`,
	`{"headers":[{"name":"Authorization","value":"§"},{"Key":"x-api-key","Value":"§"},{"k":"Cookie","v":"a=§"}]}`,
	`{"headers":[{"value":"§","name":"authorization"},{"value":{"a":["§"]},"x":1,"name":"token"}]}`,
	`{"env":[{"name":"DB_PASSWORD","value":"§"},{"value":"§","name":"A_TOKEN"}],"x":[[{"value":["§"],"key":"secret"}]]}`,
	`{"headers":[["Accept","x"],["Authorization","§"]]}`,
	`{"log":"> GET / HTTP/1.1\r\n> Authorization: token §\r\n> X-Gitlab-Token: §\n< Set-Cookie: sid=§; HttpOnly\r\n"}`,
	`{"curl":"curl -u me:§ -H 'Private-Token: §' --user \"me:§\" https://me:§@host/?private_token=§"}`,
	// Names.
	`{"env":{"GITHUB_TOKEN":"§","ACME_TOKEN":"§","SMTP_PASS":"§","STRIPE_SECRET_KEY":"§","A_VERY_LONG_NAME_FOR_THE_PRODUCTION_DATABASE_ADMIN_PASSWORD":"§"}}`,
	`{"user[password]":"§","credentials.api_key":"§","Api Key":"§","dbPassword":"§","slackBotToken":"§","client-secret":{"a":["§"]},"privateKey":[0,"§"]}`,
	`{"a":[{"b":{"C":[[{"ACCESS_TOKEN":["x",{"y":"§"}]}]]}}]}`,
	`{"p\u0061ssword":"§","\u0074oken":"§"}`,
	// Command lines and lists.
	`["deploy","--token","§","--password","§"]`,
	`["mysqldump","-uroot","-p§","db"]`,
	`{"cmd":"mysql -uroot -p§ db","netrc":"machine h login u password §\nmachine i\n login u\n password §"}`,
	`{"cmd":"deploy --api-key § --dry-run","env":"export ACME_SECRET=§ FOO=1"}`,
	`["-----BEGIN RSA PRIVATE` + ` KEY-----","§","§","-----END RSA PRIVATE` + ` KEY-----","x"]`,
	// URLs.
	`{"a":"https://x/?access_token=§&b=1","b":"https://x/#id_token=§","c":"https://x/cb?code=§-00000000&state=1","d":"https://x?next=%2F%3Ftoken%3D§%26a=1"}`,
	`{"a":"postgres://u:§@h/db","b":"see https%3A%2F%2Fu%3A§%40host%2F","c":"https://x?variables=%7B%22password%22%3A%22§%22%7D"}`,
	// Files of other languages.
	`{"yaml":"password: §\ndb:\n  api_key: \"§\"\n  secret: §\nenv:\n  - name: DB_PASSWORD\n    value: §\n"}`,
	`{"ini":"[db]\npassword = §\ntoken = '§'\nsecret=§\nAccountKey=§;x=1"}`,
	`{"code":"const apiKey = \"§\"; x := y; password := \"§\"; f(secret = '§')"}`,
	`{"ruby":"{\"password\"=>\"§\", :api_key=>\"§\", 'token' => '§'}"}`,
	`{"auth":{"pass":"§","type":"basic"},"x":{"auth":"me:§"},"headers":[{"name":"pass","value":"§"}],"cmd":["x","--pass","§"]}`,
	`{"python":"{'auth': '§', 'pass': '§', 'otp': '§', 'ok': 'pass'}","url":"https://x/?pass=§&code_verifier=§"}`,
	`{"python":"{'Authorization': 'token §', 'credentials': {'user': 'x', 'pw': '§'}}"}`,
	`{"xml":"<password>§</password><a:ApiKey>§</a:ApiKey><add key=\"ClientSecret\" value=\"§\"/>"}`,
	`{"form":"--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n§\r\n--x"}`,
	`{"npmrc":"//registry/:_authToken=§\n//r/:_password=§"}`,
	// JSON in strings, whole, cut off, in layers.
	`{"text":"{\"credentials\":{\"a\":[\"§\"]},\"headers\":[{\"value\":\"§\",\"name\":\"cookie\"}]}"}`,
	`{"text":"\"{\\\"credentials\\\":{\\\"a\\\":\\\"§\\\"}}\""}`,
	`{"text":"Result: {\"credentials\": {\"user\": \"§\", \"x\": [1"}`,
	`{"text":"data: {\\\"password\\\": \\\"§\\\", \\\"a\\\": 1}\n"}`,
	`{"text":"line 1 {\"token\" : \"§\"}\n{\"token\":\"§\"}"}`,
	`{"html":"<div data-x=\"{&quot;password&quot;:&quot;§&quot;}\"> <a href=\"/?a=1&amp;token=§\">"}`,
	`{"text":"{\"a\":\"[\"deploy\",\"--token\",\"§\"]\"}"}`,
	`["[\"[\\\"[\\\\\\\"[{\\\\\\\\\\\\\\\"token\\\\\\\\\\\\\\\":\\\\\\\\\\\\\\\"§\\\\\\\\\\\\\\\"}]\\\\\\\"]\\\"]\"]"]`,
}

func TestSecretsByTheirPlace(t *testing.T) {
	for _, raw := range places {
		raw = strings.ReplaceAll(raw, "§", "Canary7hunter2")
		if !json.Valid([]byte(raw)) {
			t.Fatalf("not valid: %s", raw)
		}
		out := string(hashed.Redact([]byte(raw), nil))
		if strings.Contains(out, "Canary7hunter2") || !json.Valid([]byte(out)) {
			t.Errorf("%s\nbecomes %s", raw, out)
		}
		if out := hashed.RedactText(raw, nil); strings.Contains(out, "Canary7hunter2") {
			t.Errorf("as a text, %s\nbecomes %s", raw, out)
		}
	}
}

// Names and texts that only look a little like it.
func TestWhatIsNoSecret(t *testing.T) {
	for _, raw := range []string{
		`{"next_page_token":"CAUQAA","nextPageToken":"x","NextToken":"x","NEXT_PAGE_TOKEN":"x","PAGE_TOKEN":"x","X-Continuation-Token":"x","X-Next-Token":"x","page_token":"x","continuation_token":"x","sync_token":"x"}`,
		`{"max_tokens":100,"token_count":3,"tokens":12,"tokens_used":5,"total_tokens":7,"tokenizer":"bpe","token_type":"bearer","token_id":"t_1"}`,
		`{"primary_key":"id","key":"ENG-1","sort_key":"a","public_key":"ssh-rsa AAAA","author":"me","authorized":"yes","secretary":"x","password_reset_required":"no"}`,
		`{"has_password":true,"password":null,"is_secret":false,"authentication":"none","basic":"a","cookie_policy":"x","compass":"n","BYPASS_CACHE":"x"}`,
		`{"required":["token","password","name"],"labels":["secret","api key"],"columns":[["a","b"],["c","d"]],"rows":[["token","name","id"],["password",1],["secret"]],"enum":["authorization","cookie"]}`,
		`[{"name":"title","value":"x"},{"key":"page_token","value":"x"},{"name":"token","value":true},{"value":"x","name":"y"}]`,
		`{"text":"tokens: 128, max_tokens=4096, author: me, page_token=abc123456789, Note: the secret is out; key: value; code=404&x=1"}`,
		`{"text":"a Basic idea; the token = a + b; if (password == x) { f(token: string) }; <token> and <b>secret</b>; C:\\new\\table 50%20 &lt;b&gt;"}`,
		`{"url":"https://x.example/?key=ENG-12345&code=12345678&page=2#L10","git":"git@github.com:a/b.git","mail":"a:b@c","n":"sha256:0123456789abcdef0123456789abcdef"}`,
		`{"paths":{"/users/reset-password":{"post":1},"/oauth/token":{"x":"y"}}}`,
		`["docker","run","-u","1000:1000","-p","80:80","--name","x"]`,
		`{"cmd":"docker run -u 1000:1000 --name token x --tokenize y"}`,
		`{"id":"0123456789abcdef","key-value":"x","keyboard":"y","auth":"required","a":"sk-toggleable","b":"task-1","risk":"gsk_","note":"ghp_"}`,
	} {
		if out := string(hashed.Redact([]byte(raw), nil)); out != raw {
			t.Errorf("%s\nbecomes %s", raw, out)
		}
	}
}

// The shapes of tokens, put together here so that no scanner takes them for
// real, within what texts they come in.
func TestTokenShapes(t *testing.T) {
	a := strings.Repeat("aB3dE6gH9j", 8)
	low := strings.ToLower(a)
	for _, token := range []string{
		"gh" + "p_" + a[:36], "gh" + "s_" + a[:36], "github" + "_pat_" + a[:22] + "_" + a[:59], "gl" + "pat-" + a[:20], "gl" + "rt-" + a[:20],
		"xox" + "b-123456789012-1234567890123-" + a[:24], "xox" + "e.xoxp-1-" + a, "xap" + "p-1-A0-123-" + a[:40],
		"lin_" + "api_" + a[:40], "lin_" + "oauth_" + a[:40], "sntr" + "ys_eyJpYXQiOjE3MDA=_" + a[:43], "sntr" + "yu_" + low[:64],
		"AK" + "IA" + "IOSFODNN7EXAMPLE", "AS" + "IA" + "IOSFODNN7EXAMPLE", "IQoJb3Jp" + "Z2lu" + a, "FwoGZXIv" + "YXdz" + a,
		"AI" + "za" + a[:35], "ya" + "29." + a[:60], "GOC" + "SPX-" + a[:28], "1/" + "/0" + a[:40],
		"sk_" + "live_" + a[:24], "rk_" + "live_" + a[:24], "wh" + "sec_" + a[:32],
		"sk-" + "proj-" + a[:48], "sk-" + "ant-api03-" + a, "np" + "m_" + a[:36], "py" + "pi-AgEIcHlwaS5vcmc" + a, "h" + "f_" + a[:34],
		"dckr_" + "pat_" + a[:27], "dop_" + "v1_" + low[:64], "dapi" + low[:32], "fi" + "gd_" + a[:40], "gl" + "sa_" + a[:32] + "_0a1b2c3d",
		"SG" + "." + a[:22] + "." + a[:43], "ke" + "y-" + low[:32], "ATA" + "TT3" + a, "AT" + "BB" + a[:28], "tske" + "y-auth-k1-" + a[:30], "hv" + "s." + a[:24],
		"shp" + "at_" + low[:32], "sq0" + "atp-" + a[:22], "NRA" + "K-" + strings.ToUpper(a[:27]), "PMA" + "K-" + low[:24] + "-" + low[:34], "pul" + "-" + low[:40],
		"hooks.slack.com/" + "services/T00000000/B00000000/" + a[:24], "discord.com/api/" + "webhooks/123456789012345678/" + a[:68],
		"123456789" + ":AA" + a[:33], "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + a[:43], "ewog" + "ICJhbGciOiAiSFMyNTYiCn0.eyJzdWIiOiIxIn0." + a[:43],
		"sb" + "p_" + low[:40], "nf" + "p_" + a[:36], "gs" + "k_" + a[:52], "xa" + "i-" + a, "pp" + "lx-" + a[:48], "r8" + "_" + a[:37], "rubygems" + "_" + low[:48],
	} {
		for _, form := range []string{"§", "x §, y", "(§)", `"§"`, "a=§&b=1", "https://h/§/x", `\n§`, `\u0020§`, "%0A§", "**§**", "`§`", "&quot;§&quot;", "<b>§</b>", "-§", "x:§"} {
			text := strings.Replace(form, "§", token, 1)
			raw, _ := json.Marshal(map[string]any{"a": []string{text}, text: 1})
			for _, out := range []string{string(hashed.Redact(raw, nil)), hashed.RedactText(text, nil)} {
				if strings.Contains(out, token[len(token)-12:]) {
					t.Errorf("%s becomes %s", text, out)
				}
			}
		}
	}
}

// A credential that was used is found under the escapes of others, in layers,
// also by the one who passes the answer on.
func TestKnownSecretsUnderEscapes(t *testing.T) {
	const secret = "s3cr3t/Canary+Ž=="
	for name, escape := range map[string]func(string) string{
		"JSON, each letter":   func(s string) string { return eachUnit(s, `\u%04x`) },
		"JSON, capitals":      func(s string) string { return eachUnit(s, `\u%04X`) },
		"JSON, some":          func(s string) string { return strings.ReplaceAll(s, "C", `\u0043`) },
		"JSON, slashes":       func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
		"percent, each byte":  percent,
		"percent, some":       func(s string) string { return strings.ReplaceAll(s, "C", `%43`) },
		"query":               url.QueryEscape,
		"HTML":                func(s string) string { return html.EscapeString(strings.ReplaceAll(s, "C", "&#67;")) },
		"HTML, hex":           func(s string) string { return strings.ReplaceAll(s, "C", "&#x43;") },
		"a program":           func(s string) string { return strings.ReplaceAll(s, "C", `\x43`) },
		"hex":                 func(s string) string { return hex.EncodeToString([]byte(s)) },
		"hex, capitals":       func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"base64":              b64,
		"base64, after more":  func(s string) string { return b64("ab:" + s + "\n") },
		"base64 for URLs":     func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("user:" + s)) },
		"base64 in a query":   func(s string) string { return url.QueryEscape(b64("~~" + s)) },
		"percent in percent":  func(s string) string { return url.QueryEscape(percent(s)) },
		"JSON in percent":     func(s string) string { return url.QueryEscape(eachUnit(s, `\u%04x`)) },
		"percent in JSON":     func(s string) string { return strings.ReplaceAll(percent(s), "%", `\u0025`) },
		"JSON in JSON":        func(s string) string { return strings.ReplaceAll(eachUnit(s, `\u%04x`), `\`, `\\`) },
		"JSON in JSON, again": func(s string) string { return strings.ReplaceAll(eachUnit(s, `\u%04x`), `\`, `\u005c`) },
	} {
		form := escape(secret)
		inner, _ := json.Marshal(form)
		for _, raw := range []string{
			`{"text":` + string(inner) + `}`, `{"text":"` + form + `"}`, `{"` + form + `":1}`, `{"text":"got {\"a\": \"` + form + `\"} and"}`, `data: "` + form + `"`,
		} {
			for how, out := range map[string]string{
				"Redact": string(hashed.Redact([]byte(raw), []string{secret})), "RedactText": hashed.RedactText(raw, []string{secret}),
				"ReplaceSecret": string(redact.ReplaceSecret([]byte(raw), []string{secret})),
			} {
				if strings.Contains(out, form) || !strings.Contains(out, "[redacted") && !strings.Contains(out, "[not valid JSON") {
					t.Errorf("%s, %s: %s becomes %s", name, how, raw, out)
				}
			}
		}
	}
}

// What is an escape to others may be a part of the secret itself.
func TestKnownSecretsWithEscapesInThem(t *testing.T) {
	const secret = `{"x":"a%40b\\u0041","y":"&amp;"}`
	for name, form := range map[string]string{
		"as it is": secret, "in a text": "x" + secret + "y", "JSON": quoted(secret), "JSON in JSON": "got " + quoted(quoted(secret)) + " and",
		"percent": percent(secret), "percent in percent": url.QueryEscape(percent(secret)), "HTML": html.EscapeString(secret),
	} {
		raw := []byte(`{"text":` + quoted("{"+form) + `}`)
		for how, out := range map[string]string{
			"Redact": string(hashed.Redact(raw, []string{secret})), "ReplaceSecret": string(redact.ReplaceSecret(raw, []string{secret})),
		} {
			if !strings.Contains(out, "[redacted") || strings.Contains(out, "40b") {
				t.Errorf("%s, %s: %s becomes %s", name, how, raw, out)
			}
		}
	}
}

func eachUnit(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}
