package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/action"
)

// service is a module, compiled: its actions are tools like any other, of which
// the gateway itself is the server.
type service struct {
	*Module
	catalog *Catalog
	tools   []*tool
	actions map[string]*ModuleAction // by name
	about   *action.About
}

// Modules returns the services that the gateway itself speaks to, which nobody
// may change.
func (c *Catalog) Modules() []*Module { return c.Config.Modules }

// newServices compiles modules. The error names the one that cannot be used,
// which is a mistake in the gateway and not in its configuration.
func newServices(c *Catalog) ([]*service, error) {
	list := make([]*service, 0, len(c.Config.Modules))
	for _, m := range c.Config.Modules {
		s, err := newService(m, c.Budget)
		if err == nil && slices.ContainsFunc(list, func(other *service) bool { return other.ID == m.ID }) {
			err = errors.New("there are two of it")
		}
		if err != nil {
			return nil, fmt.Errorf("sources: module %.40q: %w", m.ID, err)
		}
		s.catalog = c
		list = append(list, s)
	}
	return list, nil
}

func newService(m *Module, budget time.Duration) (*service, error) {
	if err := m.check(budget); err != nil {
		return nil, err
	}
	s := &service{
		Module: m, actions: make(map[string]*ModuleAction, len(m.Actions)),
		about: &action.About{Title: m.Title, Text: m.About, Guide: m.Guide},
	}
	for i := range m.Actions {
		act := &m.Actions[i]
		t, err := act.compile(budget)
		if err == nil && s.actions[act.Name] != nil {
			err = errors.New("there are two of it")
		}
		if err != nil {
			return nil, fmt.Errorf("action %.40q: %w", act.Name, err)
		}
		s.tools, s.actions[act.Name] = append(s.tools, t), act
	}
	return s, nil
}

// check checks all of a module but its actions.
func (m *Module) check(budget time.Duration) error {
	if !moduleID(m.ID) || m.Title == "" {
		return errors.New("a module has a title, and an id of 1 to 16 of a-z, 0-9 and -")
	}
	if len(m.Needs) == 0 {
		return errors.New("it does not say how to connect to it")
	}
	for _, n := range m.Needs {
		if !n.Kind.Valid() {
			return fmt.Errorf("there is no kind %.40q of integration", n.Kind)
		}
		if n.Kind == action.KindOAuth2 && (n.Preset == "" || len(n.Scopes) == 0) {
			return errors.New("its OAuth has no preset, or no scopes")
		}
	}
	if m.Settings == nil {
		return nil
	}
	if _, notes, err := newChecker(m.Settings, budget); err != nil || len(notes) > 0 {
		return fmt.Errorf("its settings are no schema that can be checked: %w", err)
	}
	return nil
}

func moduleID(id string) bool {
	for _, c := range []byte(id) {
		if c != '-' && (c < '0' || '9' < c) && (c < 'a' || 'z' < c) {
			return false
		}
	}
	return id != "" && len(id) <= 16
}

// compile compiles an action as if a server had listed it, and tries its
// examples, which agents will copy.
func (a *ModuleAction) compile(budget time.Duration) (*tool, error) {
	if !a.Risk.Valid() || a.Run == nil {
		return nil, errors.New("it has no risk, or nothing that runs it")
	}
	raw, err := a.definition()
	if err != nil {
		return nil, err
	}
	t, err := compile(raw, budget)
	if err != nil {
		return nil, err
	}
	if len(t.notes) > 0 {
		return nil, fmt.Errorf("it %s", t.notes[0])
	}
	for i, e := range a.Examples {
		if err := t.checker.Check(e.Params); err != nil {
			return nil, fmt.Errorf("example %d: %w", i, err)
		}
	}
	return t, nil
}

// examples are the action's, as guides have them.
func (a *ModuleAction) examples() []action.Example {
	list := make([]action.Example, len(a.Examples))
	for i, e := range a.Examples {
		list[i] = action.Example(e)
	}
	return list
}

// definition is the action as a tool of MCP.
func (a *ModuleAction) definition() (json.RawMessage, error) {
	type annotations struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"`
		Idempotent  bool `json:"idempotentHint"`
		OpenWorld   bool `json:"openWorldHint"`
	}
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	err := to.Encode(struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
		Annotations annotations     `json:"annotations"`
	}{a.Name, a.Title, a.Description, a.Input, annotations{
		ReadOnly: a.Risk == action.RiskRead, Destructive: a.Risk == action.RiskDanger, Idempotent: a.Idempotent, OpenWorld: !a.closed,
	}})
	return bytes.TrimSpace(b.Bytes()), err
}
