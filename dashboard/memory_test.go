package dashboard_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

// memory keeps everything that the server asks for in maps. It follows the
// contracts of ports.go: what a real store refuses, it refuses.
type memory struct {
	mu          sync.Mutex
	setups      []action.Setup
	now         func() time.Time
	sessions    []action.Session
	once        map[string]keyedSession // by organization/key
	secrets     map[string]action.Secret
	sealed      map[string][]byte
	connectors  []action.Connector
	invocations []action.Invocation
	users       []action.User
	keys        []action.APIKey
	keyHashes   map[string]string
	links       map[string]action.LoginLink
	logins      map[string]action.Login // by hash of the cookie
	loginKeys   map[string]string
	revealed    []string // "invocation to user"
	waiters     map[string]action.Waiter
	peopleRows
	policyRows
	servers
	connectedRows
	inboundRows
	notifyRows
	evidenceRows
	countedRows
}

func (m *memory) events(_ context.Context, _, invocation string) ([]dashboard.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []dashboard.Event
	for _, r := range m.revealed {
		if strings.HasPrefix(r, invocation+" to ") {
			list = append(list, dashboard.Event{Kind: "params_revealed", By: r[len(invocation)+4:], At: m.now(), Data: json.RawMessage("{}")})
		}
	}
	if m.asked != "" {
		list = append(list, dashboard.Event{Kind: "asked", At: m.now(), Data: json.RawMessage(m.asked)})
	}
	return list, nil
}

func (m *memory) reveal(_ context.Context, _, invocation, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revealed = append(m.revealed, invocation+" to "+by)
	return nil
}

func newMemory(now func() time.Time) *memory {
	return &memory{
		evidenceRows: evidenceRows{bytes: map[string]string{}},
		now:          now, once: map[string]keyedSession{}, secrets: map[string]action.Secret{}, sealed: map[string][]byte{}, keyHashes: map[string]string{},
		links: map[string]action.LoginLink{}, logins: map[string]action.Login{}, loginKeys: map[string]string{},
		peopleRows: peopleRows{removedBy: map[string]string{}, endedLogins: map[string]action.LoginEnd{}, keyUses: map[string]time.Time{}, said: map[string]time.Time{}},
	}
}

func missing(what string) error {
	return action.Errorf(action.ErrNotFound, what+"_not_found", "There is no such %s.", what)
}

func find[T any](what string, list []T, match func(T) bool) (*T, error) {
	if i := slices.IndexFunc(list, match); i >= 0 {
		return &list[i], nil
	}
	return nil, missing(what)
}

// page cuts a list, newest first, at an offset that stands for a cursor.
func page[T any](list []T, limit int, cursor string) action.Page[T] {
	list = slices.Clone(list)
	slices.Reverse(list)
	from, _ := strconv.Atoi(cursor)
	to := min(from+limit, len(list))
	p := action.Page[T]{Items: list[from:to], Total: len(list)}
	if to < len(list) {
		p.Next = strconv.Itoa(to)
	}
	return p
}

func (m *memory) CreateSession(_ context.Context, s action.Session) (action.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Status == "" {
		s.Status = action.SessionRunning
	}
	m.sessions = append(m.sessions, s)
	return s, nil
}

func (m *memory) Session(_ context.Context, id string) (action.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := find("session", m.sessions, func(s action.Session) bool { return s.ID == id })
	if err != nil {
		return action.Session{}, err
	}
	return *s, nil
}

func (m *memory) ListSessions(_ context.Context, f action.SessionFilter) (action.Page[action.Session], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(slices.DeleteFunc(slices.Clone(m.sessions), func(s action.Session) bool {
		live := s.Live(m.now()) == nil
		return s.Organization != f.Organization || f.Live && !live || f.Ended && live || f.Status != "" && s.Status != f.Status
	}), f.Limit, f.Cursor), nil
}

func (m *memory) SessionStates(_ context.Context, organization string, ids []string) (map[string]action.SessionState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := map[string]action.SessionState{}
	for _, inv := range m.invocations {
		if inv.Organization != organization || !slices.Contains(ids, inv.Session) {
			continue
		}
		s := states[inv.Session]
		s.LastCall = &inv.CreatedAt
		if inv.Status == action.StatusPending {
			s.Pending++
		}
		states[inv.Session] = s
	}
	return states, nil
}

func (m *memory) RevokeSession(_ context.Context, organization, id string) ([]action.Invocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := find("session", m.sessions, func(s action.Session) bool { return s.ID == id && s.Organization == organization })
	if err != nil {
		return nil, err
	}
	now := m.now()
	if s.RevokedAt == nil {
		s.RevokedAt, s.Status = &now, action.SessionStopped
	}
	var withdrew []action.Invocation
	for i, inv := range m.invocations {
		if inv.Session == id && inv.Status == action.StatusPending {
			m.invocations[i].Status, m.invocations[i].DeniedReason = action.StatusDenied, action.DeniedWithdrawn
			withdrew = append(withdrew, m.invocations[i])
		}
	}
	return withdrew, nil
}

// secretRow is where a secret is kept: its key, of the usual organization.
func secretRow(organization, key string) string {
	if organization == org {
		return key
	}
	return organization + " " + key
}

func (m *memory) PutSecret(_ context.Context, s action.Secret, sealed []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := secretRow(s.Organization, s.Key)
	m.secrets[row], m.sealed[row] = s, sealed
	return nil
}

func (m *memory) ListSecrets(_ context.Context, organization string) (list []action.Secret, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.secrets {
		if s.Organization == organization {
			list = append(list, s)
		}
	}
	return list, nil
}

func (m *memory) DeleteSecret(_ context.Context, organization, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := secretRow(organization, key)
	if _, ok := m.secrets[row]; !ok {
		return missing("secret")
	}
	for _, c := range m.connectors {
		if c.Secret == key && c.Organization == organization {
			return action.Errorf(action.ErrConflict, "secret_in_use", "The connector %s uses it.", c.Name)
		}
	}
	delete(m.secrets, row)
	return nil
}

func (m *memory) CreateConnector(_ context.Context, c action.Connector, secret *action.SealedSecret, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.connectors {
		if other.Organization == c.Organization && (other.Slug == c.Slug || other.Name == c.Name) {
			field := "/slug"
			if other.Name == c.Name {
				field = "/name"
			}
			return &action.Error{Kind: action.ErrConflict, Code: "taken", Field: field, Message: "The slug or name is taken; choose another."}
		}
	}
	m.putLocked(secret)
	m.connectors = append(m.connectors, c)
	m.recordLocked(c.Organization, action.EventConnector, c.ID, by)
	return nil
}

// putLocked writes the secret of a connector that is written, if any.
func (m *memory) putLocked(s *action.SealedSecret) {
	if s != nil {
		row := secretRow(s.Organization, s.Key)
		m.secrets[row], m.sealed[row] = s.Secret, s.Sealed
	}
}

func (m *memory) ListConnectors(_ context.Context, organization string) ([]action.Connector, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.connectors), func(c action.Connector) bool { return c.Organization != organization }), nil
}

func (m *memory) UpdateConnector(_ context.Context, c action.Connector, secret *action.SealedSecret, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := find("connector", m.connectors, func(o action.Connector) bool { return o.ID == c.ID })
	if err != nil {
		return err
	}
	m.putLocked(secret)
	c.Revision = row.Revision + 1 // the rows' own count
	*row = c
	m.recordLocked(c.Organization, action.EventConnector, c.ID, by)
	return nil
}

func (m *memory) DeleteConnector(_ context.Context, organization, id, by string) ([]action.Invocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connectors = slices.DeleteFunc(m.connectors, func(c action.Connector) bool { return c.ID == id && c.Organization == organization })
	m.recordLocked(organization, action.EventConnector, id, by)
	return nil, nil
}

func (m *memory) Invocation(_ context.Context, organization, id string) (action.Invocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inv, err := find("invocation", m.invocations, func(inv action.Invocation) bool { return inv.ID == id && inv.Organization == organization })
	if err != nil {
		return action.Invocation{}, err
	}
	return *inv, nil
}

func (m *memory) ListInvocations(_ context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(m.invocations), func(inv action.Invocation) bool { return !m.wantedLocked(f, inv) })
	return page(list, f.Limit, f.Cursor), nil
}

func (m *memory) wantedLocked(f action.InvocationFilter, inv action.Invocation) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	var s action.Session
	if i := slices.IndexFunc(m.sessions, func(s action.Session) bool { return s.ID == inv.Session }); i >= 0 {
		s = m.sessions[i]
	}
	return inv.Organization == f.Organization && is(f.Session, inv.Session) && is(f.Automation, s.Automation) && is(f.Group, s.Group) &&
		is(f.Person, inv.ApprovedBy) && is(f.Source, inv.Source) && is(f.Action, inv.Action) &&
		is(string(f.Risk), string(inv.Risk)) && is(string(f.Mode), string(inv.Mode)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, inv.Status)) &&
		!inv.CreatedAt.Before(f.From) && (f.To.IsZero() || inv.CreatedAt.Before(f.To)) &&
		(f.Run == "" || slices.ContainsFunc(m.runs, func(r event.Run) bool { return r.ID == f.Run && r.Session == inv.Session }))
}

func (m *memory) CreateUser(_ context.Context, u action.User, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users = append(m.users, u)
	return nil
}

func (m *memory) User(_ context.Context, organization, id string) (action.User, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := find("user", m.users, func(u action.User) bool { return u.ID == id && u.Organization == organization })
	if err != nil {
		return action.User{}, err
	}
	return *u, nil
}

func (m *memory) ListUsers(_ context.Context, organization string) ([]action.User, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.users), func(u action.User) bool { return u.Organization != organization }), nil
}

func (m *memory) lastOwnerLocked(organization, id string) error {
	others := 0
	for _, u := range m.users {
		if u.Organization == organization && u.Role == action.RoleOwner && u.ID != id {
			others++
		}
	}
	if others == 0 {
		return action.Errorf(action.ErrConflict, "last_owner", "The last owner stays one; make another owner first.")
	}
	return nil
}

func (m *memory) SetUserRole(_ context.Context, organization, id string, role action.Role, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := find("user", m.users, func(u action.User) bool { return u.ID == id && u.Organization == organization })
	if err != nil {
		return err
	}
	if u.Issuer != "" {
		return action.Errorf(action.ErrConflict, "role_from_elsewhere", "The role comes from %s.", u.Issuer)
	}
	if u.Role == action.RoleOwner && role != action.RoleOwner {
		if err := m.lastOwnerLocked(organization, id); err != nil {
			return err
		}
	}
	u.Role = role
	return nil
}

func (m *memory) DeleteUser(_ context.Context, organization, id, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := find("user", m.users, func(u action.User) bool { return u.ID == id && u.Organization == organization })
	if err != nil {
		return err
	}
	if u.Role == action.RoleOwner {
		if err := m.lastOwnerLocked(organization, id); err != nil {
			return err
		}
	}
	if u.Issuer != "" {
		m.removed, m.removedBy[u.ID] = append(m.removed, *u), by
	}
	m.signOutLocked(organization, id, action.EndRemoved)
	m.users = slices.DeleteFunc(m.users, func(u action.User) bool { return u.ID == id })
	return nil
}

func (m *memory) CreateAPIKey(_ context.Context, k action.APIKey, hash string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys, m.keyHashes[k.ID] = append(m.keys, k), hash
	return nil
}

func (m *memory) APIKey(_ context.Context, id string) (action.APIKey, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := find("key", m.keys, func(k action.APIKey) bool { return k.ID == id })
	if err != nil {
		return action.APIKey{}, "", err
	}
	return m.usedLocked(*k), m.keyHashes[id], nil
}

func (m *memory) ListAPIKeys(_ context.Context, organization string) ([]action.APIKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []action.APIKey
	for _, k := range m.keys {
		if k.Organization == organization {
			list = append(list, m.usedLocked(k))
		}
	}
	return list, nil
}

func (m *memory) RevokeAPIKey(_ context.Context, organization, id string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := find("key", m.keys, func(k action.APIKey) bool { return k.ID == id && k.Organization == organization })
	if err != nil {
		return err
	}
	k.RevokedAt = &now
	return nil
}

func (m *memory) CreateLoginLink(_ context.Context, l action.LoginLink) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.links[l.CodeHash]; ok || slices.Contains(m.usedLinks, l.CodeHash) {
		return action.Errorf(action.ErrConflict, "login_link_exists", "This sign-in was used already.")
	}
	m.links[l.CodeHash] = l
	return nil
}

func (m *memory) RedeemLoginLink(_ context.Context, codeHash, cookieHash string, l action.Login, now time.Time) (action.Login, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	link, ok := m.links[codeHash]
	delete(m.links, codeHash)
	m.usedLinks = append(m.usedLinks, codeHash)
	if !ok || !now.Before(link.ExpiresAt) {
		return action.Login{}, action.Errorf(action.ErrUnauthenticated, "login_link_spent", "This sign-in link was used or is over; ask for a new one.")
	}
	l.Organization, l.User, l.Via = link.Organization, link.User, cmp.Or(link.Via, action.ViaLink)
	m.logins[cookieHash], m.loginKeys[cookieHash] = l, link.KeyHash
	return l, nil
}

func (m *memory) Login(_ context.Context, cookieHash string) (action.Login, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.logins[cookieHash]
	if !ok {
		return action.Login{}, "", missing("login")
	}
	return l, m.loginKeys[cookieHash], nil
}

func (m *memory) TouchLogin(_ context.Context, id string, seen time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for hash, l := range m.logins {
		if l.ID == id {
			l.SeenAt = seen
			m.logins[hash] = l
		}
	}
	return nil
}

func (m *memory) DeleteLogin(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for hash, l := range m.logins {
		if l.ID == id {
			delete(m.logins, hash)
		}
	}
	return nil
}

// add writes an invocation and returns its id.
func (m *memory) add(inv action.Invocation) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if inv.ID == "" {
		inv.ID = fmt.Sprintf("inv-%d", len(m.invocations)+1)
	}
	m.invocations = append(m.invocations, inv)
	return inv.ID
}
