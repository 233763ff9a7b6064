package outbound_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/outbound"
)

func TestRequestsGoOutAsTheyAre(t *testing.T) {
	var got []string
	c, p := served(t, outbound.Config{UserAgent: "gate/1"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = []string{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.UserAgent(), string(body), fmt.Sprint(r.ContentLength)}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	})
	base := *c.Base()
	base.Path = "/api/0/"
	resp, err := p.Client("one", &base).Do(t.Context(), &outbound.Request{
		Method: "PUT", Path: outbound.Path("issues", "a/b c%", "ü") + "/", Query: url.Values{"q": {"is:x y"}, "a": {"1", "2"}},
		Header: http.Header{"Authorization": {"Bearer x"}}, Body: []byte(`{"a":1}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"PUT", "/api/0/issues/a%2Fb%20c%25/%C3%BC/?a=1&a=2&q=is%3Ax+y", "Bearer x", "gate/1", `{"a":1}`, "7"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if resp.Status != http.StatusTeapot || string(resp.Body) != "short and stout" || resp.Header.Get("X-Answer") != "yes" {
		t.Errorf("answered %+v", resp)
	}
}

func TestPathsStayBelowTheBase(t *testing.T) {
	c, _ := served(t, outbound.Config{}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s arrived", r.RequestURI) })
	for _, path := range []string{
		"x", "/..", "/a/../b", "/%2e%2E/x", "/a%2F..%2Fb", "/a%5C..%5Cb", "/.", "/a/%2e/b", "//x", "/a//b", "/a?b", "/a#b",
		"/a%zz", "/a b", "/a%2fb c", `/a\..\b`, "/%", "@evil.example/", ":1/", outbound.Path("repos", ".."), outbound.Path("", "x"),
	} {
		_, err := c.Do(t.Context(), get(path))
		fails(t, err, action.ErrInvalid, "invalid_path", "no request was sent")
	}
	for _, bad := range []string{"a\r\nX-Evil: 1", "a\x00"} {
		r := get("/x")
		r.Header = http.Header{"Authorization": {"canary" + bad}}
		_, err := c.Do(t.Context(), r)
		fails(t, err, action.ErrUnavailable, "upstream_credential", "line breaks")
	}
}

func TestRedirectsAreHandedOutWhereAskedFor(t *testing.T) {
	var asked []string
	c, _ := served(t, outbound.Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
		}
	})
	for _, test := range []struct {
		stay   bool
		status int
		asked  []string
	}{{true, 307, []string{"/old"}}, {false, 200, []string{"/old", "/new"}}} {
		asked = nil
		r := get("/old")
		r.NoRedirect = test.stay
		resp, err := c.Do(t.Context(), r)
		if err != nil || resp.Status != test.status {
			t.Errorf("%+v, %v", resp, err)
		}
		if d := cmp.Diff(test.asked, asked); d != "" {
			t.Error(d)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("repos", "../x")
	f.Add("%2e%2e", "a\\..")
	f.Fuzz(func(t *testing.T, a, b string) {
		path := outbound.Path(a, b)
		if strings.Count(path, "/") != 2 {
			t.Fatalf("%q", path)
		}
		if outbound.CheckPath(path) != nil {
			return
		}
		u, err := url.Parse("http://host/base" + path)
		if err != nil || u.Host != "host" || u.RawQuery != "" || !strings.HasPrefix(u.JoinPath().EscapedPath(), "/base/") {
			t.Fatalf("%q leads to %v, %v", path, u, err)
		}
	})
}

func TestAnswersAreWholeOrErrors(t *testing.T) {
	c, _ := served(t, outbound.Config{MaxBody: 1000}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			fmt.Fprint(w, strings.Repeat("x", 1000))
		case "/large":
			fmt.Fprint(w, strings.Repeat("x", 1001))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, strings.Repeat("x", 1_000_000))
			z.Close()
		case "/zipped":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, "unzipped")
			z.Close()
		case "/cut":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "x")
		}
	})
	for path, want := range map[string]int{"/fits": 1000, "/zipped": 8} {
		if resp, err := c.Do(t.Context(), get(path)); err != nil || len(resp.Body) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, code := range map[string]string{"/large": "upstream_too_large", "/bomb": "upstream_too_large", "/cut": "upstream_failed"} {
		_, err := c.Do(t.Context(), post(path))
		fails(t, err, action.ErrOutcomeUnknown, code, "127.0.0.1")
	}
}
