package ingest

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"sallyport/ingest/event"
)

const (
	// deliverWithin is how long a run is offered to its endpoint.
	deliverWithin = 24 * time.Hour
	// putOffFor is how long one waits for others of its organization.
	putOffFor = 5 * time.Second
	// longestWanted bounds how long an endpoint may put off the next attempt.
	longestWanted = 4 * time.Hour
)

// retryAfter are the pauses between attempts.
func retryAfter() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
	}
}

// retry returns what comes of a failed attempt: another one later, the last when
// the time is over, and then none. The endpoint may have told when it wants it.
func (d *Dispatcher) retry(p event.Parcel, told time.Duration, status int, why string) event.Sent {
	now := d.Now()
	end := began(p, now).Add(deliverWithin)
	if !now.Before(end) {
		return event.Sent{Parcel: p, Status: event.ParcelDead, HTTP: status, Error: why}
	}
	next := now.Add(max(pause(now.Sub(began(p, now))), min(told, longestWanted)))
	if next.After(end) {
		next = end
	}
	return event.Sent{Parcel: p, Status: event.ParcelPending, NextAt: next, HTTP: status, Error: why}
}

// putOff returns a parcel for a little later. It is not the endpoint's fault, and
// no attempt.
func (d *Dispatcher) putOff(p event.Parcel, why string) event.Sent {
	return event.Sent{Parcel: p, Status: event.ParcelPending, NextAt: d.Now().Add(jitter(putOffFor)), Error: why}
}

// unanswered returns a parcel whose endpoint did not answer another one. To it
// this is an attempt: it is dead when its time is over.
func (d *Dispatcher) unanswered(p event.Parcel) event.Sent {
	return d.retry(d.tried(p), 0, 0, "The endpoint did not answer another delivery, so this one was not sent.")
}

// tried notes when the first attempt was.
func (d *Dispatcher) tried(p event.Parcel) event.Parcel {
	if p.FirstAt == nil {
		now := d.Now()
		p.FirstAt = &now
	}
	return p
}

func began(p event.Parcel, now time.Time) time.Time {
	if p.FirstAt == nil {
		return now
	}
	return *p.FirstAt
}

// pause returns how long to wait before the next attempt, by the time since the
// first: how often a parcel was claimed tells less, since not each time it was
// sent. A quarter is chance, so that what failed together does not come back
// together.
func pause(age time.Duration) (d time.Duration) {
	var sum time.Duration
	for _, d = range retryAfter() {
		if sum += d; age < sum {
			break
		}
	}
	return jitter(d)
}

func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// wanted reads Retry-After: seconds, or a date; zero: it does not say.
func wanted(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return date.Sub(now)
	}
	return 0
}
