package sentry_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/sources"
	"sallyport/sources/sentry"
)

func TestAccount(t *testing.T) {
	const one, two = `{"id":"7","slug":"acme","name":"Acme Corp","status":{"id":"active"}}`, `{"id":"8","slug":"beta","name":"Beta"}`
	for _, c := range []struct {
		name, settings string
		answers        map[string]answer
		want           string // the organization; empty: none
		code           string
	}{
		{"one", "", map[string]answer{"GET /api/0/organizations/": {body: "[" + one + "]"}}, "acme", ""},
		{"several", "", map[string]answer{"GET /api/0/organizations/": {body: "[" + one + "," + two + "]"}}, "", "several_organizations"},
		{"none", "", map[string]answer{"GET /api/0/organizations/": {body: "[]"}}, "", "no_organization"},
		{"chosen", `{"organization":"beta"}`, map[string]answer{"GET /api/0/organizations/beta/": {body: two}}, "beta", ""},
		{"chosen, not there", `{"organization":"beta"}`, nil, "", ""},
		{"a scope that lacks", "", map[string]answer{"GET /api/0/organizations/": {status: 403, body: `{"detail":"no"}`}}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.answers)
			conn := s.conn(t, "/sentry", c.settings)
			if c.answers != nil {
				conn = s.conn(t, "", c.settings)
			}
			got, err := sentry.Module().Account(t.Context(), conn)
			if c.want == "" {
				var no *sources.Refusal
				if !errors.As(err, &no) || no.Code != c.code || no.Message == "" {
					t.Errorf("got %+v, %v; want the refusal %q", got, err, c.code)
				}
				return
			}
			if err != nil || string(got.Settings) != `{"organization":"`+c.want+`"}` || got.Name == "" {
				t.Errorf("got %+v %s, %v; want %s", got, got.Settings, err, c.want)
			}
		})
	}
}

// TestAccountsOfDifferentServers do not meet in one integration, though every
// server counts its organizations from 1.
func TestAccountsOfDifferentServers(t *testing.T) {
	answers := map[string]answer{}
	for _, path := range []string{"", "/a", "/b"} {
		answers["GET "+path+"/api/0/organizations/"] = answer{body: `[{"id":"1","slug":"sentry","name":"Sentry"}]`}
	}
	s := serve(t, answers)
	ids := map[string]bool{}
	for _, path := range []string{"", "/a", "/b"} {
		got, err := sentry.Module().Account(t.Context(), s.conn(t, path, ""))
		if err != nil || got.ID != strings.TrimPrefix(s.URL, "http://")+path+"#1" {
			t.Errorf("%q: %+v, %v", path, got, err)
		}
		ids[got.ID] = true
	}
	if len(ids) != 3 {
		t.Errorf("got %v", ids)
	}
}

func TestMetadata(t *testing.T) {
	more := func(results, cursor string) map[string][]string {
		return map[string][]string{"Link": {`<x>; rel="next"; results="` + results + `"; cursor="` + cursor + `"`}}
	}
	s := serve(t, map[string]answer{
		"GET /api/0/organizations/acme/projects/":     {body: `[{"id":"1","slug":"web","name":"Web","teams":[]}]`, header: more("false", "0:100:0")},
		"GET /api/0/organizations/acme/environments/": {body: `[{"id":"1","name":"production"},{"id":"2","name":"dev"}]`},
		"GET /api/0/projects/acme/web/environments/":  {body: `[{"id":"1","name":"production","isHidden":false}]`},
	})
	for query, environments := range map[string]string{
		"":    `[{"id":"1","name":"production"},{"id":"2","name":"dev"}]`,
		"web": `[{"id":"1","name":"production"}]`,
	} {
		got, err := sentry.Module().Metadata(t.Context(), s.conn(t, "", acme), map[string][]string{"project": {query}})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(got)
		want := `{"environments":` + environments + `,"levels":["fatal","error","warning","info","debug"],"projects":[{"id":"1","name":"Web","slug":"web"}]}`
		if d := cmp.Diff(want, string(text)); d != "" {
			t.Errorf("%q: %s", query, d)
		}
	}
}

// TestMetadataIsBounded follows pages, though not for ever.
func TestMetadataIsBounded(t *testing.T) {
	endless := answer{body: `[{"id":"1","slug":"web"}]`, header: map[string][]string{"Link": {`<x>; rel="next"; results="true"; cursor="0:100:0"`}}}
	s := serve(t, map[string]answer{"GET /api/0/organizations/acme/projects/": endless, "GET /api/0/organizations/acme/environments/": {body: `[]`}})
	if _, err := sentry.Module().Metadata(t.Context(), s.conn(t, "", acme), nil); err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 6 || !strings.Contains(s.asked[1], "cursor=0%3A100%3A0") {
		t.Errorf("asked %d times: %q", len(s.asked), s.asked)
	}
}
