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

// verify takes the signature by SHA-256 and no other. GitHub signs no time: a
// delivery never gets too old.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	signature, ok := event.Header(d.Header, "X-Hub-Signature-256")
	if !ok {
		return event.ErrSignature
	}
	return event.VerifyHex(signature, "sha256=", secrets, d.Body)
}

// members are the body of a delivery, each as it was written.
type members map[string]json.RawMessage

// parse reads a delivery. No header is signed, so what the body is follows from
// its members, which have to be those of the event that the header names.
func parse(d *event.Delivery) (event.Parsed, error) {
	body, err := payload(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	var m members
	if err := json.Unmarshal(body, &m); err != nil {
		return event.Parsed{}, fmt.Errorf("github: the delivery's body: %w", err)
	}
	native, ok := event.Header(d.Header, "X-GitHub-Event")
	if !ok {
		return event.Parsed{}, errors.New("github: the delivery needs one header X-GitHub-Event")
	}
	var in installation
	if err := m.readAny("installation", &in); err != nil {
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

// payload returns the JSON of a body, which a webhook may also be set up to send
// as a form. The body itself tells, not the Content-Type, which is not signed.
func payload(body []byte) ([]byte, error) {
	if form, is := bytes.CutPrefix(body, []byte("payload=")); is {
		text, err := url.QueryUnescape(string(form))
		if err != nil {
			return nil, fmt.Errorf("github: the delivery's form: %w", err)
		}
		body = []byte(text)
	}
	if err := jsonlex.Document(body); err != nil {
		return nil, fmt.Errorf("github: the delivery's body is no JSON: %w", err)
	}
	return body, nil
}

// deliveryID is the GUID of a delivery; empty: it has none that can be kept.
func deliveryID(h http.Header) string {
	id, _ := event.Header(h, "X-GitHub-Delivery")
	if len(id) > 100 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// read decodes a member, which has to be there.
func (m members) read(name string, into any) error {
	raw, ok := m[name]
	if !ok || string(raw) == "null" {
		return fmt.Errorf("github: the delivery has no %s, which its event has", name)
	}
	return m.readAny(name, into)
}

// readAny decodes a member where it is there.
func (m members) readAny(name string, into any) error {
	if m[name] == nil {
		return nil
	}
	if err := json.Unmarshal(m[name], into); err != nil {
		return fmt.Errorf("github: the delivery's %s: %w", name, err)
	}
	return nil
}

// without refuses a body that has one of the members, which those of other
// events have.
func (m members) without(names ...string) error {
	i := slices.IndexFunc(names, func(n string) bool { return m[n] != nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("github: the delivery has a %s, so it is not the event of its header", names[i])
}

// installation is that of the app which was told. Most deliveries say no more
// of it than the id.
type installation struct {
	ID      int64 `json:"id"`
	AppID   int64 `json:"app_id"`
	Account owner `json:"account"`
}

// owner is a user or an organization.
type owner struct {
	ID  int64  `json:"id"`
	URL string `json:"url"` // at the API of the server that it is of
}

// account is as an integration of the owner has it; empty: it is not said.
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

// account is that which the app is installed at, whose are the repositories. It
// is empty for a webhook of a repository or an organization, which no integration
// has anything to do with.
func (m members) account(in installation) (string, error) {
	if in.ID == 0 || in.Account.ID != 0 {
		return in.Account.account(), nil
	}
	var organization owner
	var of struct {
		Owner owner `json:"owner"`
	}
	err := errors.Join(m.readAny("repository", &of), m.readAny("organization", &organization))
	if of.Owner.ID != 0 {
		return of.Owner.account(), err
	}
	return organization.account(), err
}

// lifecycle tells what happened to an installation. That of an issue is deleted,
// too, and names the installation: only an event about the installation itself
// says of which app it is.
func (m members) lifecycle(in installation) (event.Lifecycle, error) {
	var action string
	if err := m.read("action", &action); err != nil {
		return "", err
	}
	if err := m.without("repository"); err != nil {
		return "", err
	}
	if in.ID == 0 || in.AppID == 0 {
		return "", errors.New("github: the delivery is not about an installation, as its header says")
	}
	return map[string]event.Lifecycle{
		"created": event.Installed, "deleted": event.Uninstalled, "suspend": event.Suspended, "unsuspend": event.Unsuspended,
	}[action], nil
}
