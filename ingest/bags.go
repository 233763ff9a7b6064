package ingest

import (
	"sync"
	"time"

	"sallyport/ingest/event"
)

const (
	bagDeep = 32 // parcels of an organization that wait in this process
	bagWide = 4  // requests to its endpoint at once
)

// bags hold claimed parcels by organization, so that an endpoint which does not
// answer keeps nobody's waiting but its own.
type bags struct {
	mu sync.Mutex
	of map[string]*bag
}

type bag struct {
	organization string
	waiting      []bagged
	senders      int
	down         bool // the endpoint did not answer the last request
}

type bagged struct {
	event.Dispatch
	at time.Time // when it was claimed
}

// place is where a parcel was put.
type place int

const (
	inBag  place = iota
	sender       // in the bag, which wants one more sender
	full         // nowhere: the bag is
	down         // nowhere: the endpoint is
)

// put puts a parcel into its organization's bag, unless that is full or the
// endpoint is down.
func (s *bags) put(one event.Dispatch, now time.Time) (*bag, place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[one.Parcel.Organization]
	if b == nil {
		b = &bag{organization: one.Parcel.Organization}
		if s.of == nil {
			s.of = map[string]*bag{}
		}
		s.of[b.organization] = b
	}
	switch {
	case b.down:
		return b, down
	case len(b.waiting) >= bagDeep:
		return b, full
	}
	b.waiting = append(b.waiting, bagged{one, now})
	if b.senders >= bagWide {
		return b, inBag
	}
	b.senders++
	return b, sender
}

// next takes a parcel out; false: it was the sender's last.
func (s *bags) next(b *bag) (one bagged, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.waiting) > 0 {
		one, b.waiting = b.waiting[0], b.waiting[1:]
		return one, true
	}
	if b.senders--; b.senders == 0 {
		delete(s.of, b.organization) // with what is known of the endpoint
	}
	return one, false
}

// answered notes whether an endpoint answered. When it did not, those that wait
// are taken out.
func (s *bags) answered(b *bag, did bool) (out []bagged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.down = !did; did {
		return nil
	}
	out, b.waiting = b.waiting, nil
	return out
}
