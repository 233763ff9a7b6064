package gitserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
)

const fetchSchema = `{"type":"object","properties":{` +
	`"repository":{"type":"string","description":"Host and path, such as github.com/octocat/hello."},` +
	`"refs":{"type":"array","items":{"type":"string"},"description":"What is fetched: refs, or IDs of objects."},` +
	`"depth":{"type":"string"},"filter":{"type":"string"}},"required":["repository","refs"],"additionalProperties":false}`

// Actions returns the actions of Git. They are not tools: only Git clients of this
// server can make the calls.
func (s *Server) Actions() []*action.Action {
	return []*action.Action{{
		Source: action.Git, SourceName: "Git", Name: fetchAction, Title: "Fetch a repository", Risk: action.RiskRead,
		Description: "Reads refs and objects of a repository with git clone or git fetch.",
		InputSchema: json.RawMessage(fetchSchema), Hash: hashOf(fetchSchema), Timeout: fetchTimeout,
		Check: checkParams[fetchParams],
		Summarize: func(params json.RawMessage) string {
			var p fetchParams
			if json.Unmarshal(params, &p) != nil {
				return ""
			}
			return "Fetch " + p.Repository + ": " + strings.Join(p.Refs, ", ")
		},
		Run: s.runFetch,
	}}
}

func hashOf(schema string) string {
	sum := sha256.Sum256([]byte(schema))
	return hex.EncodeToString(sum[:])
}

// checkParams rejects params that do not decode into P.
func checkParams[P any](params json.RawMessage) error {
	decoder := json.NewDecoder(strings.NewReader(string(params)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(new(P)); err != nil {
		return action.Errorf(action.ErrInvalid, "invalid_params", "%s", fmt.Sprintf("%s%v.", action.ParamsMismatch, err))
	}
	return nil
}
