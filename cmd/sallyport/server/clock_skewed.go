//go:build skewedclock

package server

import (
	"os"
	"time"
)

// wallClock is a clock that is wrong by SALLYPORT_CLOCK_SKEW, for tests of
// instances whose clocks differ. No release is built with it.
func wallClock() time.Time {
	skew, err := time.ParseDuration(os.Getenv("SALLYPORT_CLOCK_SKEW"))
	if err != nil {
		skew = 0
	}
	return time.Now().Add(skew)
}
