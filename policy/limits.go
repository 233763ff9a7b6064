package policy

import (
	"slices"

	"sallyport/action"
)

// limits are all rates that a call of the action in the session counts
// against, those of the fewest first: who is over his own must not use up what
// others share.
func (p *Policy) limits(s *action.Session, a *action.Action) []action.Limit {
	var list []action.Limit
	if c := p.capabilities[capabilityKey{s.Group, a.Source}]; s.Group != "" && c != nil && c.Rate != nil {
		list = append(list, action.Limit{
			Key:  "capability/" + s.Organization + "/" + s.Group + "/" + a.Source,
			What: "group " + printable(s.Group) + " at " + providerName(a),
			Rate: *c.Rate,
		})
	}
	if len(p.quotas) == 0 {
		return list
	}
	var wide []action.Limit
	for _, key := range keys(a) {
		for i := range p.quotas[key] {
			q := &p.quotas[key][i]
			switch q.Per {
			case action.PerSession:
				list = slices.Insert(list, 0, quotaLimit(q, s, a))
			case action.PerOrganization:
				wide = append(wide, quotaLimit(q, s, a))
			default:
				list = append(list, quotaLimit(q, s, a))
			}
		}
	}
	return append(list, wide...)
}

// quotaLimit is a quota for the one whom the session's calls are counted for.
func quotaLimit(q *action.Quota, s *action.Session, a *action.Action) action.Limit {
	per, whom := quotaIdentity(q.Per, s)
	return action.Limit{
		Key:  "quota/" + s.Organization + "/" + q.Key.String() + "/" + per,
		What: quotaSubject(q.Key, a) + " for " + whom,
		Rate: q.Rate,
	}
}

// quotaIdentity names those whose calls a quota counts together, for the counter
// and for people. A session without a group has a name that no group has.
func quotaIdentity(per action.QuotaScope, s *action.Session) (key, whom string) {
	switch per {
	case action.PerOrganization:
		return string(per) + "/" + s.Organization, "the organization"
	case action.PerCreator:
		return string(per) + "/" + s.CreatedBy, "the session's creator"
	case action.PerGroup:
		if s.Group != "" {
			return string(per) + "/" + s.Group, "group " + printable(s.Group)
		}
		return "no-group/" + s.ID, "this session"
	}
	return string(per) + "/" + s.ID, "this session"
}

// quotaSubject says what a quota's key names, to people.
func quotaSubject(key action.Key, a *action.Action) string {
	switch {
	case key.Source == "*":
		return "all actions"
	case key.Action == "*":
		return "all actions of " + providerName(a)
	}
	return printable(a.Name) + " of " + providerName(a)
}
