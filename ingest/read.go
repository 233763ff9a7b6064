package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

const (
	// sameBody is how long a body counts as the same delivery, where the id is not
	// signed and whoever captured it could send it under another one.
	sameBody = 5 * time.Minute
	// maxRedacted is the largest body of which anything is shown, in bytes.
	maxRedacted = 1 << 20
)

// reading is what a receipt says, and to whom.
type reading struct {
	receipt event.Receipt
	shown   []byte // the payload for people
	body    string // keyed hash of the signed body, where the id is not signed
	events  []event.Event
	targets []target
	note    string               // why there is nobody to tell
	recheck []action.Integration // a broker hints that they are not what they were
	// lane in which the events wait for being completed; empty: they do not.
	lane string
}

// read reads a receipt. The reading is never nil: of what cannot be read it
// holds what is known.
func (w *Worker) read(ctx context.Context, look *lookup, r event.Receipt) (*reading, error) {
	rd := &reading{receipt: r}
	err := w.match.safely(ctx, "reading delivery "+r.ID, func() error {
		d, err := openDelivery(w.Vault, r)
		if err != nil {
			return err
		}
		rd.shown = w.match.payload(d.Body)
		switch {
		case r.Provider == nangoProvider:
			return w.brokered(ctx, look, rd, d)
		case r.Trigger != "":
			return w.own(ctx, look, rd, d)
		}
		return w.anybodys(ctx, look, rd, d)
	})
	if err == nil {
		rd.lane = w.lane(rd)
	}
	return rd, err
}

// parse reads a delivery with the module of a provider into rd.
func (w *Worker) parse(ctx context.Context, rd *reading, provider string, d *event.Delivery) (event.Parsed, error) {
	p := w.match.providers[provider]
	if p == nil || p.Webhook == nil {
		return event.Parsed{}, action.NewError("no_provider", w.match.line(provider, keptLine))
	}
	var parsed event.Parsed
	err := w.match.safely(ctx, "reading a delivery of "+p.ID, func() (err error) {
		parsed, err = p.Webhook.Parse(d)
		return err
	})
	if err != nil {
		w.Count("unreadable", p.ID)
		return parsed, w.match.unreadable(err)
	}
	body := bodyHash(w.Vault, d.Body)
	if !parsed.Signed && rd.body == "" {
		rd.body = body
	}
	rd.events = parsed.Events
	for i := range rd.events {
		e := &rd.events[i]
		e.Provider = p.ID
		switch {
		case e.Key == "": // nothing tells it from others but its delivery
			e.Key = rd.receipt.ID + ":" + strconv.Itoa(i)
		case !parsed.Signed: // whoever captured a body could use up the key of another
			e.Key += ":" + body[:16]
		}
	}
	return parsed, nil
}

// payload returns a body as people see it.
func (m *matcher) payload(body []byte) []byte {
	if len(body) > maxRedacted {
		return fmt.Appendf(nil, `{"_truncated":true,"size":%d}`, len(body))
	}
	if form, is := bytes.CutPrefix(body, []byte("payload=")); is {
		if text, err := url.QueryUnescape(string(form)); err == nil && json.Valid([]byte(text)) {
			body = []byte(text)
		}
	}
	return m.shown(body)
}
