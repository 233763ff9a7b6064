//go:build unix

package hangup

import (
	"errors"
	"syscall"
)

// ended peeks at the socket without consuming data.
func ended(fd int) bool {
	for {
		n, _, err := syscall.Recvfrom(fd, make([]byte, 1), syscall.MSG_PEEK)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EWOULDBLOCK):
			return false // nothing comes yet
		default:
			return err != nil || n == 0
		}
	}
}
