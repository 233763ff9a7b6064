package connect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// SetModes sets the modes of a connector's listed tools as overrides of the
// organization, and returns how many changed. A tool whose mode follows from a wider
// rule or its risk has no override. A profile for all tools is kept with the connector,
// and applied to its first list if there is none yet.
//
// Errors, which change nothing: ErrNotFound; ErrInvalid if a name or pattern matches no
// tool.
func (st *Store) SetModes(ctx context.Context, m action.ModeChange) (changed int, err error) {
	if err := m.Check(); err != nil {
		return 0, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		c, err := ReadConnector(ctx, tx, m.Organization, m.Connector)
		if err != nil {
			return err
		}
		var rows []reviewRow
		if err := ReviewsQuery(tx, m.Organization, m.Connector).Where("current_behaviour IS NOT NULL").Scan(ctx, &rows); err != nil {
			return fmt.Errorf("reading the tools of connector %s: %w", m.Connector, err)
		}
		for i, pattern := range m.Tools {
			if !slices.ContainsFunc(rows, func(r reviewRow) bool { return action.MatchTool(pattern, r.Tool) }) {
				return database.Invalid(fmt.Sprintf("/tools/%d", i), fmt.Sprintf("The connector has no tool that matches %q. Use a name or pattern from its list.", pattern))
			}
		}
		if m.Profile != "" && m.All() {
			if err := st.keepProfile(ctx, tx, &c, &m, len(rows) > 0); err != nil {
				return err
			}
		}
		current, err := st.policy.SourceModes(ctx, tx, m.Organization, c.Source())
		if err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			risk := r.strictestRisk()
			own, base := current.Of(r.Tool, risk)
			if len(m.Tools) > 0 && !slices.ContainsFunc(m.Tools, func(pattern string) bool { return action.MatchTool(pattern, r.Tool) }) ||
				m.OnlyDenied && (own != action.ModeDeny && (own != "" || base != action.ModeDeny)) {
				continue
			}
			o := action.Override{Organization: m.Organization, Key: action.Key{Source: c.Source(), Action: r.Tool}, UpdatedBy: m.By}
			if o.Mode = m.ModeOf(r.Tool, risk, []byte(*r.Current.Definition)); o.Mode == base {
				o.Mode = ""
			}
			if o.Mode == own {
				continue
			}
			if err := st.policy.SetTool(ctx, tx, &o); err != nil {
				return err
			}
			changed++
		}
		return nil
	})
	return changed, err
}

// strictestRisk returns the risk that policy counts: that of the review if the tool
// changed since and declares a milder one.
func (r *reviewRow) strictestRisk() action.Risk {
	now, then := action.Risk(r.Current.Risk), action.Risk(r.Reviewed.Risk)
	if r.state() == action.ToolChanged && then != "" && then.Level() > now.Level() {
		return then
	}
	return now
}

// keepProfile records the profile of all tools. Until the connector has a list, it also
// records who chose the profile.
func (st *Store) keepProfile(ctx context.Context, tx bun.Tx, c *ConnectorRow, m *action.ModeChange, listed bool) error {
	before := c.Snapshot()
	c.Profile, c.PresetModes = m.Profile, nil
	if len(m.Preset) > 0 {
		c.PresetModes = maps.Clone(m.Preset)
	}
	if c.ProfileBy = ""; !listed {
		c.ProfileBy = m.By
	}
	_, err := tx.NewUpdate().Model(c).Column("profile", "preset_modes", "profile_by").WherePK().Exec(ctx)
	if err != nil {
		return fmt.Errorf("setting the profile of connector %s: %w", c.ID, err)
	}
	return st.history.RecordPolicyChange(ctx, tx, c.Event(m.By), before, c.Snapshot())
}

// applyProfile applies the profile of a new connector to its first list. It changes no
// mode that a person set since the connector was added, for a tool or for all of them,
// and loosens no rule of the organization for all sources.
func (st *Store) applyProfile(ctx context.Context, tx bun.Tx, c *ConnectorRow, tools map[string]action.ToolVersion) error {
	current, err := st.policy.SourceModes(ctx, tx, c.Organization, c.Source())
	if err != nil {
		return err
	}
	m := action.ModeChange{Profile: c.Profile, Preset: c.PresetModes}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t := tools[name]
		own, base := current.Of(name, t.Risk)
		mode := m.ModeOf(name, t.Risk, t.Definition)
		if own != "" || current.Whole || mode == base || current.Wide != "" && base.StricterThan(mode) {
			continue
		}
		o := action.Override{Organization: c.Organization, Key: action.Key{Source: c.Source(), Action: name}, Mode: mode, UpdatedBy: c.ProfileBy}
		if err := st.policy.SetTool(ctx, tx, &o); err != nil {
			return err
		}
	}
	_, err = tx.NewUpdate().Model((*ConnectorRow)(nil)).Set("profile_by = NULL").
		Where("id = ?", c.ID).Where("organization_id = ?", c.Organization).Exec(ctx)
	if err != nil {
		return fmt.Errorf("applying the profile of connector %s: %w", c.ID, err)
	}
	return nil
}
