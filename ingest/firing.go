package ingest

import (
	"time"

	"sallyport/ingest/event"
)

// countMissed bounds how far missed due times are counted.
const countMissed = 1000

// firing is what a schedule does when it is looked at.
type firing struct {
	at     time.Time // the due time that makes an event; zero: none does
	missed int       // due times before it that make none
	next   time.Time // zero: never
}

// firing says what comes of a due time that has come. Within the grace each has
// its event, also when they come faster than they are looked at. An older one was
// missed: then the last of all that have come has the event, or none that is
// older than the grace.
func (s timetable) firing(due, now time.Time, grace time.Duration, missed event.Missed) firing {
	if now.Sub(due) <= grace {
		return firing{at: due, next: s.next(due)}
	}
	if missed == event.MissedSkip {
		return firing{next: s.next(now.Add(-grace - 1))}
	}
	last := s.last(due, now)
	return firing{at: last, missed: s.count(due, last), next: s.next(last)}
}

// last returns the last due time that is not after now, the first of which is
// due. It halves the time between: a second's schedule may have been missed for
// a year.
func (s timetable) last(due, now time.Time) time.Time {
	come := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	for end := now; come(s.next(due)); {
		middle := due.Add(end.Sub(due) / 2)
		if next := s.next(middle); come(next) {
			due = next
		} else {
			end = middle
		}
	}
	return due
}

// count returns how many due times there are from one until before another.
func (s timetable) count(from, to time.Time) (n int) {
	for ; n < countMissed && !from.IsZero() && from.Before(to); from = s.next(from) {
		n++
	}
	return n
}
