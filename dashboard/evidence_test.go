package dashboard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const evidenceOfS1 = "/api/v1/sessions/s1/evidence"

// uploadID is of the upload that there is.
const uploadID = "0199a3c6-9999-7000-8000-0123456789ab"

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// sends has the session of the house send a file, over a real connection.
func (h *house) sends(name, content, digest string) (status int, answer string) {
	h.t.Helper()
	server := httptest.NewServer(h.srv.Handler())
	defer server.Close()
	request, err := http.NewRequestWithContext(h.t.Context(), "PUT", server.URL+evidenceOfS1+"/"+uploadID+"/"+name, strings.NewReader(content))
	if err != nil {
		h.t.Fatal(err)
	}
	request.Host = strings.TrimPrefix(public, "http://")
	request.Header.Set("Authorization", "Bearer "+h.agent)
	request.Header.Set("X-Content-Sha256", digest)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw)
}

// sent has the session's upload have a file, whatever its name.
func (h *house) sent(name, content string) {
	h.t.Helper()
	digest := digestOf(content)
	h.insert("evidence_uploads", "session_id", "s1", "id", uploadID, "organization_id", org, "created_at", h.clock.now(), "touched_at", h.clock.now())
	h.insert("evidence_files", "session_id", "s1", "upload_id", uploadID, "name", name, "size", len(content), "sha256", digest, "content_type", "text/plain", "stored_at", h.clock.now())
	h.files.kept.Store(org+"/s1/"+uploadID+"/"+digest, []byte(content))
}

func TestEvidenceIsSentAndServedAsAFile(t *testing.T) {
	h := newHouse(t)
	const content = "<script>alert(1)</script>"
	for range 2 { // the same bytes again are no mistake
		if status, answer := h.sends("shots%2Fpage.html", content, digestOf(content)); status != 200 || !strings.Contains(answer, `"content_type":"text/html"`) {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if status, answer := h.sends("shots%2Fpage.html", "other", digestOf("other")); status != 409 || !strings.Contains(answer, "other_bytes") {
		t.Errorf("other bytes: %d %s", status, answer)
	}
	for _, bearer := range []string{h.member, h.agent} {
		r := h.want(200, bearer, "GET", evidenceOfS1+"/"+uploadID+"/shots%2Fpage.html", "")
		for name, want := range map[string]string{
			"Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="page.html"; filename*=UTF-8''page.html`,
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'", "Content-Length": "25", "Cache-Control": "no-store",
		} {
			if got := r.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s is %q", name, got)
			}
		}
		if r.body != content {
			t.Errorf("the file is %q", r.body)
		}
	}
	if list := h.want(200, h.member, "GET", evidenceOfS1, "").body; !strings.Contains(list, `"shots/page.html"`) || !strings.Contains(list, `"total":1`) {
		t.Errorf("the list is %s", list)
	}
	h.want(404, h.member, "GET", evidenceOfS1+"/"+uploadID+"/page.html", "")
	h.want(403, h.other, "GET", evidenceOfS1+"/"+uploadID+"/shots%2Fpage.html", "")
	h.want(404, h.member, "GET", "/api/v1/sessions/s2/evidence/"+uploadID+"/shots%2Fpage.html", "")
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"..%2Fx", "%2Fetc%2Fpasswd", "a%2F..%2F..%2Fx", "a%2F%2Fb", "a%00b", "a%5Cb", "%2e%2e", "a%0Ab", "%ff", strings.Repeat("a", 301)} {
		if status, answer := h.sends(name, "x", digestOf("x")); status != 400 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	for _, digest := range []string{"", "abc", strings.ToUpper(digestOf("x")), digestOf("x") + "0"} {
		if status, answer := h.sends("x", "x", digest); status != 400 {
			t.Errorf("digest %q: %d %s", digest, status, answer)
		}
	}
	h.files.kept.Range(func(key, _ any) bool {
		t.Errorf("something was kept: %v", key)
		return true
	})
}

// What a browser offers to save as is spelled: no name ends the header, hides
// what it is, or has a part that is a folder.
func TestNamesOfSavedFilesAreSpelled(t *testing.T) {
	for _, name := range []string{"a\"; filename=\"evil.exe", "dir/ü ñ.png", "photo\u202egnp.exe", "a\r\nX-Evil: 1", "a;b'c%41", "...", "a/\u200b"} {
		h := newHouse(t)
		h.sent(name, "x")
		r := h.want(200, h.member, "GET", evidenceOfS1+"/"+uploadID+"/"+url.PathEscape(name), "")
		header := r.Header.Get("Content-Disposition")
		kind, params, err := mime.ParseMediaType(header)
		if err != nil || kind != "attachment" || len(params) != 1 || r.Header.Get("X-Evil") != "" || strings.ContainsAny(params["filename"], "/\u202e\u200b\r\n") {
			t.Errorf("%q is %q: %v %v", name, header, params, err)
		}
	}
}

func TestThePageOfEvidenceShowsHostileNames(t *testing.T) {
	h := newHouse(t)
	h.sent("<img src=x>\u202e/a b.png", strings.Repeat("x", 2048))
	h.exec("UPDATE evidence_uploads SET folder = '<b>', manifest = ?, sealed_at = ?", digestOf("x"), h.clock.now())
	page := h.signIn("u-cyd").get("/sessions/s1/evidence").body
	if strings.Contains(page, "<img src=x>") || strings.Contains(page, "\u202e") || !strings.Contains(page, `href="/api/v1/sessions/s1/evidence/`+uploadID+`/%3Cimg%20src=x%3E%E2%80%AE%2Fa%20b.png" download`) || !strings.Contains(page, "2.0 KiB") {
		t.Errorf("the page is %s", page)
	}
}
