package dashboard

import (
	"context"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// origins looks up what the sessions of an organization's invocations were
// minted for, all at once. Most agents' sessions come from no event: where the
// credential tells so, nothing is asked for.
func (s *Server) origins(ctx context.Context, p *Principal, list []action.Invocation) (map[string]event.Origin, error) {
	var sessions []string
	for i := range list {
		if id := list[i].Session; p.Session == nil || p.Session.Event != "" || id != p.Session.ID {
			sessions = append(sessions, id)
		}
	}
	slices.Sort(sessions)
	if sessions = slices.Compact(sessions); len(sessions) == 0 {
		return nil, nil
	}
	return s.Inbound.OriginsOfSessions(ctx, p.Organization, sessions)
}

// viewOf is an invocation as lists and reads show it.
func (s *Server) viewOf(inv action.Invocation, from event.Origin) api.InvocationView {
	return api.InvocationView{Invocation: s.shown(inv), Event: from.Event, Run: from.Run}
}

// view shows one.
func (s *Server) view(ctx context.Context, p *Principal, inv action.Invocation) (api.InvocationView, error) {
	from, err := s.origins(ctx, p, []action.Invocation{inv})
	return s.viewOf(inv, from[inv.Session]), err
}

// viewPage shows a page of them.
func (s *Server) viewPage(ctx context.Context, p *Principal, page action.Page[action.Invocation]) (api.InvocationList, error) {
	from, err := s.origins(ctx, p, page.Items)
	list := pageOf(page, func(inv action.Invocation) api.InvocationView { return s.viewOf(inv, from[inv.Session]) })
	out := api.InvocationList{List: list}
	if !page.LookedBack.IsZero() {
		out.LookedBackTo = &page.LookedBack
	}
	return out, err
}
