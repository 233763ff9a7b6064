package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/api"
)

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
		out[statusText(code)] = &huma.Response{
			Description: http.StatusText(code),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
		}
	}
	return out
}

// operationID turns "POST /api/v1/connectors/{ref}/enable" into
// "post-connectors-ref-enable".
func operationID(rt *api.Operation) string {
	path := strings.NewReplacer("/api/v1/", "", "{", "", "}", "", "/", "-").Replace(rt.Path)
	return strings.ToLower(rt.Method) + "-" + path
}

func describeRoute(rt *api.Operation) string {
	said := map[api.Access]string{
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
	return strings.TrimSpace(rt.Doc + "\n\nWho: " + said)
}

func security(who api.Access) []map[string][]string {
	people := []map[string][]string{{"apiKey": {}}, {"browser": {}}}
	session := map[string][]string{"session": {}}
	switch who {
	case api.Agent, api.Caller:
		return []map[string][]string{session}
	case api.Anyone, api.Listener, api.Audience, api.Approver, api.Holder, api.Reader:
		return append(people, session)
	}
	return people
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
