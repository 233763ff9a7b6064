package schedule

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

const (
	// maxExpression is the largest length of an expression in bytes.
	maxExpression = 200
	// minInterval is the smallest interval between due times.
	minInterval = 10 * time.Second

	cronHelp = `Write 5 fields, minute hour day month weekday, as in "30 9 * * 1-5", or 6 with seconds first; weekdays are 0 (Sunday) to 6. @hourly, @daily, @weekly, @monthly and @yearly are also valid.`
)

// Times returns the first n due times of a cron expression after a time, in UTC; fewer if
// the expression has no more. An expression has 5 fields, or 6 with seconds first, or is a
// descriptor like @daily; zone is an IANA name. Errors are an [*action.Error] of kind
// ErrInvalid with Field /cron_expression or /timezone.
//
// Daylight saving time: for expressions with specific hours, a time that is skipped is due
// at the first moment after the gap, and one that occurs twice is due the first time. For
// expressions with every hour, due times follow the clock: every quarter of an hour stays
// every quarter of an hour.
func Times(expression, zone string, after time.Time, n int) ([]time.Time, error) {
	s, err := parseCron(expression, zone)
	if err != nil {
		return nil, err
	}
	t := s.next(after)
	if t.IsZero() {
		return nil, cronError("This expression is never due: none of its months has such a day. Use a day that exists, as in \"0 9 28 2 *\".")
	}
	all := []time.Time{}
	for ; len(all) < n && !t.IsZero(); t = s.next(t) {
		all = append(all, t)
	}
	return all, nil
}

// cronSchedule is a cron expression in a time zone.
type cronSchedule struct {
	fields    *cron.SpecSchedule // evaluated on wall times that are represented in UTC
	zone      *time.Location
	everyHour bool // matches every hour
}

func parseCron(expression, zone string) (cronSchedule, error) {
	location, err := loadZone(zone)
	if err != nil {
		return cronSchedule{}, err
	}
	fields, err := parseFields(expression)
	if err != nil {
		return cronSchedule{}, err
	}
	const hours = 1<<24 - 1
	return cronSchedule{fields: fields, zone: location, everyHour: fields.Hour&hours == hours}, nil
}

// loadZone rejects names that time.LoadLocation maps to the local zone of this
// machine.
func loadZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || name == "" || location == time.Local {
		e := action.NewError("invalid_time_zone", match.Line(name, 60))
		e.Field = "/timezone"
		return nil, e
	}
	return location, nil
}

func parseFields(expression string) (*cron.SpecSchedule, error) {
	switch {
	case len(expression) > maxExpression:
		return nil, cronError("The expression is longer than 200 bytes. " + cronHelp)
	case strings.Contains(expression, "="): // such as TZ=, on which the parser can panic
		return nil, cronError("The expression has a time zone. Move it to `timezone`.")
	case strings.HasPrefix(expression, "@every"):
		// It counts from the start of a process, so instances would disagree.
		return nil, cronError(`@every has no fixed times. Use them, as in "*/15 * * * *" for every 15 minutes.`)
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, cronError("This is not a valid cron expression: " + match.Line(err.Error(), match.MaxLine) + ". " + cronHelp)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	const star = 1 << 63
	// The parser accepts a field without a value, as in ",", and the search for the
	// next time would not end.
	if !ok || slices.ContainsFunc([]uint64{fields.Second, fields.Minute, fields.Hour, fields.Dom, fields.Month, fields.Dow}, func(set uint64) bool { return set&^star == 0 }) {
		return nil, cronError("This is not a valid cron expression: a field has no value. " + cronHelp)
	}
	fields.Location = time.UTC
	if tooFrequent(fields.Second) {
		return nil, cronError(`This is due more often than every 10 seconds. Use seconds that are further apart, as in "*/10 * * * * *", or leave out the field of seconds.`)
	}
	return fields, nil
}

func cronError(message string) error {
	e := action.Errorf(action.ErrInvalid, "invalid_cron", "%s", message)
	e.Field = "/cron_expression"
	return e
}

// tooFrequent reports whether seconds of a minute, one bit each, are too close
// together, across the end of the minute, too.
func tooFrequent(seconds uint64) bool {
	const minute = 60
	seconds &= 1<<minute - 1
	last := bits.Len64(seconds) - 1 - minute // in the previous minute
	for i := range minute {
		if seconds&(1<<i) == 0 {
			continue
		}
		if time.Duration(i-last)*time.Second < minInterval {
			return true
		}
		last = i
	}
	return false
}

// Wall times are represented as UTC times with the same digits, in which none is skipped
// or occurs twice.

// next returns the first due time after a time, in UTC; zero: there is none.
func (s cronSchedule) next(after time.Time) time.Time {
	if s.everyHour {
		return s.nextWallTime(after)
	}
	return s.nextFixedTime(after)
}

// nextFixedTime returns when the clock next reaches a due time for the first time.
// Several due times in one gap are one.
func (s cronSchedule) nextFixedTime(after time.Time) time.Time {
	wall := wallTime(after.In(s.zone))
	for {
		if wall = s.nextMatch(wall); wall.IsZero() {
			return wall
		}
		if at := firstReached(wall, s.zone); at.After(after) {
			return at
		}
	}
}

// nextWallTime returns when the clock next shows a due time.
func (s cronSchedule) nextWallTime(after time.Time) time.Time {
	from := after.In(s.zone)
	for wall := wallTime(from); ; wall = wallTime(from).Add(-time.Nanosecond) {
		if wall = s.nextMatch(wall); wall.IsZero() {
			return wall
		}
		end, lasts := offsetUntil(from)
		if at := wall.Add(-offset(from)); lasts || at.Before(end) {
			return at
		}
		from = end
	}
}

// nextMatch returns the next matching wall time.
func (s cronSchedule) nextMatch(wall time.Time) time.Time {
	next := s.fields.Next(wall)
	if next.IsZero() {
		// The library searches five years. Leap days can be eight years apart.
		next = s.fields.Next(time.Date(wall.Year()+6, 1, 1, 0, 0, 0, -1, time.UTC))
	}
	return next
}

// firstReached returns the first moment at which clocks of a zone show wall or
// later.
func firstReached(wall time.Time, zone *time.Location) time.Time {
	for from := wall.Add(-36 * time.Hour).In(zone); ; {
		at := wall.Add(-offset(from))
		if at.Before(from) {
			return from.UTC()
		}
		end, lasts := offsetUntil(from)
		if lasts || at.Before(end) {
			return at
		}
		from = end
	}
}

// offsetUntil returns a moment until which the zone's offset is constant, or true if
// it stays constant. On the last day of leap years, ZoneBounds returns an end in the
// past.
func offsetUntil(t time.Time) (end time.Time, lasts bool) {
	_, end = t.ZoneBounds()
	if end.IsZero() {
		return end, true
	}
	if !end.After(t) {
		end = t.Add(time.Hour).Truncate(time.Hour)
	}
	return end.In(t.Location()), false
}

// wallTime returns the wall time of t's zone.
func wallTime(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// maxMissed bounds the count of missed due times.
const maxMissed = 1000

// occurrence is what a due schedule does.
type occurrence struct {
	at     time.Time // the due time of the event; zero: no event
	missed int       // earlier due times without an event
	next   time.Time // zero: never
}

// occurrence returns the result of a due time. Within the grace period every due
// time creates an event, even if they are due faster than they are checked. After it
// the time was missed: then the last due time creates the event, or with MissedSkip
// only one within the grace period.
func (s cronSchedule) occurrence(due, now time.Time, grace time.Duration, missed event.Missed) occurrence {
	if now.Sub(due) <= grace {
		return occurrence{at: due, next: s.next(due)}
	}
	if missed == event.MissedSkip {
		return occurrence{next: s.next(now.Add(-grace - 1))}
	}
	last := s.last(due, now)
	return occurrence{at: last, missed: s.count(due, last), next: s.next(last)}
}

// last returns the last due time up to now; due is the first. It uses a binary
// search, because a schedule of every 10 seconds may have been missed for a year.
func (s cronSchedule) last(due, now time.Time) time.Time {
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

// count returns the number of due times from one until before another.
func (s cronSchedule) count(from, to time.Time) (n int) {
	for ; n < maxMissed && !from.IsZero() && from.Before(to); from = s.next(from) {
		n++
	}
	return n
}
