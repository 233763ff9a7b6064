package policy

import (
	"slices"

	"sallyport/action"
)

// limits returns all rates that the call counts against, the narrowest scope
// first: a call over its session's limit must not use up a limit that others
// share.
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

// quotaLimit returns the limit of a quota for the session.
func quotaLimit(q *action.Quota, s *action.Session, a *action.Action) action.Limit {
	per, whom := quotaIdentity(q.Per, s)
	return action.Limit{
		Key:  "quota/" + s.Organization + "/" + q.Key.String() + "/" + per,
		What: quotaSubject(q.Key, a) + " for " + whom,
		Rate: q.Rate,
	}
}

// quotaIdentity returns whose calls the quota counts together: a key for the
// counter, and a name for people. A session without a group gets a key that
// no group has.
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

// quotaSubject describes a quota's key for people.
func quotaSubject(key action.Key, a *action.Action) string {
	switch {
	case key.Source == "*":
		return "all actions"
	case key.Action == "*":
		return "all actions of " + providerName(a)
	}
	return printable(a.Name) + " of " + providerName(a)
}
