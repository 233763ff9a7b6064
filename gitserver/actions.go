package gitserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
	"sallyport/internal/gitpush"
)

const fetchSchema = `{"type":"object","properties":{` +
	`"repository":{"type":"string","description":"Host and path, such as github.com/octocat/hello."},` +
	`"refs":{"type":"array","items":{"type":"string"},"description":"What is fetched: refs, or IDs of objects."},` +
	`"depth":{"type":"string"},"filter":{"type":"string"}},"required":["repository","refs"],"additionalProperties":false}`

const pushSchema = `{"type":"object","properties":{` +
	`"repository":{"type":"string","description":"Host and path, such as github.com/octocat/hello."},` +
	`"branch":{"type":"string","description":"The branch, if the push changes nothing else. Grants can pin it to a pattern, such as agent/*."},` +
	`"refs":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"kind":{"enum":["create","update","force","delete"]},"note":{"type":"string"}}}},` +
	`"atomic":{"type":"boolean"},"shallow":{"type":"array","items":{"type":"string"}},` +
	`"pack":{"type":"string","description":"SHA-256 of the IDs of the objects that are pushed."},"objects":{"type":"integer"},` +
	`"commits":{"type":"array"},"more_commits":{"type":"integer"},"files":{"type":"array"},"more_files":{"type":"integer"},` +
	`"diff":{"type":"string"},"diff_truncated":{"type":"boolean"},` +
	`"findings":{"type":"array","items":{"type":"string"},"description":"Added lines that look like credentials."},` +
	`"no_diff":{"type":"string","description":"Why the content could not be compared. No grant covers such a push."}},` +
	`"required":["repository","refs","commits","files"]}`

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
	}, {
		Source: action.Git, SourceName: "Git", Name: pushAction, Title: "Push to a repository", Risk: action.RiskWrite,
		Description: "Changes refs of a repository with git push. Forced pushes, deletions and changes of protected branches are destructive.",
		InputSchema: json.RawMessage(pushSchema), Hash: hashOf(pushSchema), Timeout: pushTimeout, PinPatterns: []string{"/branch", "/repository"},
		Check: checkParams[gitpush.Params],
		Summarize: func(params json.RawMessage) string {
			var p gitpush.Params
			if json.Unmarshal(params, &p) != nil {
				return ""
			}
			return "Push to " + p.Summary()
		},
		Bind: s.bindPush, Run: s.runPush, Here: s.here,
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
