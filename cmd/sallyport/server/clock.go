//go:build !skewedclock

package server

import (
	"time"
)

// wallClock is this machine's clock.
func wallClock() time.Time { return time.Now() }
