package action

import "time"

// Waiter is who waits for the answer of a held call, as its row tells.
type Waiter struct {
	SeenAt   time.Time // when a caller was last there
	Answered bool      // one was told "pending", and asks again later
}
