package token

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func testKey() []byte { return bytes.Repeat([]byte("key!"), 8) }

func sessionIDs(t testing.TB, key []byte) SessionIDs {
	t.Helper()
	ids, err := NewSessionIDs(key, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// issue returns an id for a client.
func issue(t testing.TB, key []byte, p *mcp.InitializeParams, protocol string, at time.Time) string {
	t.Helper()
	ids := sessionIDs(t, key)
	return ids.Issue(&Session{
		IssuedAt: at, Protocol: protocol, Capabilities: CapabilitiesOf(p.Capabilities),
		ClientName: p.ClientInfo.Name, ClientVersion: p.ClientInfo.Version,
	})
}

// sign returns the id with the content raw, valid or not.
func sign(t testing.TB, key, raw []byte) string {
	t.Helper()
	ids := sessionIDs(t, key)
	return idEncoding().EncodeToString(append(raw[:len(raw):len(raw)], ids.mac(raw)...))
}

// parse returns the SDK's state of a session id.
func parse(t testing.TB, key []byte, id string, now time.Time) (*mcp.ServerSessionState, bool) {
	t.Helper()
	ids := sessionIDs(t, key)
	s, ok := ids.Parse(id, now)
	return s.SDKState(), ok
}

// reencode parses the signed part of an id and encodes it again.
func reencode(b []byte) ([]byte, bool) {
	s, ok := parseSession(b)
	if !ok {
		return nil, false
	}
	return s.appendTo(nil, [16]byte(b[1:17])), true
}

// What an id says of its client, and that it stays small whatever that is.
func TestSessionID(t *testing.T) {
	now := time.Now()
	long := strings.Repeat("é", 10_000)
	huge := map[string]any{}
	for i := range 1000 {
		huge[fmt.Sprint("x/", i)] = long
	}
	p := &mcp.InitializeParams{
		Capabilities: &mcp.ClientCapabilities{
			Experimental: huge, Extensions: huge,
			Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}},
			Sampling:    &mcp.SamplingCapabilities{Tools: &mcp.SamplingToolsCapabilities{}}, //nolint:staticcheck // alive in the older era
			RootsV2:     &mcp.RootCapabilities{ListChanged: true},                           //nolint:staticcheck // as above
		},
		ClientInfo: &mcp.Implementation{Name: long, Version: long, Title: long},
	}
	id := issue(t, testKey(), p, "2025-06-18", now)
	if len(id) > 512 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Error(len(id), id)
	}
	state, ok := parse(t, testKey(), id, now)
	if !ok {
		t.Fatal("not read")
	}
	p.Capabilities.Experimental, p.Capabilities.Extensions = nil, nil
	p.Capabilities.Roots.ListChanged = true //nolint:staticcheck // as above
	if diff := cmp.Diff(p.Capabilities, state.InitializeParams.Capabilities); diff != "" {
		t.Error(diff)
	}
	if got := state.InitializeParams.ClientInfo.Name; got != long[:64] || state.InitializedParams == nil || state.NegotiatedProtocolVersion != "2025-06-18" {
		t.Error(got, state)
	}
	if again := issue(t, testKey(), p, "2025-06-18", now); again == id {
		t.Error("two sessions have one id")
	}
	if _, ok := parse(t, testKey(), id, now.Add(time.Hour)); ok {
		t.Error("an id that is too old")
	}
}

// An id has one spelling, and what it says one form.
func TestSessionIDForm(t *testing.T) {
	now := time.Now()
	read := func(id string) bool {
		_, ok := parse(t, testKey(), id, now)
		return ok
	}
	for _, name := range []string{"x", "xx", "xxx"} {
		p := &mcp.InitializeParams{ClientInfo: &mcp.Implementation{Name: name, Version: "1"}}
		id := issue(t, testKey(), p, "2025-06-18", now)
		if !read(id) {
			t.Error("not read:", id)
		}
		if read(id[:8] + "\n" + id[8:]) {
			t.Error("read with a line break")
		}
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			if other := id[:len(id)-1] + string(c); other != id && read(other) {
				t.Error("read with another end:", other)
			}
		}
		raw, _ := base64.RawURLEncoding.DecodeString(id)
		raw = raw[:len(raw)-16]
		if !read(sign(t, testKey(), raw)) {
			t.Error("the same, signed again, is not read")
		}
		for what, wrong := range map[string][]byte{
			"another format": append([]byte{2}, raw[1:]...), "more": append(bytes.Clone(raw), 0), "less": raw[:len(raw)-1],
			"next to nothing": raw[:1], "no texts": raw[:43], "a long text": append(append(raw[:43:43], 65), make([]byte, 67)...),
		} {
			if read(sign(t, testKey(), wrong)) {
				t.Error("read:", what)
			}
		}
	}
	cost := func(id string) float64 { return testing.AllocsPerRun(10, func() { read(id) }) }
	if cost(strings.Repeat("A", 100_000)) > cost("") {
		t.Error("an endless id is decoded")
	}
}

// What is signed of an id reads in one way only, whatever it is; and no id is
// read that was not signed with the key.
func FuzzSessionID(f *testing.F) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // each process of the fuzzer has its own
	now := time.Now()
	id := issue(f, key, &mcp.InitializeParams{ClientInfo: &mcp.Implementation{Name: "x", Version: "1"}}, "2025-11-25", now)
	raw, _ := base64.RawURLEncoding.DecodeString(id)
	f.Add(raw)
	f.Add(raw[:len(raw)-16])
	f.Add(raw[:50])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if again, ok := reencode(raw); ok && len(again) == len(raw) && !bytes.Equal(again[1:], raw[1:]) {
			t.Fatalf("%q became %q", raw, again)
		}
		text := base64.RawURLEncoding.EncodeToString(raw)
		for _, one := range []string{text, string(raw)} {
			if _, ok := parse(t, key, one, now); ok && one != id {
				t.Fatalf("read: %q", one)
			}
		}
	})
}
