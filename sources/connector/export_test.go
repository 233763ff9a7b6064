package connector

import (
	"io"
	"sync/atomic"
	"time"
)

// TrialTime is how long a trial may take without a sign of life.
const TrialTime = probeTimeout

// Hurry gives servers less time for a subscription.
func (s *Source) Hurry(d time.Duration) { s.subscriptions.timeout = d }

// ReadEvents gives the parser of event streams to tests.
func ReadEvents(r io.Reader, f func(data, id string) bool) error {
	return readEvents(r, func(e event) bool { return f(string(e.data), e.id) })
}

// Clock stops the clock of the source's circuit; what it returns moves it on.
func (s *Source) Clock() func(time.Duration) {
	var passed atomic.Int64
	begin := time.Now()
	s.circuit.mu.Lock()
	defer s.circuit.mu.Unlock()
	s.circuit.now = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	return func(d time.Duration) { passed.Add(int64(d)) }
}
