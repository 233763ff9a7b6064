package mcpserver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// listMaxAge is how long tools/call may look a name up in a list that was made
// earlier. The Gate decides on every call; this only finds the action.
const listMaxAge = time.Second

// viewKey is everything of a session that decides what it sees: all that a
// decision looks at which is not about one call. Sessions with the same key
// share a list and a server; two organizations never do.
type viewKey struct {
	organization, automation, group, task string
	connections, onBehalfOf               string             // the integrations that it may use, and in whose name
	event                                 bool               // an inbound event started it
	sessionType                           action.SessionType // whose prompt comes first, and which tools of ours there are
	ofRun                                 bool               // it works on an automation's run
	completed                             bool               // it said that it is done
	search                                bool               // it lists what finds and calls the other tools
}

func (v *views) keyOf(s *action.Session) viewKey {
	k := viewKey{
		organization: s.Organization, automation: s.Automation, group: s.Group, event: s.Event != "",
		sessionType: s.Type, ofRun: s.OfRun(), completed: s.CompletedAt != nil, search: v.usesSearch(s),
	}
	if len(s.Connections) > 0 {
		k.connections, k.onBehalfOf = strings.Join(slices.Sorted(slices.Values(s.Connections)), ","), s.CreatedBy
	}
	if s.Group != "" { // only groups have gates, and only gates look at the task
		k.task = s.Task
	}
	return k
}

// usesSearch reports whether the session lists what finds and calls the other
// tools, and not those.
func (v *views) usesSearch(s *action.Session) bool {
	return s.Tools == action.ListSearch || s.Tools == "" && v.searchByDefault
}

// view is what sessions of one key see: their lists, and the SDK server that
// tells them so.
type view struct {
	all      *views
	key      viewKey
	builtins []builtinTool // the gateway's own tools

	// guarded by views.mu
	holders  int       // MCP sessions and requests in progress at the server
	lastUsed time.Time // when the last holder left, or the view was last used

	buildMu sync.Mutex // held while the list is made, so that it is made once

	mu              sync.Mutex // guards the fields below
	server          *mcp.Server
	sdkFeatures     serverFeatures // what the server tells
	sdkInstructions string         // and its instructions
	list            *toolset
	lastOfferings   *offerings
	checked         time.Time            // when list was last known to be current; zero: ask
	announced       versions             // of the lists that sessions know of
	streams         map[*stream]struct{} // that are told of changes
	sampleSession   action.Session       // one that sees this view
}

// views is the pool of views.
type views struct {
	builtins         []builtinTool
	searchByDefault  bool             // what sessions list that do not say
	builtinOfferings builtinOfferings // the gateway's own
	mu               sync.Mutex
	all              map[viewKey]*view

	tools     listCache[toolset]
	offerings listCache[offerings]
}

// listCache are the lists in use. Views of many tasks mostly see the same one, which
// is large: so they share it.
type listCache[T any] struct {
	mu sync.Mutex
	m  map[listCacheKey]weak.Pointer[T]
}

type listCacheKey struct{ organization, version string }

// of returns the list of the version, made if nobody has it.
func (s *listCache[T]) of(organization, version string, encode func() *T) *T {
	key := listCacheKey{organization, version}
	s.mu.Lock()
	list := s.m[key].Value()
	s.mu.Unlock()
	if list != nil {
		return list
	}
	list = encode()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[listCacheKey]weak.Pointer[T]{}
	}
	for old, p := range s.m {
		if p.Value() == nil {
			delete(s.m, old)
		}
	}
	s.m[key] = weak.Make(list)
	return list
}

// of returns the view of a session, made if need be. It stays in the pool for
// some time; hold it to keep its server.
func (v *views) of(s *action.Session, now time.Time) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ofLocked(s, now)
}

func (v *views) ofLocked(s *action.Session, now time.Time) *view {
	key := v.keyOf(s)
	w := v.all[key]
	if w == nil {
		w = &view{all: v, key: key, builtins: v.builtins, sampleSession: *s}
		v.all[key] = w
	}
	w.lastUsed = now
	return w
}

// hold returns the view of a session and keeps it until release.
func (v *views) hold(s *action.Session, now time.Time) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.ofLocked(s, now)
	w.holders++
	return w
}

func (v *views) release(w *view, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.holders--
	w.lastUsed = now
}

// expire drops the views that nobody held or used since t.
func (v *views) expire(t time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, w := range v.all {
		if w.holders == 0 && w.lastUsed.Before(t) {
			delete(v.all, key)
		}
	}
}

// invalidate returns the held views of the organizations, or of all of them when
// one is empty, after it marked every view of theirs.
func (v *views) invalidate(organizations map[string]bool) []*view {
	v.mu.Lock()
	defer v.mu.Unlock()
	var held []*view
	for key, w := range v.all {
		if !organizations[key.organization] && !organizations[""] {
			continue
		}
		w.mu.Lock()
		w.checked = time.Time{}
		w.mu.Unlock()
		if w.holders > 0 {
			held = append(held, w)
		}
	}
	return held
}

// current returns the list as it is now.
func (w *view) current(ctx context.Context, gate Gate, s *action.Session, now time.Time) (*toolset, error) {
	available, version, err := gate.Available(ctx, s)
	if err != nil {
		return nil, err
	}
	w.buildMu.Lock()
	defer w.buildMu.Unlock()
	w.mu.Lock()
	list := w.list
	w.mu.Unlock()
	if w.key.search {
		version = "search/" + version // the same tools, listed otherwise
	}
	if list == nil || list.version != version {
		list = w.all.tools.of(w.key.organization, version, func() *toolset { return newToolset(available, w.builtins, version, w.key.search, w.key.completed) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list, w.checked, w.sampleSession = list, now, *s
	w.announceLocked(kindTools, list.announcedVersion)
	return list, nil
}

// recent returns a list that is at most freshFor old. While one caller asks
// for a new one, others go on with the last.
func (w *view) recent(ctx context.Context, gate Gate, s *action.Session, now time.Time) (*toolset, error) {
	w.mu.Lock()
	list, fresh := w.list, !w.checked.IsZero() && now.Sub(w.checked) < listMaxAge
	if list != nil && !fresh {
		// Whoever comes next meanwhile need not ask too.
		w.checked = now
	}
	w.mu.Unlock()
	if list != nil && fresh {
		return list, nil
	}
	return w.current(ctx, gate, s, now)
}

// announceLocked tells the streams of the view that a list is another than the
// one that their clients know of.
func (w *view) announceLocked(k kind, version string) {
	if w.announced[k] == version {
		return
	}
	w.announced[k] = version
	for st := range w.streams {
		st.setVersion(k, version)
	}
}

// addStream has a stream be told of changes from now on, or from those versions on.
func (w *view) addStream(st *stream, since versions) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams == nil {
		w.streams = map[*stream]struct{}{}
	}
	w.streams[st] = struct{}{}
	for k := range kinds {
		st.setVersion(k, since[k])
		st.setVersion(k, w.announced[k])
	}
}

func (w *view) removeStream(st *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.streams, st)
}

// keepAlive has every stream give a sign of life.
func (v *views) keepAlive() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.all {
		w.mu.Lock()
		for st := range w.streams {
			st.keepAlive()
		}
		w.mu.Unlock()
	}
}
