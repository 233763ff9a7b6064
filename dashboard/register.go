package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
	"sallyport/api"
)

// Handle mounts a route whose response is a JSON body.
func Handle[In, Out any](s *Server, rt api.Route[In, Out], h func(context.Context, *Principal, *In) (Out, error)) {
	HandleRaw(s, rt, h)
}

// HandleRaw mounts a route whose request is not only parameters and a JSON body:
// its input is a type of the handler's package.
func HandleRaw[In, Out, I any](s *Server, rt api.Route[In, Out], h func(context.Context, *Principal, *I) (Out, error)) {
	register(s, &rt.Operation, func(ctx context.Context, p *Principal, in *I) (*body[Out], error) {
		out, err := h(ctx, p, in)
		return &body[Out]{out}, err
	})
}

// HandleNone mounts a route whose response has no body.
func HandleNone[In any](s *Server, rt api.Route[In, api.None], h func(context.Context, *Principal, *In) error) {
	register(s, &rt.Operation, func(ctx context.Context, p *Principal, in *In) (*struct{}, error) { return nil, h(ctx, p, in) })
}

// HandleStatus mounts a route whose response sets its status.
func HandleStatus[In, Out any](s *Server, rt api.Route[In, Out], h func(context.Context, *Principal, *In) (*StatusResponse[Out], error)) {
	register(s, &rt.Operation, h)
}

// HandleStream mounts a route that streams its response.
func HandleStream[In any](s *Server, rt api.Route[In, api.None], h func(context.Context, *Principal, *In) (*StreamResponse, error)) {
	register(s, &rt.Operation, h)
}

// register mounts a handler with its types erased.
func register[I, O any](s *Server, rt *api.Operation, h func(context.Context, *Principal, *I) (*O, error)) {
	s.operation(rt, reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, p *Principal, in any) (any, error) {
		out, err := h(ctx, p, in.(*I))
		if out == nil || err != nil {
			return nil, err
		}
		return out, nil
	})
}

// Access returns who may use a page and marks the page as mounted.
func (s *Server) Access(pattern string) api.Access {
	who, ok := s.roles[pattern]
	if !ok {
		panic("dashboard: no role for " + pattern)
	}
	s.mounted[pattern] = who
	return who
}

// MayOpen reports whether the page exists and the person may see it.
func (s *Server) MayOpen(p *Principal, pattern string) bool {
	who, ok := s.roles[pattern]
	return ok && Permit(who, p, "") == nil
}

// HandlePublic mounts a route that needs no credential.
func (s *Server) HandlePublic(mux *http.ServeMux, pattern string, h http.HandlerFunc) {
	if s.Access(pattern) != api.Public {
		panic("dashboard: " + pattern + " is not public")
	}
	mux.HandleFunc(pattern, h)
}

// mount registers all routes.
func (s *Server) mount(mux *http.ServeMux, parts []Part) error {
	s.API = humago.New(mux, s.apiConfig())
	description := sync.OnceValues(s.describe) // on demand: it would double the startup time
	s.HandlePublic(mux, "GET /api/v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		text, err := description()
		if err != nil {
			s.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	})
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		s.Fail(w, r, withNext(&Principal{}, action.NewError("no_such_route", r.Method, r.URL.Path)))
	})
	s.HandlePublic(mux, "GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.HandlePublic(mux, "GET /readyz", s.ready)
	s.HandlePublic(mux, "POST /login", s.redeem)
	s.HandlePublic(mux, "POST /logout", s.signOut)
	for _, part := range parts {
		if err := part(s, mux); err != nil {
			return err
		}
	}
	for pattern := range s.roles {
		if _, ok := s.mounted[pattern]; !ok {
			return fmt.Errorf("dashboard: nothing serves %s", pattern)
		}
	}
	return nil
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.closing:
		s.Fail(w, r, action.Errorf(action.ErrNotReady, "shutting_down", "This instance is shutting down."))
		return
	default:
	}
	if s.Ready() != nil { // Ready logs the reason once, not at each probe
		s.Fail(w, r, action.NewError("not_ready"))
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// decodeJSON refuses trailing data and keeps number lexemes: params may hold any
// number that JSON can express. Values for huma's validator get float64s, which
// is what it understands.
func decodeJSON(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		var syntax *json.SyntaxError
		var mismatch *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return fmt.Errorf("this is not valid JSON at byte %d", syntax.Offset)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("this ends too early")
		case errors.As(err, &mismatch):
			return fmt.Errorf("the value of %s has the wrong type or is out of range", mismatch.Field)
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the object")
	}
	if checked, ok := v.(*any); ok {
		*checked = plainNumbers(*checked)
	}
	return nil
}

// plainNumbers replaces the numbers in v that fit a float64.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// EncodeJSON writes v as JSON without escaping HTML, as API clients expect.
func EncodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// body is a response with a JSON body only.
type body[T any] struct{ Body T }

// StatusResponse is a response that sets its status.
type StatusResponse[T any] struct {
	Status int
	Body   T
}

// NonNil returns an empty slice for a nil one, so that it is encoded as [].
func NonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// StreamResponse is a response that is written by a function.
type StreamResponse struct{ Body func(huma.Context) }

const apiDoc = `The API of the gateway for people and programs. Errors are problem documents whose ` + "`detail`" + ` says what to do. ` +
	`A browser sends its cookie and, with every change, the header X-Sallyport-Key; programs send an API key, agents their session token.`

// apiConfig returns the OpenAPI configuration. huma's default would add schema
// links to every response.
func (s *Server) apiConfig() huma.Config {
	format := huma.Format{Unmarshal: decodeJSON}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Sallyport", Version: "1", Description: apiDoc},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"session": {Type: "http", Scheme: "bearer", Description: "A session token (sps_…) of an agent."},
					"apiKey":  {Type: "http", Scheme: "bearer", Description: "An API key (spk_…) with its role."},
					"browser": {Type: "apiKey", In: "cookie", Name: "__Host-sallyport", Description: "The cookie of a browser; changes also need X-Sallyport-Key and the exact Origin."},
				},
			},
		},
		Formats: map[string]huma.Format{"application/json": format, "json": format},
	}
}

// problems returns the error responses of a route.
func (s *Server) problems(rt *api.Operation) map[string]*huma.Response {
	codes := []int{http.StatusBadRequest, http.StatusUnauthorized}
	if rt.Who != api.Anyone {
		codes = append(codes, http.StatusForbidden)
	}
	if strings.Contains(rt.Path, "{") {
		codes = append(codes, http.StatusNotFound)
	}
	out := map[string]*huma.Response{}
	schema := s.API.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	for _, code := range append(codes, rt.Errors...) {
		out[strconv.Itoa(code)] = &huma.Response{
			Description: http.StatusText(code),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
		}
	}
	return out
}

func describeRoute(rt *api.Operation) string {
	who := map[api.Access]string{
		api.Anyone:   "Any credential.",
		api.Listener: "Any credential but a key for workers.",
		api.Agent:    "The session's own token.",
		api.Caller:   "A session's token.",
		api.Audience: "The session's own token, or any person.",
		api.Approver: "The session's own token, an owner or an admin.",
		api.Member:   "Any person.",
		api.Worker:   "A key for workers, an owner or an admin.",
		api.Holder:   "A key for workers, an owner, an admin, or the session that works on the run.",
		api.Reader:   "Any person, or the session that works on the run.",
		api.Decider:  "An owner or an admin.",
		api.Owner:    "An owner.",
		api.Hosted:   "The bearer of a host application's token.",
	}[rt.Who]
	return strings.TrimSpace(rt.Doc + "\n\nWho: " + who)
}

// describe returns the OpenAPI document, indented for readable diffs. It does
// not modify the document, since requests are validated against it.
func (s *Server) describe() ([]byte, error) {
	b, err := json.Marshal(s.API.OpenAPI())
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
