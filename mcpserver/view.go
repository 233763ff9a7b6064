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

// listMaxAge is how long tools/call may use an earlier list to resolve a name. The Gate
// decides on every call; the list only finds the action.
const listMaxAge = time.Second

// viewKey is everything about a session that determines its lists. Sessions with the
// same key share lists and an SDK server; two organizations never do.
type viewKey struct {
	organization, automation, group, task string
	connections, onBehalfOf               string             // the integrations that it may use, and for whom
	event                                 bool               // an inbound event started it
	sessionType                           action.SessionType // determines the first prompt
	ofRun                                 bool               // works on a run of an automation
	completed                             bool               // the session is completed
	search                                bool               // search mode
}

func (v *views) keyOf(s *action.Session) viewKey {
	k := viewKey{
		organization: s.Organization, automation: s.Automation, group: s.Group, event: s.Event != "",
		sessionType: s.Type, ofRun: s.ForRun(), completed: s.CompletedAt != nil, search: v.usesSearch(s),
	}
	if len(s.Connections) > 0 {
		k.connections, k.onBehalfOf = strings.Join(slices.Sorted(slices.Values(s.Connections)), ","), s.CreatedBy
	}
	if s.Group != "" { // only gates depend on the task, and only groups have gates
		k.task = s.Task
	}
	return k
}

// usesSearch reports whether the session lists tools in search mode.
func (v *views) usesSearch(s *action.Session) bool {
	return s.Tools == action.ListSearch || s.Tools == "" && v.searchByDefault
}

// view is what sessions of one key see: their lists and their SDK server.
type view struct {
	all      *views
	key      viewKey
	builtins []builtinTool // the built-in tools

	// guarded by views.mu
	holders  int       // MCP sessions and requests that use the SDK server
	lastUsed time.Time // by a holder or a request

	buildMu sync.Mutex // held while the list is built, so that it is built once

	mu              sync.Mutex // guards the fields below
	server          *mcp.Server
	sdkFeatures     serverFeatures // of the SDK server
	sdkInstructions string         // of the SDK server
	list            *toolset
	lastOfferings   *offerings
	checked         time.Time            // when list was last known to be current; zero: unknown
	announced       versions             // of the lists that sessions were told
	streams         map[*stream]struct{} // that are notified of changes
	sampleSession   action.Session       // a session with this view
}

// views is the pool of views.
type views struct {
	builtins         []builtinTool
	searchByDefault  bool             // for sessions without a setting
	builtinOfferings builtinOfferings // the built-in resources and prompts
	mu               sync.Mutex
	all              map[viewKey]*view

	tools     listCache[toolset]
	offerings listCache[offerings]
}

// listCache shares lists between views: views of many tasks mostly have the same
// list, which is large.
type listCache[T any] struct {
	mu sync.Mutex
	m  map[listCacheKey]weak.Pointer[T]
}

type listCacheKey struct{ organization, version string }

// of returns the list of a version, and encodes it if it is not cached.
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

// of returns the view of a session. It may be dropped after some time; use hold to
// keep its SDK server.
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

// expire drops views that were not held or used since t.
func (v *views) expire(t time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, w := range v.all {
		if w.holders == 0 && w.lastUsed.Before(t) {
			delete(v.all, key)
		}
	}
}

// invalidate marks the views of the organizations (of all, if one is empty) as
// outdated and returns those that are held.
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

// current returns the current list.
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
		version = "search/" + version // the same tools, listed differently
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

// recent returns a list that is at most listMaxAge old. While one caller refreshes
// it, others use the last one.
func (w *view) recent(ctx context.Context, gate Gate, s *action.Session, now time.Time) (*toolset, error) {
	w.mu.Lock()
	list, fresh := w.list, !w.checked.IsZero() && now.Sub(w.checked) < listMaxAge
	if list != nil && !fresh {
		// Callers that arrive meanwhile do not refresh it, too.
		w.checked = now
	}
	w.mu.Unlock()
	if list != nil && fresh {
		return list, nil
	}
	return w.current(ctx, gate, s, now)
}

// announceLocked notifies the streams of the view if the version of a list changed.
func (w *view) announceLocked(k kind, version string) {
	if w.announced[k] == version {
		return
	}
	w.announced[k] = version
	for st := range w.streams {
		st.setVersion(k, version)
	}
}

// addStream has a stream notified of changes from now on, or since the given
// versions.
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

// keepAlive has every stream send a keep-alive comment.
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
