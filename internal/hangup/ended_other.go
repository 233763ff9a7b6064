//go:build !unix

package hangup

// ended peeks at the socket without consuming data.
func ended(int) bool { return false }
