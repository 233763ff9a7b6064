package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/queryparam"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/hangup"
)

// bodyWithin bounds how long a client may take to send a JSON body.
const bodyWithin = 5 * time.Second

// operation mounts an operation whose input and output types are known only at
// run time. Fields of in with a path, query or header tag are parameters. Body
// is the JSON body, which is optional if it is a pointer. In out, Body is the
// response body or a func(huma.Context) that writes the response, and Status
// overrides the status. The handler h gets a pointer to in and returns a
// pointer to out, or nil for a response without a body. Everything that depends
// only on the types is computed here, not per request.
func (s *Server) operation(rt *api.Operation, in, out reflect.Type, h func(ctx context.Context, p *Principal, in any) (any, error)) {
	s.mounted[rt.Method+" "+rt.Path] = rt.Who
	e := &endpoint{server: s, who: rt.Who, in: in, handle: h}
	id := strings.ToLower(rt.Method) + "-" + strings.NewReplacer("/api/v1/", "", "{", "", "}", "", "/", "-").Replace(rt.Path)
	security := []map[string][]string{{"apiKey": {}}, {"browser": {}}}
	switch session := map[string][]string{"session": {}}; rt.Who {
	case api.Agent, api.Caller:
		security = []map[string][]string{session}
	case api.Anyone, api.Listener, api.Audience, api.Approver, api.Holder, api.Reader:
		security = append(security, session)
	}
	op := huma.Operation{
		OperationID: id, Method: rt.Method, Path: rt.Path, Summary: rt.Summary, Description: describeRoute(rt),
		Tags: []string{rt.Tag}, DefaultStatus: rt.Status, Security: security, Responses: s.problems(rt),
	}
	e.describeInput(&op)
	e.describeOutput(&op, out)
	s.API.OpenAPI().AddOperation(&op)
	s.API.Adapter().Handle(&op, e.serve)
}

// endpoint serves one operation.
type endpoint struct {
	server   *Server
	who      api.Access
	in       reflect.Type
	params   []param
	body     []int        // index of the Body field; nil: the operation takes none
	schema   *huma.Schema // of the request body
	required bool         // the request body is
	resolves bool         // *in is a huma.Resolver

	status             int // of a response that does not set its own
	outStatus, outBody []int
	handle             func(context.Context, *Principal, any) (any, error)
}

// param is one parameter in the path, the query or a header.
type param struct {
	Name, in string
	place    string // both, for the validator
	Fallback string // the default, or empty
	required bool
	index    []int
	schema   *huma.Schema
	value    func(r *http.Request, name string) string
	Set      func(field reflect.Value, text string) (any, error)
}

// describeInput reads the input type and describes it in op.
func (e *endpoint) describeInput(op *huma.Operation) {
	registry := e.server.API.OpenAPI().Components.Schemas
	e.resolves = reflect.PointerTo(e.in).Implements(reflect.TypeFor[huma.Resolver]())
	for _, f := range reflect.VisibleFields(e.in) {
		switch {
		case f.Anonymous || !f.IsExported():
		case f.Name == "Body":
			e.body, e.required, e.schema = f.Index, f.Type.Kind() != reflect.Pointer, huma.SchemaFromField(registry, f, op.OperationID+"Request")
			op.RequestBody = &huma.RequestBody{Required: e.required, Content: map[string]*huma.MediaType{"application/json": {Schema: e.schema}}}
		default:
			p := NewParam(f)
			p.schema = huma.SchemaFromField(registry, f, "")
			e.params = append(e.params, p)
			d := &huma.Param{Name: p.Name, In: p.in, Description: p.schema.Description, Required: p.required, Schema: p.schema}
			if p.in == "query" {
				d.Explode = new(bool) // lists are separated by commas
			}
			op.Parameters = append(op.Parameters, d)
		}
	}
}

// NewParam reads the location, name, default and type of a parameter from the
// tags of its field.
func NewParam(f reflect.StructField) param {
	p := param{index: f.Index, Fallback: f.Tag.Get("default"), required: f.Tag.Get("required") == "true", Set: parser(f.Type)}
	for _, place := range []struct {
		in    string
		value func(*http.Request, string) string
	}{
		{"path", (*http.Request).PathValue},
		{"query", func(r *http.Request, name string) string { return queryparam.Get(r.URL.RawQuery, name) }},
		{"header", func(r *http.Request, name string) string { return r.Header.Get(name) }},
	} {
		if name := f.Tag.Get(place.in); name != "" {
			p.Name, p.in, p.place, p.value = name, place.in, place.in+"."+name, place.value
			p.required = p.required || p.in == "path"
			return p
		}
	}
	panic("dashboard: the input field " + f.Name + " has no place in a request")
}

// parser returns a function that parses the text of a parameter into a field of
// type t, and returns the value for schema validation.
func parser(t reflect.Type) func(field reflect.Value, text string) (any, error) {
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return func(field reflect.Value, text string) (any, error) {
			field.SetString(text)
			return text, nil
		}
	case kind == reflect.Int:
		return func(field reflect.Value, text string) (any, error) {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, errors.New("must be an integer")
			}
			field.SetInt(n)
			return n, nil
		}
	case kind == reflect.Bool:
		return func(field reflect.Value, text string) (any, error) {
			b, err := strconv.ParseBool(text)
			if err != nil {
				return nil, errors.New("must be true or false")
			}
			field.SetBool(b)
			return b, nil
		}
	case kind == reflect.Slice && t.Elem().Kind() == reflect.String:
		return func(field reflect.Value, text string) (any, error) {
			texts := strings.Split(text, ",")
			field.Set(reflect.MakeSlice(t, len(texts), len(texts)))
			for i, text := range texts {
				field.Index(i).SetString(text)
			}
			return texts, nil
		}
	}
	panic("dashboard: parameters of type " + t.String() + " are not supported")
}

// describeOutput reads the output type and describes it in op.
func (e *endpoint) describeOutput(op *huma.Operation, out reflect.Type) {
	var body reflect.Type
	for _, f := range reflect.VisibleFields(out) {
		switch f.Name {
		case "Body":
			e.outBody, body = f.Index, f.Type
		case "Status":
			e.outStatus = f.Index
		default:
			panic("dashboard: the output field " + f.Name + " has no place in a response")
		}
	}
	switch {
	case op.DefaultStatus != 0:
	case body == nil:
		op.DefaultStatus = http.StatusNoContent
	default:
		op.DefaultStatus = http.StatusOK
	}
	e.status = op.DefaultStatus
	res := &huma.Response{Description: http.StatusText(e.status)}
	if body != nil && body.Kind() != reflect.Func {
		schema := e.server.API.OpenAPI().Components.Schemas.Schema(body, true, op.OperationID+"Response")
		res.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	op.Responses[strconv.Itoa(e.status)] = res
}

// pendingResponse is the state of a request in its handler's context.
type pendingResponse struct {
	endpoint *endpoint
	request  *http.Request
	onSent   func() // called after the response was sent; may be nil
}

type pendingResponseKey struct{}

// OnSent registers f to run after the response to this request was sent. It
// checks here whether the client is still connected, because a client may close
// its connection as soon as it has read the last byte.
func OnSent(ctx context.Context, f func()) {
	if x, ok := ctx.Value(pendingResponseKey{}).(*pendingResponse); ok && !hangup.Gone(x.request) {
		x.onSent = f
	}
}

// Reauthorize checks the credential of a request again, for use after a wait.
func Reauthorize(ctx context.Context) error {
	x, _ := ctx.Value(pendingResponseKey{}).(*pendingResponse)
	_, err := x.endpoint.server.authorize(x.endpoint.who, x.request)
	return err
}

// authorize checks the credential of a request and its role.
func (s *Server) authorize(who api.Access, r *http.Request) (*Principal, error) {
	p, err := s.Identify(r)
	if err != nil {
		return nil, err
	}
	return p, s.permit(who, p, r)
}

// countDecision records that a session was refused a decision of a person.
func (s *Server) countDecision(p *Principal, r *http.Request) {
	verb := path.Base(r.URL.Path)
	if p != nil && p.Session != nil && r.Method == http.MethodPost && (verb == "approve" || verb == "deny") {
		s.Gate.CountRefusal(p.Session, action.RefusedDecision, "", verb)
	}
}

// serve checks the credential and the role before it reads anything else of
// the request.
func (e *endpoint) serve(hc huma.Context) {
	s := e.server
	r, w := humago.Unwrap(hc)
	p, err := s.authorize(e.who, r)
	if err != nil {
		s.countDecision(p, r)
		s.Fail(w, r, err)
		return
	}
	in := reflect.New(e.in)
	if problem := e.read(w, r, in.Elem()); problem != nil {
		_ = problem.write(w) // the client is gone
		return
	}
	if e.resolves {
		_ = in.Interface().(huma.Resolver).Resolve(hc) // resolvers only read the request and never fail
	}
	x := &pendingResponse{endpoint: e, request: r}
	ctx := context.WithValue(r.Context(), pendingResponseKey{}, x)
	out, err := e.handle(ctx, p, in.Interface())
	if err != nil {
		err = s.Problem(ctx, withNext(p, err)).write(w)
	} else {
		err = e.respond(hc, w, out)
	}
	if x.onSent != nil && err == nil && http.NewResponseController(w).Flush() == nil {
		x.onSent()
	}
}

// read fills in the input. It reports the first parameter that is wrong, and
// reads the body only if none is.
func (e *endpoint) read(w http.ResponseWriter, r *http.Request, in reflect.Value) *Problem {
	v := &validation{registry: e.server.API.OpenAPI().Components.Schemas}
	for i := range e.params {
		if problem := e.params[i].read(r, in, v); problem != nil {
			return problem
		}
	}
	if e.body == nil {
		return nil
	}
	SetReadDeadline(w, r, time.Now().Add(bodyWithin))
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case len(data) > maxBody:
		return badRequest(http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("The body is over %d bytes; send less.", maxBody))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badRequest(http.StatusRequestTimeout, "invalid_request", "request body read timeout")
	case err != nil:
		return badRequest(http.StatusInternalServerError, "internal", "Internal error of the gateway; its log has the details.")
	case len(data) > 0:
		return e.decode(r.Header.Get("Content-Type"), data, in, v)
	case e.required:
		return badRequest(http.StatusBadRequest, "invalid_request", "request body is required")
	}
	return nil
}

func (p *param) read(r *http.Request, in reflect.Value, v *validation) *Problem {
	text := cmp.Or(p.value(r, p.Name), p.Fallback)
	if text == "" {
		if p.required {
			return badField("/"+p.Name, p.Name+" is missing from the "+p.in+".")
		}
		return nil
	}
	value, err := p.Set(in.FieldByIndex(p.index), text)
	if err != nil {
		return badField("/"+p.Name, p.Name+" "+err.Error()+".")
	}
	return v.check(p.place, p.schema, value)
}

// decode validates the body and decodes it into the input. The validator needs
// plain values, the handler exact ones, so it is decoded twice.
func (e *endpoint) decode(contentType string, data []byte, in reflect.Value, v *validation) *Problem {
	var plain any
	err := e.server.API.Unmarshal(contentType, data, &plain)
	if errors.Is(err, huma.ErrUnknownContentType) {
		return badRequest(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the body as application/json.")
	}
	if err == nil {
		if problem := v.check("body", e.schema, plain); problem != nil {
			return problem
		}
		err = e.server.API.Unmarshal(contentType, data, in.FieldByIndex(e.body).Addr().Interface())
	}
	if err != nil {
		return malformedBody(err.Error())
	}
	return nil
}

// validation checks the values of one request.
type validation struct {
	registry huma.Registry
	path     huma.PathBuffer
	result   huma.ValidateResult
}

func (v *validation) check(place string, schema *huma.Schema, value any) *Problem {
	v.path.Reset()
	v.path.Push(place)
	huma.Validate(v.registry, schema, &v.path, huma.ModeWriteToServer, value, &v.result)
	if len(v.result.Errors) > 0 {
		return invalidValue(v.result.Errors[0])
	}
	return nil
}

// respond sends what the handler returned.
func (e *endpoint) respond(hc huma.Context, w http.ResponseWriter, out any) error {
	if out == nil {
		w.WriteHeader(e.status)
		return nil
	}
	v, status := reflect.ValueOf(out).Elem(), e.status
	if e.outStatus != nil {
		status = int(v.FieldByIndex(e.outStatus).Int())
	}
	if e.outBody == nil {
		w.WriteHeader(status)
		return nil
	}
	body := v.FieldByIndex(e.outBody).Interface()
	if stream, ok := body.(func(huma.Context)); ok {
		stream(hc)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status == http.StatusNoContent {
		return nil
	}
	err := EncodeJSON(w, body)
	if ctx := hc.Context(); err != nil && ctx.Err() == nil {
		e.server.Log.ErrorContext(ctx, "the response could not be sent", "error", err)
		panic(http.ErrAbortHandler) // a truncated body must not look complete
	}
	return err
}

// SetReadDeadline bounds the time that reading the body may take. net/http
// lifts the bound at the end of a body. Without a body it would stay, and end
// the context of this request and of all later ones on its connection.
func SetReadDeadline(w http.ResponseWriter, r *http.Request, t time.Time) {
	if r.ContentLength != 0 {
		_ = huma.SetReadDeadline(w, t) // not every connection has deadlines
	}
}
