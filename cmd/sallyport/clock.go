//go:build !skewedclock

package main

import "time"

// wallClock is this machine's clock.
func wallClock() time.Time { return time.Now() }
