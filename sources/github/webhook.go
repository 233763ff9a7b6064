package github

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/jsonlex"
)

// verify accepts the SHA-256 signature only. GitHub signs no timestamp, so
// deliveries never expire.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	signature, ok := event.Header(d.Header, "X-Hub-Signature-256")
	if !ok {
		return event.ErrSignature
	}
	return event.VerifyHex(signature, "sha256=", secrets, d.Body)
}

// deliveryBody holds the raw members of a delivery.
type deliveryBody map[string]json.RawMessage

// parse reads a delivery. Headers are not signed, so the members must be those
// of the event in the header.
func parse(d *event.Delivery) (event.Parsed, error) {
	body, err := payload(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	var m deliveryBody
	if err := json.Unmarshal(body, &m); err != nil {
		return event.Parsed{}, fmt.Errorf("github: the delivery's body: %w", err)
	}
	native, ok := event.Header(d.Header, "X-GitHub-Event")
	if !ok {
		return event.Parsed{}, errors.New("github: the delivery needs one header X-GitHub-Event")
	}
	var in installation
	if err := m.readOptional("installation", &in); err != nil {
		return event.Parsed{}, err
	}
	p := event.Parsed{ID: deliveryID(d.Header)}
	if p.Account, err = m.account(in); err != nil {
		return event.Parsed{}, err
	}
	if native == "installation" {
		p.Lifecycle, err = m.lifecycle(in)
		return p, err
	}
	e, err := m.event(native, body)
	if e != nil {
		e.Key = p.ID
		p.Events = []event.Event{*e}
	}
	return p, err
}

// payload returns the JSON of a body, which can be form-encoded. The body
// decides, because the Content-Type is not signed.
func payload(body []byte) ([]byte, error) {
	if form, is := bytes.CutPrefix(body, []byte("payload=")); is {
		text, err := url.QueryUnescape(string(form))
		if err != nil {
			return nil, fmt.Errorf("github: the delivery's form: %w", err)
		}
		body = []byte(text)
	}
	if err := jsonlex.Document(body); err != nil {
		return nil, fmt.Errorf("github: the delivery's body is not valid JSON: %w", err)
	}
	return body, nil
}

// deliveryID returns the GUID of a delivery, or "" if it is not valid.
func deliveryID(h http.Header) string {
	id, _ := event.Header(h, "X-GitHub-Delivery")
	if len(id) > 100 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// readRequired decodes a mandatory member.
func (m deliveryBody) readRequired(name string, into any) error {
	raw, ok := m[name]
	if !ok || string(raw) == "null" {
		return fmt.Errorf("github: the delivery has no %s, which its event has", name)
	}
	return m.readOptional(name, into)
}

// readOptional decodes a member if present.
func (m deliveryBody) readOptional(name string, into any) error {
	if m[name] == nil {
		return nil
	}
	if err := json.Unmarshal(m[name], into); err != nil {
		return fmt.Errorf("github: the delivery's %s: %w", name, err)
	}
	return nil
}

// rejectMembers rejects a body with members of other events.
func (m deliveryBody) rejectMembers(names ...string) error {
	i := slices.IndexFunc(names, func(n string) bool { return m[n] != nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("github: the delivery has a %s, so it is not the event of its header", names[i])
}

// installation is the app installation that a delivery is for. Most deliveries
// have its ID only.
type installation struct {
	ID      int64 `json:"id"`
	AppID   int64 `json:"app_id"`
	Account owner `json:"account"`
}

// owner is a user or an organization.
type owner struct {
	ID  int64  `json:"id"`
	URL string `json:"url"` // API URL
}

// account returns the account ID as integrations store it, or "".
func (o owner) account() string {
	base, err := url.Parse(o.URL)
	if o.ID == 0 || err != nil {
		return ""
	}
	if base.Host == "" {
		return strconv.FormatInt(o.ID, 10)
	}
	base.Path = path.Dir(path.Dir(base.Path)) // without users/octocat
	return userID(base, o.ID)
}

// account returns the account that the app is installed in. It is empty for
// webhooks of a repository or organization, which belong to no integration.
func (m deliveryBody) account(in installation) (string, error) {
	if in.ID == 0 || in.Account.ID != 0 {
		return in.Account.account(), nil
	}
	var organization owner
	var of struct {
		Owner owner `json:"owner"`
	}
	err := errors.Join(m.readOptional("repository", &of), m.readOptional("organization", &organization))
	if of.Owner.ID != 0 {
		return of.Owner.account(), err
	}
	return organization.account(), err
}

// lifecycle returns what happened to an installation. Other events also name
// the installation and have the action deleted, but only installation events
// have the app ID.
func (m deliveryBody) lifecycle(in installation) (event.Lifecycle, error) {
	var action string
	if err := m.readRequired("action", &action); err != nil {
		return "", err
	}
	if err := m.rejectMembers("repository"); err != nil {
		return "", err
	}
	if in.ID == 0 || in.AppID == 0 {
		return "", errors.New("github: the delivery is not about an installation, as its header says")
	}
	return map[string]event.Lifecycle{
		"created": event.Installed, "deleted": event.Uninstalled, "suspend": event.Suspended, "unsuspend": event.Unsuspended,
	}[action], nil
}
