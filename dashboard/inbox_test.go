package dashboard_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/internal/vault"
)

// Whoever decides knows whether anybody would hear of it.
func TestTheCardTellsWhoWaits(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	id := h.pending("s1")
	for _, row := range []struct {
		ago      time.Duration
		answered bool
		state    string
		says     string
	}{
		{29 * time.Second, false, "waits", "The agent is waiting for a decision."},
		{29 * time.Second, true, "waits", "The agent is waiting for a decision."},
		{31 * time.Second, true, "told", "may check again later"},
		{31 * time.Second, false, "gone", "The agent is no longer waiting"},
	} {
		h.exec("UPDATE open_calls SET waiter_seen_at = ?, answered = ? WHERE id = ?", h.clock.now().Add(-row.ago), row.answered, id)
		if body := b.get("/").body; !strings.Contains(body, `waits is-`+row.state+`" data-waits>`) || !strings.Contains(body, row.says) {
			t.Errorf("%+v is not said:\n%s", row, body)
		}
		var said map[string]struct{ State, Text string }
		raw := b.get("/inbox/waiters?id=" + id + "&id=none").body
		if err := json.Unmarshal([]byte(raw), &said); err != nil || len(said) != 1 || said[id].State != row.state || !strings.Contains(said[id].Text, row.says) {
			t.Errorf("%+v: the script is told %s", row, raw)
		}
	}
	b.change("POST", "/api/v1/invocations/"+id+"/deny", `{}`)
	if body := b.get("/inbox/" + id).body; strings.Contains(body, "data-waits") {
		t.Error("a call that is decided has somebody wait for a decision")
	}
}

// The inbox comes in parts, which follow one another, and a card that the page
// let go of comes back as it is now.
func TestTheInboxComesInParts(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	var ids []string
	for range 60 {
		ids = append(ids, h.pending("s1"))
	}
	seen := regexp.MustCompile(` id="inv-([^"]+)"`)
	next := regexp.MustCompile(`data-next="([^"]+)"`)
	var shown []string
	for at := "/"; at != ""; {
		body := b.get(at).body
		for _, m := range seen.FindAllStringSubmatch(body, -1) {
			shown = append(shown, m[1])
		}
		cursor := next.FindStringSubmatch(body)
		if at = ""; cursor != nil {
			at = "/inbox/more?cursor=" + cursor[1]
		}
	}
	if len(shown) != 60 || shown[0] != ids[59] || shown[25] != ids[34] || shown[59] != ids[0] {
		t.Errorf("the parts have %d cards: %v", len(shown), shown)
	}
	b.change("POST", "/api/v1/invocations/"+ids[3]+"/deny", `{}`)
	body := b.get("/inbox/cards?id=" + ids[3] + "&id=none&id=" + ids[4]).body
	if strings.Count(body, "<li ") != 2 || strings.Index(body, ids[3]) > strings.Index(body, ids[4]) || !strings.Contains(body, "Denied by ben") {
		t.Errorf("cards by their ids:\n%s", body)
	}
	if r := b.get("/inbox/cards?" + strings.Repeat("id=x&", 51)); r.StatusCode != 400 {
		t.Errorf("very many cards at once: %d", r.StatusCode)
	}
	if body := b.get("/inbox/count").body; strings.TrimSpace(body) != `{"calls":59,"grants":0,"variables":0,"runs":0}` {
		t.Errorf("the count is %s", body)
	}
	if body := b.get("/?cursor=" + next.FindStringSubmatch(b.get("/").body)[1]).body; !strings.Contains(body, "Back to newest") {
		t.Error("an older part does not lead back")
	}
}

// A call whose params cannot be opened hides no other, and can be denied.
func TestOneCallCannotBeOpened(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	good, broken := h.pending("s1"), h.pending("s1")
	h.exec("UPDATE open_calls SET sealed_params = x'00' WHERE id = ?", broken)
	for _, path := range []string{"/", "/inbox/more", "/inbox/cards?id=" + broken + "&id=" + good, "/inbox/" + broken, "/inbox/" + broken + "/grant", "/invocations/" + broken} {
		r := b.get(path)
		if r.StatusCode != 200 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
		for card := range strings.SplitSeq(r.body, "<li ") {
			whole := strings.Contains(card, `data-id="`+good+`"`)
			if !whole && !strings.Contains(card, `data-id="`+broken+`"`) {
				continue
			}
			if strings.Contains(card, "cannot be decrypted") == whole || strings.Contains(card, `data-decide="approve"`) != whole ||
				strings.Contains(card, "data-grant") != whole || !strings.Contains(card, `data-decide="deny"`) {
				t.Errorf("%s: the card is\n%s", path, card)
			}
		}
	}
	if log := h.log.String(); !strings.Contains(log, broken) || !strings.Contains(log, vault.ErrSealed.Error()) {
		t.Errorf("the log has %s", log)
	}
}

// A page stays light, whatever the params; nobody is asked to decide on a card
// that does not show them all.
func TestLongParamsComeAlone(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	var long string
	for i := range 20 {
		long = h.holds("s1", "create", fmt.Sprintf(`{"text":%q}`, strings.Repeat(fmt.Sprintf("line %d\n", i), 500)))
	}
	short := h.pending("s1")
	body := b.get("/").body
	if len(body) > 100_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
	cards := strings.Split(body, "<li ")
	for _, c := range cards {
		whole := strings.Contains(c, "<pre")
		if strings.Contains(c, "data-id=") && (whole != strings.Contains(c, `data-decide="approve"`) || whole == strings.Contains(c, "data-partial")) {
			t.Errorf("a card offers a decision without its params, or does not offer one with them:\n%s", c)
		}
		if strings.Contains(c, `data-id="`+short+`"`) && !whole {
			t.Error("a card of few params lacks them")
		}
	}
	alone := b.get("/inbox/" + long).body
	if strings.Count(alone, `<span class="line">`) != 501 || strings.Contains(alone, "data-partial") || !strings.Contains(alone, "text of 501 lines") {
		t.Error("a card alone lacks some of its params")
	}
}

// A file that is packed is whole, also for who cannot unpack it.
func TestPackedFilesAreWhole(t *testing.T) {
	h := newHouse(t)
	const last = "})();\n"
	for _, accepted := range []string{"gzip", "identity"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "/assets/core.js", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "gate.test:8787"
		r.Header.Set("Accept-Encoding", accepted)
		w := httptest.NewRecorder()
		h.srv.Handler().ServeHTTP(w, r)
		var body io.Reader = w.Body
		if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != (accepted == "gzip") {
			t.Errorf("%s is answered packed %t", accepted, packed)
		} else if packed {
			if body, err = gzip.NewReader(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(text), last) {
			t.Errorf("%s: %d bytes, %v", accepted, len(text), err)
		}
	}
}
