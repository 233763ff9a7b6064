package action

import "time"

// Evidence is what proves that the row of an invocation is as it was written.
type Evidence struct {
	Digest      string     // of the row as it is now, in hex
	Seq         int64      // its place in the organization's chain; zero: it is in none yet
	SealedAt    *time.Time // nil: it is in none yet
	Changed     bool       // the row is not what was sealed
	DeliveredAt *time.Time // when its caller had the result; nil: nobody said that he had
}
