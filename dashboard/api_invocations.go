package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
)

// ByIDWait is the parameters of an operation on one call that may wait for its end.
type ByIDWait struct {
	ByID
	Patience
}

// Approval is what a person says with a yes. Who he is comes from his login.
type Approval struct {
	ParamsHash string `json:"params_hash,omitempty" maxLength:"200" doc:"Of the params that were read; other params are not approved."`
	ToolHash   string `json:"tool_hash,omitempty" maxLength:"200" doc:"Likewise, of the action."`
	Mode       string `json:"mode,omitempty" enum:"once,grant" doc:"grant also lets further calls of the action run; once, the default without a grant, does not."`

	Grant *ApprovalGrant `json:"grant,omitempty"`
}

// ApprovalGrant is what else an approval lets through: calls of the same
// action.
type ApprovalGrant struct {
	_        struct{}       `nullable:"true"`
	Scope    wishedScope    `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session"`
	MaxCalls *int64         `json:"max_calls,omitempty" minimum:"1" doc:"The budget, this call not counted; absent: none." example:"5"`
	Pins     map[string]raw `json:"pins,omitempty" doc:"Params that must have exactly these values, by JSON Pointer; this call must have them."`
	Pin      []string       `json:"pin,omitempty" maxItems:"100" nullable:"false" doc:"Params that must have the values of this call, as JSON Pointers." example:"[\"/channel\"]"`
	// Unreviewed is asked for apart, as the tool is not what anybody agreed to.
	Unreviewed bool `json:"unreviewed,omitempty" doc:"Grant it although the tool is not as it was reviewed; without, such a grant is refused."`
	Lifetime
}

// Denial is what a person says with a no.
type Denial struct {
	Reason     string `json:"reason,omitempty" maxLength:"1000" doc:"The agent reads it." example:"Use the staging project."`
	ParamsHash string `json:"params_hash,omitempty" maxLength:"200"`
	ToolHash   string `json:"tool_hash,omitempty" maxLength:"200"`
}

// Outcome is an invocation, and the answer of its source when it ended well
// enough to have one.
type Outcome struct {
	Invocation action.Invocation `json:"invocation"`
	Grant      *GrantView        `json:"grant,omitempty" doc:"What the approval made beside."`
	Result     raw               `json:"result,omitempty" doc:"What the source answered, in full: a CallToolResult of MCP."`
	Problem    raw               `json:"problem,omitempty" doc:"The source's JSON-RPC error, when it answered with one."`
	Repeated   bool              `json:"repeated,omitempty" doc:"The call joined an earlier one, or was handed its outcome again."`
}

// FullParams is what a held call would run with.
type FullParams struct {
	Params     raw    `json:"params"`
	Full       bool   `json:"full" doc:"False once the call ended: the params are the redacted ones."`
	ParamsHash string `json:"params_hash"`
	ToolHash   string `json:"tool_hash"`
}

// Patience is how long the answer may take.
type Patience struct {
	Wait string `query:"wait" doc:"Wait this long for the outcome, at most 10m; absent: do not." example:"30s"`
}

func (s *Server) invocationRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/invocations", tag: "invocations", summary: "List invocations, newest first",
		doc: listDoc,
	}, func(ctx context.Context, p *Principal, in *struct {
		Paging
		Sought
		AskedBy
	},
	) (*body[InvocationList], error) {
		return s.listInvocations(ctx, p, in.Sought, in.AskedBy, in.Paging)
	})
	register(s, route{
		method: "GET", path: "/api/v1/invocations/{id}", tag: "invocations", summary: "Read an invocation",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[InvocationView], error) {
		inv, err := s.Invocations.Invocation(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.view(ctx, p, inv)
		return bodyOf(v), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/invocations/{id}/params", tag: "invocations", summary: "Read what a held call would run with",
		doc: "All of it, with nothing redacted while it is held. The reading is recorded.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[FullParams], error) {
		params, err := s.fullParams(ctx, p, in.ID)
		return bodyOf(params), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/invocations/{id}/events", tag: "invocations", summary: "Read what else happened to an invocation",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[List[Event]], error) {
		events, err := s.events(ctx, p.Organization, in.ID)
		return listOf(events), err
	})
	s.verdictRoutes("/api/v1/invocations/{id}")
}

// verdict is the decision that a body says; nil says no more than yes. Who
// decided comes from the login.
func (a *Approval) verdict(session, id string, now time.Time) (action.Verdict, error) {
	v := action.Verdict{Session: session, ID: id}
	if a == nil {
		return v, nil
	}
	v.ParamsHash, v.ToolHash = a.ParamsHash, a.ToolHash
	grant := a.Grant
	switch {
	case grant != nil && a.Mode == "once":
		return v, invalid("/mode", "An approval for once makes no grant; leave grant out, or send mode grant.")
	case grant == nil && a.Mode == "grant":
		grant = &ApprovalGrant{}
	case grant == nil:
		return v, nil
	}
	until, err := grant.until(now)
	if err != nil {
		return v, under(err, "/grant")
	}
	v.Pin, v.Unreviewed = grant.Pin, grant.Unreviewed
	v.Grant = &action.Grant{Terms: action.Terms{Scope: grant.Scope.scope(), Pins: grant.Pins, MaxCalls: grant.MaxCalls, ExpiresAt: until}}
	return v, nil
}

// verdict is the decision that a body says; nil says no more than no.
func (d *Denial) verdict(session, id string) action.Verdict {
	v := action.Verdict{Session: session, ID: id}
	if d != nil {
		v.Note, v.ParamsHash, v.ToolHash = d.Reason, d.ParamsHash, d.ToolHash
	}
	return v
}

const approveDoc = "Lets it run once, and with a grant further calls of the action. Answers at once, or with ?wait= when it ended or the wait did."

// verdictRoutes adds approve and deny under an invocation's path; see
// sessionVerdicts for those under a session's.
func (s *Server) verdictRoutes(path string) {
	register(s, route{
		method: "POST", path: path + "/approve", tag: "invocations", summary: "Approve a held call", status: http.StatusOK,
		doc:    approveDoc,
		errors: []int{http.StatusConflict, http.StatusGone},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByIDWait
		Body *Approval
	},
	) (*body[Outcome], error) {
		out, err := s.approve(ctx, p, "", in.ID, in.Body, in.Wait)
		return bodyOf(out), err
	})
	register(s, route{
		method: "POST", path: path + "/deny", tag: "invocations", summary: "Deny a held call", status: http.StatusOK,
		doc:    "The agent is told the reason. The same call is not asked again for a while.",
		errors: []int{http.StatusConflict, http.StatusGone},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *Denial
	},
	) (*body[Outcome], error) {
		out, err := s.deny(ctx, p, in.Body.verdict("", in.ID))
		return bodyOf(out), err
	})
}

// shown adds what a row does not hold: where a person decides.
func (s *Server) shown(inv action.Invocation) action.Invocation {
	if inv.Status == action.StatusPending && inv.ApprovalURL == "" {
		inv.ApprovalURL = s.PublicURL + "/invocations/" + inv.ID
	}
	return inv
}

// events returns the events of an invocation that the organization has.
func (s *Server) events(ctx context.Context, organization, id string) ([]Event, error) {
	if _, err := s.Invocations.Invocation(ctx, organization, id); err != nil {
		return nil, err
	}
	return s.Events(ctx, organization, id)
}

func (s *Server) fullParams(ctx context.Context, p *Principal, id string) (FullParams, error) {
	inv, err := s.Invocations.Invocation(ctx, p.Organization, id)
	if err != nil {
		return FullParams{}, err
	}
	params, full, err := s.Gate.Params(ctx, p.Organization, id)
	if err != nil {
		return FullParams{}, err
	}
	if full {
		if err := s.Revealed(ctx, p.Organization, id, p.By()); err != nil {
			return FullParams{}, err
		}
	}
	return FullParams{Params: params, Full: full, ParamsHash: inv.ParamsHash, ToolHash: inv.ToolHash}, nil
}

func (s *Server) approve(ctx context.Context, p *Principal, session, id string, said *Approval, wait string) (Outcome, error) {
	patience, err := parseWait(wait)
	if err != nil {
		return Outcome{}, err
	}
	v, err := said.verdict(session, id, s.now())
	if err != nil {
		return Outcome{}, err
	}
	v = s.verdict(p, v)
	inv, err := s.Gate.Approve(ctx, v)
	if err != nil {
		return Outcome{}, s.undecided(ctx, p, id, ofGrant(err))
	}
	s.log.InfoContext(ctx, "call approved", "invocation", inv.ID, "by", p.By())
	out := Outcome{Invocation: s.shown(inv)}
	if patience > 0 {
		out = s.await(ctx, p, inv, patience)
	}
	if v.Grant != nil {
		s.granted(ctx, p, v.Grant)
		view, err := s.viewGrant(ctx, *v.Grant)
		if err != nil {
			s.log.WarnContext(ctx, "the name of a source is not known", "error", err) // the approval holds
		}
		out.Grant = &view
	}
	return out, nil
}

// ofGrant says of the terms of a grant where they stand in an approval.
func ofGrant(err error) error {
	e := action.Public(err)
	if (e.Code == "invalid_grant" || e.Code == "tool_unreviewed") && !strings.HasPrefix(e.Field, "/grant/") {
		return under(err, "/grant")
	}
	return err
}

// await gives the outcome of an approved call, or what stands after the
// patience. The approval holds in any case, so that no trouble with the wait
// may look like one with the approval.
func (s *Server) await(ctx context.Context, p *Principal, inv action.Invocation, patience time.Duration) Outcome {
	session, err := s.session(ctx, p.Organization, inv.Session)
	if err == nil {
		waitCtx, stop := s.untilClosing(ctx)
		defer stop()
		waitCtx, cancel := context.WithTimeoutCause(waitCtx, patience, action.ErrCallerGone)
		defer cancel()
		var out *action.Outcome
		if out, err = s.Gate.Wait(waitCtx, &session, inv.ID, action.Waiting{Patience: patience}); err == nil {
			return s.outcome(out)
		}
	}
	s.log.DebugContext(ctx, "no outcome of an approved call", "invocation", inv.ID, "error", err)
	if now, err := s.Invocations.Invocation(ctx, p.Organization, inv.ID); err == nil {
		inv = now
	}
	return Outcome{Invocation: s.shown(inv)}
}

func (s *Server) outcome(o *action.Outcome) Outcome {
	return Outcome{Invocation: s.shown(o.Invocation), Result: o.Answer.Body, Problem: o.Answer.Problem, Repeated: o.Repeated}
}

func (s *Server) deny(ctx context.Context, p *Principal, v action.Verdict) (Outcome, error) {
	inv, err := s.Gate.Deny(ctx, s.verdict(p, v))
	if err != nil {
		return Outcome{}, s.undecided(ctx, p, v.ID, err)
	}
	s.log.InfoContext(ctx, "call denied", "invocation", inv.ID, "by", p.By())
	return Outcome{Invocation: inv}, nil
}

func (s *Server) verdict(p *Principal, v action.Verdict) action.Verdict {
	v.Organization, v.By, v.Now = p.Organization, p.By(), s.now()
	return v
}

// named puts the invocation into an error that lacks it.
func named(err error, id string) error {
	public := action.Public(err)
	if public.Kind == nil || public.Invocation != "" {
		return err
	}
	e := *public
	e.Invocation = id
	return &e
}

// parseWait reads ?wait=, a duration or a number of seconds.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		if n, convErr := strconv.Atoi(text); convErr == nil {
			d, err = time.Duration(n)*time.Second, nil
		}
	}
	if err != nil || d < 0 {
		return 0, invalid("/wait", "wait must be a duration, such as 30s or 2m.")
	}
	return min(d, maxWait), nil
}
