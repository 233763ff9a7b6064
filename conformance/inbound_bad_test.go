package conformance_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// with returns the delivery with a header changed; without values: without it.
func (d delivery) with(name string, values ...string) delivery {
	d.header = d.header.Clone()
	d.header.Del(name)
	for _, v := range values {
		d.header.Add(name, v)
	}
	return d
}

// ofLinear signs a body as Linear does, which says in it when that was.
func ofLinear(secret string, at time.Time, more string) delivery {
	body := fmt.Sprintf(`{"type":"Project","action":"create","organizationId":"o1","webhookTimestamp":%d%s}`, at.UnixMilli(), more)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return delivery{http.Header{"Linear-Delivery": {"l1"}, "Linear-Signature": {hex.EncodeToString(mac.Sum(nil))}}, body}
}

// ofStandard signs a body as Standard Webhooks has it.
func ofStandard(t *testing.T, secret, id string, at time.Time, body string) delivery {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac, sent := hmac.New(sha256.New, key), fmt.Sprint(at.Unix())
	fmt.Fprintf(mac, "%s.%s.%s", id, sent, body)
	return delivery{http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {sent}, "Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}, body}
}

const gitHubDeployed = "deployed-with-the-gateway-0a1b2c"

// Whatever is posted, its sender is told what it needs to know and no more, and
// what nobody signed leaves nothing behind.
func TestInboundBadDeliveries(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--webhook-secrets", "github="+gitHubDeployed)
	r := g.gitHub("triage")
	custom := g.trigger("triage", "custom", nil)
	linear := g.trigger("triage", "linear", map[string]any{"event_type": "issue", "secret": "lin_wh_0123456789abcdef"})
	good, key := r.issue(1)
	signature := good.header.Get("X-Hub-Signature-256")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, good.body)
	z.Close()
	now, later := time.Now(), time.Now().Add(10*time.Minute)
	to := func(path string) string { return g.URL + "/webhooks/" + path }
	for _, c := range []struct {
		name, to string
		d        delivery
		status   int
	}{
		{"an unknown provider", to("direct/nothing"), good, 404},
		{"a provider that has no webhooks", to("direct/gmail"), good, 404},
		{"an unknown trigger", to("direct/github/0199a3c4-5d6e-7f80-9123-456789abcdef"), good, 404},
		{"a trigger of another provider", to("direct/linear/" + r.ID), good, 404},
		{"a trigger as a custom one", to("custom/" + r.ID), good, 404},
		{"an unknown automation", to("automation/nothing"), good, 404},
		{"nothing", to(""), good, 404},
		{"a path that leads out", to("direct/github/..%2f..%2fapi"), good, 404},
		{"no signature", r.at(g), good.with("X-Hub-Signature-256"), 401},
		{"an empty signature", r.at(g), good.with("X-Hub-Signature-256", ""), 401},
		{"a wrong signature", r.at(g), good.with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), 401},
		{"the signature twice", r.at(g), good.with("X-Hub-Signature-256", signature, signature), 401},
		{"two signatures in one", r.at(g), good.with("X-Hub-Signature-256", signature+","+signature), 401},
		{"SHA-1 alone", r.at(g), good.with("X-Hub-Signature-256").with("X-Hub-Signature", "sha1="+strings.Repeat("0", 40)), 401},
		{"another body", r.at(g), delivery{good.header, good.body + " "}, 401},
		{"the deployment's secret at a trigger's URL", r.at(g), ofGitHub(gitHubDeployed, "x", good.body), 401},
		{"a trigger's secret at the provider's URL", to("direct/github"), good, 401},
		{"a provider's URL without a secret", to("direct/linear"), ofLinear("", now, ""), 401},
		{"Nango's without a secret", to("nango"), good, 401},
		{"a signature by no secret", r.at(g), ofGitHub("", "x", good.body), 401},
		{"a time that is over", linear.at(g), ofLinear(linear.Secret, now.Add(-10*time.Minute), ""), 401},
		{"a time to come", linear.at(g), ofLinear(linear.Secret, later, ""), 401},
		{"no time", linear.at(g), ofLinear(linear.Secret, time.UnixMilli(0), ""), 401},
		{"an old time at one's own", custom.at(g), ofStandard(t, custom.Secret, "m", now.Add(-10*time.Minute), "{}"), 401},
		{"a time that was not signed", custom.at(g), ofStandard(t, custom.Secret, "m", now.Add(-10*time.Minute), "{}").with("Webhook-Timestamp", fmt.Sprint(now.Unix())), 401},
		{"an id that was not signed", custom.at(g), ofStandard(t, custom.Secret, "m", now, "{}").with("Webhook-Id", "n"), 401},
		{"over 25 MiB of GitHub", r.at(g), ofGitHub(r.Secret, "x", strings.Repeat(" ", 25<<20+1)), 413},
		{"over 1 MiB of another", linear.at(g), ofLinear(linear.Secret, now, strings.Repeat(" ", 1<<20)), 413},
		{"over 1 MiB of one's own", custom.at(g), ofStandard(t, custom.Secret, "m", now, strings.Repeat(" ", 1<<20+1)), 413},
		{"a body in gzip", r.at(g), delivery{good.with("Content-Encoding", "gzip").header, zipped.String()}, 415},
	} {
		got, err := c.d.send(t, c.to)
		if err != nil || got.Status != c.status {
			t.Errorf("%s: %d %s, %v; want %d", c.name, got.Status, got.Body, err, c.status)
		}
		for _, detail := range []string{"signature is", "secret:", r.ID, linear.ID, "octocat", "stale", "time is"} {
			if (c.status == 401 || c.status == 404) && bytes.Contains(got.Body, []byte(detail)) {
				t.Errorf("%s: the answer tells too much: %s", c.name, got.Body)
			}
		}
	}
	if rows := rowsOf[receipt](g.api, deliveriesPath, ""); len(rows) != 0 {
		t.Fatalf("what was refused left %+v", rows)
	}
	for path, status := range map[string]int{"direct/github": 200, "direct/github/" + r.ID: 200, "direct/linear": 404, "nango": 404, "direct/nothing": 404, "direct/github/nothing": 404} {
		if got := g.do("GET", "/webhooks/"+path, nil); got.Status != status {
			t.Errorf("GET %s: %d %s", path, got.Status, got.Body)
		}
	}
	// None of all that keeps the real ones out.
	good.taken(t, r.at(g))
	form, second := "payload="+url.QueryEscape(issueBody(2)), "of-a-form"
	ofGitHub(r.Secret, second, form).with("Content-Type", "application/x-www-form-urlencoded").taken(t, r.at(g))
	own := ofStandard(t, custom.Secret, "of-my-own", now, `not JSON`)
	own.taken(t, custom.at(g))
	ofLinear(linear.Secret, now, "").taken(t, linear.at(g)) // has nothing to tell
	g.onceEach(key, second, "of-my-own")
}

// What is genuine and cannot be read has its row fail, at the first attempt, with
// the reason; and all others are worked off meanwhile.
func TestInboundUnreadableDeliveries(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--inbox-pause", "1ms", "--inbox-every", "20ms")
	r := g.gitHub("triage")
	deep := strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)
	for id, body := range map[string]string{
		"no JSON": "hello", "deep": strings.Replace(issueBody(3), `"body":"It does not work."`, `"body":`+deep, 1), "half": issueBody(4)[:100],
		"nothing": "", "an array": "[]",
	} {
		ofGitHub(r.Secret, id, body).taken(t, r.at(g))
	}
	d, key := r.issue(1)
	d.taken(t, r.at(g))
	g.await("the good one's event", func() bool { return len(rowsOf[inboundEvent](g.api, inboundPath, "")) == 1 })
	g.workedOff()
	failed := rowsOf[receipt](g.api, deliveriesPath, "status=failed")
	for _, one := range failed {
		if one.Attempt != 1 || one.LastError == "" || strings.Contains(one.LastError, "panic") {
			t.Errorf("a delivery failed as %+v", one)
		}
	}
	if events := rowsOf[inboundEvent](g.api, inboundPath, ""); len(failed) != 5 || len(events) != 1 || events[0].sent() != key {
		t.Errorf("of five unreadable deliveries %d failed: %+v, and there are the events %+v", len(failed), failed, events)
	}
	if t.Failed() {
		return
	}
	one := failed[0]
	g.must("POST", deliveriesPath+"/"+one.ID+"/redrive", nil, nil)
	g.workedOff()
	var again receipt
	if g.must("GET", deliveriesPath+"/"+one.ID, nil, &again); again.Status != "failed" {
		t.Errorf("one that was redriven is %+v", again)
	}
}

// A flood is held back at its URL alone, and what nobody signed is none of it.
func TestInboundFlood(t *testing.T) {
	t.Parallel()
	const limit = 20
	g := startGateway(t, "--webhook-rate", fmt.Sprint(limit))
	r, calm := g.gitHub("triage"), g.gitHub("calm")
	status := func(d delivery, to string) int {
		got, err := d.send(t, to)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == http.StatusTooManyRequests && got.Header.Get("Retry-After") == "" {
			t.Error("who comes too often is not told when to come again")
		}
		return got.Status
	}
	for n := range 3 * limit {
		d, _ := r.issue(n)
		if got := status(d.with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), r.at(g)); got != 401 {
			t.Fatalf("a forged delivery: %d", got)
		}
	}
	taken, refused := 0, 0
	for n := range 2*limit + 1 { // if a minute begins meanwhile, the limit does
		d, _ := r.issue(n)
		switch got := status(d, r.at(g)); {
		case got == http.StatusOK:
			taken++
		case got == http.StatusTooManyRequests && n >= limit:
			refused++
		default:
			t.Fatalf("delivery %d: %d", n, got)
		}
	}
	if refused == 0 {
		t.Errorf("%d deliveries were taken, and none refused", taken)
	}
	d, _ := calm.issue(1)
	d.taken(t, calm.at(g))
	g.workedOff()
	if rows := len(rowsOf[receipt](g.api, deliveriesPath, "")); rows != taken+1 {
		t.Errorf("of %d deliveries that were taken there are %d", taken+1, rows)
	}
}

// Who is slow keeps nobody waiting but himself, and is told so; who hangs up
// leaves nothing.
func TestInboundSlowDeliveries(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	r := g.gitHub("triage")
	d, key := r.issue(1)
	var slow []net.Conn
	for n := range 20 {
		var dial net.Dialer
		conn, err := dial.DialContext(t.Context(), "tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: %s\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s",
			strings.TrimPrefix(r.at(g), g.URL), g.addr, key, d.header.Get("X-Hub-Signature-256"), len(d.body), d.body[:len(d.body)-1])
		if n%2 == 0 {
			conn.Close()
			continue
		}
		slow = append(slow, conn)
	}
	other, another := r.issue(2)
	other.taken(t, r.at(g))
	g.onceEach(another)
	for _, conn := range slow {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || got.StatusCode != http.StatusRequestTimeout {
			t.Fatalf("a slow sender: %v, %+v", err, got)
		}
		got.Body.Close()
	}
	d.taken(t, r.at(g))
	g.onceEach(another, key)
}
