package connector

import "io"

// ReadEvents gives the parser of event streams to tests.
func ReadEvents(r io.Reader, f func(data, id string) bool) error {
	return readEvents(r, func(e event) bool { return f(string(e.data), e.id) })
}
