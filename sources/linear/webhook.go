package linear

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// defaultTolerance is the clock skew that Linear recommends.
const defaultTolerance = time.Minute

// verify checks the signature of the body and then the timestamp in it. The
// timestamp header is not signed.
func verify(d *event.Delivery, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	signature, ok := event.Header(d.Header, "Linear-Signature")
	if !ok {
		return event.ErrSignature
	}
	if err := event.VerifyHex(signature, "", secrets, d.Body); err != nil {
		return err
	}
	var sent struct {
		At float64 `json:"webhookTimestamp"` // milliseconds
	}
	if sources.ReadDelivery(d.Body, &sent) != nil || sent.At < 0 || sent.At > 1e15 {
		return event.ErrStale
	}
	return event.CheckTimestamp(time.UnixMilli(int64(sent.At)), now, tolerance)
}

// delivery is the body of a webhook.
type delivery struct {
	Type         string                     `json:"type"`
	Action       string                     `json:"action"`
	Organization string                     `json:"organizationId"`
	URL          string                     `json:"url"`
	Actor        *named                     `json:"actor"`
	Data         json.RawMessage            `json:"data"`
	Before       map[string]json.RawMessage `json:"updatedFrom"`
	SentAt       float64                    `json:"webhookTimestamp"` // milliseconds
}

func parse(d *event.Delivery) (event.Parsed, error) {
	var in delivery
	if err := sources.ReadDelivery(d.Body, &in); err != nil {
		return event.Parsed{}, err
	}
	// The ID in the header is not signed, so event keys derive from the entity and the time of the change.
	out := event.Parsed{Signed: true, Account: sources.ValidID(in.Organization)}
	if id, ok := event.Header(d.Header, "Linear-Delivery"); ok {
		out.ID = sources.ValidID(id)
	}
	if in.Type == "OAuthApp" && in.Action == "revoked" {
		out.Lifecycle = event.Uninstalled
	}
	n, id, err := in.eventContext()
	if err != nil || n == nil {
		return out, err
	}
	out.Events = []event.Event{n.event(id, in.Type+":"+in.Action)}
	return out, nil
}

// eventContext returns the context of a delivery and a key from its signed
// body, or nil if no trigger handles it.
func (d delivery) eventContext() (n *eventContext, id string, err error) {
	actions := map[string]string{"create": created, "update": updated}
	n = &eventContext{Action: actions[d.Action], Actor: d.Actor, Changed: d.changed()}
	switch {
	case n.Action == "":
		return nil, "", nil
	case d.Type == "Issue":
		err = sources.ReadDelivery(d.Data, &n.Issue)
		if i := n.Issue; i != nil {
			id = d.key(i.ID, i.UpdatedAt)
			if i.Team.ID == "" {
				i.Team.ID = i.TeamID
			}
		}
	case d.Type == "Comment":
		err = sources.ReadDelivery(d.Data, &n.Comment)
		if c := n.Comment; c != nil {
			id, c.URL = d.key(c.ID, c.UpdatedAt), d.URL
		}
	default:
		return nil, "", nil
	}
	if err == nil && id == "" {
		err = errors.New("a delivery of Linear that does not say what was changed, and when")
	}
	return n, id, err
}

// key identifies the delivery. It uses the time of sending if the change has no
// time, and is empty without an ID or a time.
func (d delivery) key(id, at string) string {
	if at == "" && 0 < d.SentAt && d.SentAt < 1e15 {
		at = time.UnixMilli(int64(d.SentAt)).UTC().Format(time.RFC3339Nano)
	}
	if id = key(id, at); id != "" {
		id += ":" + d.Action
	}
	return id
}

// changed returns the names of the updated fields.
func (d delivery) changed() (names []string) {
	for name := range d.Before {
		if name != "updatedAt" && len(names) < 100 {
			names = append(names, sources.Printable(name, 100))
		}
	}
	slices.Sort(names)
	return names
}

// key identifies a change of an entity, or is empty without an ID or a time.
func key(id, at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if id = sources.ValidID(id); id == "" || err != nil {
		return ""
	}
	return id + ":" + t.UTC().Format(time.RFC3339Nano)
}
