package sources_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

const note = `{"text":"hello"}`

func revoked(in *action.Integration) {
	in.Status, in.Reason = action.IntegrationRevoked, "Notes took the token back."
}

func TestACallOfAModule(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1, func(in *action.Integration) { in.Settings, in.Account = json.RawMessage(`{"wide":true}`), "acct" })
	res, err := d.call("add", note, "1")
	if err != nil || res.IsError {
		t.Fatalf("got %s, %v", res.Body, err)
	}
	if diff := cmp.Diff([]string{"token-of-1 " + note}, d.heard); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(res.Secrets, []string{"token-of-1"}) || string(d.last.Settings) != `{"wide":true}` || d.last.Account != "acct" {
		t.Errorf("secrets %q, conn %+v", res.Secrets, d.last)
	}
	if got := said(t, res); !json.Valid([]byte(got)) || !strings.Contains(got, `"did":"{\"text\":\"hello\"}"`) {
		t.Errorf("said %s", got)
	}
}

// Which integration a call is for.
func TestTheIntegrationOfACall(t *testing.T) {
	private := func(in *action.Integration) { in.Visibility = action.VisiblePrivate }
	own := func(in *action.Integration) { in.User = "u1" }
	type change = func(in *action.Integration)
	human := action.Session{Kind: action.Interactive, CreatedBy: "u1"}
	robot := action.Session{Kind: action.Unattended, CreatedBy: "u1"}
	stranger := action.Session{Kind: action.Interactive, CreatedBy: "u2"}
	for _, tt := range []struct {
		name    string
		all     map[string]change
		session action.Session
		bound   []string
		action  string // empty: add, which bears its author's name
		many    bool   // the module chooses what the text ends with
		want    string // whose token is used
		says    string // of the error
	}{
		{name: "none", bound: []string{"all"}, says: "The session is not connected to Notes"},
		{name: "not bound", all: map[string]change{"1": nil}, says: "The session is not connected to Notes"},
		{name: "all", all: map[string]change{"1": nil, "2": private}, bound: []string{"all"}, want: "1"},
		{name: "a private one by its id", all: map[string]change{"1": nil, "2": private}, session: action.Session{CreatedBy: "admin"}, bound: []string{"2"}, want: "2"},
		{name: "one that became private to another", all: map[string]change{"1": nil, "2": private}, session: stranger, bound: []string{"2"}, says: "The session is not connected to Notes"},
		{name: "dead", all: map[string]change{"1": revoked}, bound: []string{"1"}, says: `Notes cannot be used: "Name of 1" is revoked (Notes took the token back).`},
		{name: "the one that lives", all: map[string]change{"1": revoked, "2": nil}, bound: []string{"all"}, want: "2"},
		{name: "several", all: map[string]change{"1": nil, "2": nil}, bound: []string{"all"}, says: "several integrations of Notes"},
		{name: "several, chosen by the params", all: map[string]change{"1": nil, "hello": nil, "2": nil}, bound: []string{"all"}, many: true, want: "hello"},
		{name: "several, of which the one that is meant is dead", all: map[string]change{"1": nil, "hello": revoked}, bound: []string{"all"}, many: true, says: `Notes cannot be used: "Name of hello" is revoked`},
		{name: "several, of which none is meant", all: map[string]change{"1": nil, "2": nil}, bound: []string{"all"}, many: true, says: "The params do not identify the integration of Notes"},

		{name: "in his own name", all: map[string]change{"1": nil, "mine": own}, session: human, bound: []string{"1"}, want: "mine"},
		{name: "what bears no name", all: map[string]change{"1": nil, "mine": own}, session: human, bound: []string{"1"}, action: "list", want: "1"},
		{name: "nobody's name", all: map[string]change{"1": nil, "mine": own}, session: robot, bound: []string{"1"}, want: "1"},
		{name: "another's name", all: map[string]change{"1": nil, "mine": own}, session: stranger, bound: []string{"1"}, want: "1"},
		{name: "his own, which is dead", all: map[string]change{"1": nil, "mine": func(in *action.Integration) { own(in); revoked(in) }}, session: human, bound: []string{"1"}, want: "1"},
		{name: "his own, elsewhere", all: map[string]change{"1": nil, "mine": func(in *action.Integration) { own(in); in.BaseURL = "https://elsewhere.example" }}, session: human, bound: []string{"1"}, want: "1"},
		{name: "his own is no connection", all: map[string]change{"mine": own}, session: human, bound: []string{"all"}, says: "The session is not connected to Notes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, func(m *sources.Module) {
				if tt.many {
					m.Choose = func(params json.RawMessage, among []action.Integration) int {
						return slices.IndexFunc(among, func(in action.Integration) bool { return strings.Contains(string(params), in.ID) })
					}
				}
			})
			for id, change := range tt.all {
				d.add(id, 1, func(in *action.Integration) {
					if change != nil {
						change(in)
					}
				})
			}
			s, name := tt.session, tt.action
			if s.Connections = tt.bound; name == "" {
				name = "add"
			}
			_, err := d.callAs(s, name, note)
			if tt.want != "" && (err != nil || len(d.heard) != 1 || !strings.HasPrefix(d.heard[0], "token-of-"+tt.want+" ")) {
				t.Errorf("the service heard %q, %v", d.heard, err)
			}
			if e := (*action.Error)(nil); tt.says != "" && (!errors.As(err, &e) || !strings.Contains(e.Message, tt.says) || !errors.Is(err, action.ErrUnavailable) || d.heard != nil) {
				t.Errorf("got %v, heard %q", err, d.heard)
			}
		})
	}
}

// What an admin allows of an integration holds for those who act by themselves.
func TestOnesOwnConnectionHasTheSettingsOfTheOrganizations(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1, func(in *action.Integration) { in.Settings = json.RawMessage(`{"wide":false}`) })
	d.add("mine", 1, func(in *action.Integration) { in.User, in.Settings = "u1", json.RawMessage(`{"wide":true}`) })
	_, err := d.callAs(action.Session{Kind: action.Interactive, CreatedBy: "u1", Connections: []string{"1"}}, "add", note)
	if err != nil || d.last.Token != "token-of-mine" || string(d.last.Settings) != `{"wide":false}` {
		t.Errorf("conn %+v, %v", d.last, err)
	}
}

func TestARefusalIsAnAnswer(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	res, err := d.call("list", `{"what":"missing"}`, "1")
	if err != nil || !res.IsError {
		t.Fatalf("got %s, %v", res.Body, err)
	}
	if diff := cmp.Diff("Notes refused (404): There is no note  [redacted] ; list them.", said(t, res)); diff != "" {
		t.Error(diff)
	}
	d.tokens["1"] = strings.Repeat("0123456789", 30)
	if res, err = d.call("list", `{"what":"missing missing"}`, "1"); err != nil || strings.Contains(said(t, res), "0123") {
		t.Errorf("a credential was cut: %s, %v", res.Body, err)
	}
	if res, err = d.call("add", `{"text":"upwards"}`, "1"); err != nil || !res.IsError || !strings.HasPrefix(said(t, res), "Notes refused (invalid_path): ") || len(d.heard) > 0 {
		t.Errorf("params that lead to no request: %s, %v", res.Body, err)
	}
	if _, err := d.call("list", `{"what":"broken"}`, "1"); !errors.Is(err, action.ErrOutcomeUnknown) {
		t.Errorf("no object: %v", err)
	}
}

func TestACredentialThatIsRefused(t *testing.T) {
	const again = `Notes refused (bad_token): It no longer accepts the credential of "Name of 1". Do not repeat the call: tell the user that a person must connect Notes again.`
	for _, tt := range []struct {
		name  string
		next  map[string]string
		lost  error
		heard []string // at the service
		says  string
		err   error
	}{
		{name: "renewed", next: map[string]string{"old-one": "new-one"}, heard: []string{"old-one", "new-one"}},
		{name: "not renewed", heard: []string{"old-one"}, says: again},
		{name: "refused again", next: map[string]string{"old-one": "old-two"}, heard: []string{"old-one", "old-two"}, says: again},
		{name: "the keeper knows that it is over", lost: action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "Connect it again."), heard: []string{"old-one"}, says: again},
		{name: "the keeper is away", lost: errors.New("no database"), heard: []string{"old-one"}, err: action.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, nil)
			d.add("1", 1)
			d.tokens["1"], d.next, d.lost = "old-one", tt.next, tt.lost
			res, err := d.call("add", note, "1")
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v", err)
			}
			if tt.err == nil && tt.says == "" && res.IsError || tt.says != "" && (said(t, res) != tt.says || !res.IsError) {
				t.Errorf("got %s", res.Body)
			}
			var tokens []string
			for _, line := range d.heard {
				tokens = append(tokens, strings.Fields(line)[0])
			}
			if diff := cmp.Diff(tt.heard, tokens); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"1 old-one: bad_token"}, d.refused); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(res.Secrets, tt.heard) {
				t.Errorf("secrets %q", res.Secrets)
			}
		})
	}
}

func TestOnesOwnCredentialThatIsRefused(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	d.add("mine", 1, func(in *action.Integration) { in.User = "u1" })
	d.tokens["mine"] = "old-one"
	res, err := d.callAs(action.Session{Kind: action.Interactive, CreatedBy: "u1", Connections: []string{"1"}}, "add", note)
	if err != nil || !strings.Contains(said(t, res), "the user's own connection. Do not repeat the call: tell the user that they must connect Notes again.") {
		t.Errorf("got %s, %v", res.Body, err)
	}
}

// A service may repeat the credential in what it answers.
func TestTheCredentialIsNotInTheAnswer(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	const token = `tok/en+"of=one\`
	d.tokens["1"] = token
	res, err := d.call("add", note, "1")
	if err != nil || d.heard[0] != token+" "+note {
		t.Fatalf("heard %q, %v", d.heard, err)
	}
	var answer map[string]string
	if err := json.Unmarshal([]byte(said(t, res)), &answer); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"plain": "[redacted]", "base64": "[redacted]", "url": "[redacted]", "did": note}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Error(diff)
	}
	for _, form := range []string{token, base64.StdEncoding.EncodeToString([]byte(token)), url.QueryEscape(token), "tok/en"} {
		if strings.Contains(string(res.Body), form) {
			t.Errorf("%s is in %s", form, res.Body)
		}
	}
}

// Before a module is asked for anything, nothing can have been done: whatever
// fails, the call may be repeated.
func TestWhatFailsBeforeTheCall(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	delete(d.tokens, "1")
	var e *action.Error
	if _, err := d.call("add", note, "1"); !errors.Is(err, action.ErrUnavailable) || !errors.As(err, &e) || e.Code != "credential_lost" || e.Message != "Connect Name of 1 again." {
		t.Errorf("without a credential: %v", err)
	}
	act := d.find("add")
	d.away = errors.New("away")
	if _, err := act.Run(t.Context(), json.RawMessage(note), agent{session: "s1"}); !errors.Is(err, action.ErrUnavailable) || !errors.Is(err, d.away) {
		t.Errorf("without a database: %v", err)
	}
}

// Each integration has its own time, and the Gate lets the longest.
func TestTimeOfACall(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	d.add("2", 1, func(in *action.Integration) { in.TimeoutSeconds = 100 })
	for id, want := range map[string]time.Duration{"1": 30 * time.Second, "2": 100 * time.Second} {
		if _, err := d.call("add", note, id); err != nil || d.left > want || d.left < want/2 {
			t.Errorf("%s had %s, %v", id, d.left, err)
		}
	}
	if got := d.find("add").Timeout; got != 100*time.Second {
		t.Errorf("the Gate is told %s", got)
	}
	d.change("2", func(in *action.Integration) { in.TimeoutSeconds = 5 })
	if got := d.find("add").Timeout; got != 30*time.Second {
		t.Errorf("the Gate is told %s, while one integration has 30 s", got)
	}
	d.change("2", func(in *action.Integration) { in.TimeoutSeconds = 500 })
	if got := d.find("add").Timeout; got != action.MaxTimeout {
		t.Errorf("the Gate is told %s", got)
	}
}
