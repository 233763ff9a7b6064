package connector

// Listed counts the calls that streams of sessions know of.
func (s *Source) Listed() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.slots {
		if at.session != nil {
			n += len(at.session.calls)
		}
	}
	return n
}
