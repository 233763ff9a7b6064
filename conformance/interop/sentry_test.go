package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// described is the version of Sentry's API description (the package
// sentry-api-schema) that the golden requests were validated against.
const described = "openapi 0.272.0"

const sentry = "../../sources/sentry/testdata"

// TestSentryRequestsWereValidated holds the golden requests to those that Sentry's
// API description was found to allow. To validate them anew, name a file of the
// description in SENTRY_OPENAPI and run the test with -update.
func TestSentryRequestsWereValidated(t *testing.T) {
	files, err := filepath.Glob(sentry + "/requests/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden requests: %v", err)
	}
	var list strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "%s %x %s\n", filepath.Base(f), sha256.Sum256(text), described)
	}
	path := os.Getenv("SENTRY_OPENAPI")
	if path == "" {
		if list.String() != read(t, sentry+"/validated.txt") {
			t.Error("the golden requests are not those that were validated: name Sentry's API description in SENTRY_OPENAPI and run the test with -update")
		}
		return
	}
	router := description(t, path)
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if err := allowed(router, text); err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		}
	}
	validated(t, sentry+"/validated.txt", list.String())
}

// description loads Sentry's API description, but for what is wrong in it.
func description(t *testing.T, path string) routers.Router {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = nil // only one of them may be named, and none of one's own
	for _, item := range doc.Paths.Map() {
		// It says that a change must name everything; the API takes a part.
		if item.Put != nil {
			body := item.Put.RequestBody.Value.Content["application/json"].Schema.Value
			body.Required = nil
			for _, part := range body.Properties["statusDetails"].Value.AllOf {
				part.Value.Required = nil
			}
			closed := false
			body.AdditionalProperties = openapi3.AdditionalProperties{Has: &closed}
		}
		// It leaves out that an event's own id is one, too.
		if item.Get != nil {
			if p := item.Get.Parameters.GetByInAndName("path", "event_id"); p != nil {
				p.Schema.Value.Enum = nil
			}
		}
	}
	router, err := legacy.NewRouter(doc, openapi3.DisableExamplesValidation()) // some of them do not fit it
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// allowed validates method, path, query and body of a request.
func allowed(router routers.Router, text []byte) error {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return err
	}
	route, path, err := router.FindRoute(r)
	if err != nil {
		return err
	}
	for name := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("there is no query parameter %s", name)
		}
	}
	return openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: path, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	})
}
