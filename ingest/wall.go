package ingest

import "time"

// What clocks show is reckoned in times of UTC that have the same digits: none
// of those is left out or comes twice.

// next returns the first due time after a time, in UTC; zero: there is none.
func (s timetable) next(after time.Time) time.Time {
	if s.hourly {
		return s.nextShown(after)
	}
	return s.nextReached(after)
}

// nextReached returns when clocks next come to a due time that they had not come
// to before. Several that one gap leaves out are one.
func (s timetable) nextReached(after time.Time) time.Time {
	wall := shown(after.In(s.zone))
	for {
		if wall = s.nextWall(wall); wall.IsZero() {
			return wall
		}
		if at := reached(wall, s.zone); at.After(after) {
			return at
		}
	}
}

// nextShown returns when clocks next show a due time.
func (s timetable) nextShown(after time.Time) time.Time {
	from := after.In(s.zone)
	for wall := shown(from); ; wall = shown(from).Add(-time.Nanosecond) {
		if wall = s.nextWall(wall); wall.IsZero() {
			return wall
		}
		end, lasts := offsetEnd(from)
		if at := wall.Add(-offset(from)); lasts || at.Before(end) {
			return at
		}
		from = end
	}
}

// nextWall returns what clocks show at the next due time after what they show.
func (s timetable) nextWall(wall time.Time) time.Time {
	next := s.fields.Next(wall)
	if next.IsZero() {
		// It looks ahead for five years. Leap days are up to eight apart.
		next = s.fields.Next(time.Date(wall.Year()+6, 1, 1, 0, 0, 0, -1, time.UTC))
	}
	return next
}

// reached returns the first moment at which clocks of a zone show wall or later.
func reached(wall time.Time, zone *time.Location) time.Time {
	for from := wall.Add(-36 * time.Hour).In(zone); ; {
		at := wall.Add(-offset(from))
		if at.Before(from) {
			return from.UTC()
		}
		end, lasts := offsetEnd(from)
		if lasts || at.Before(end) {
			return at
		}
		from = end
	}
}

// offsetEnd returns a moment until which the offset of the time's zone stays as
// it is, or true when it stays for good. On the last day of leap years
// ZoneBounds has an end that is over.
func offsetEnd(t time.Time) (end time.Time, lasts bool) {
	_, end = t.ZoneBounds()
	if end.IsZero() {
		return end, true
	}
	if !end.After(t) {
		end = t.Add(time.Hour).Truncate(time.Hour)
	}
	return end.In(t.Location()), false
}

// shown returns what clocks of the time's zone show.
func shown(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
