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
	// maxExpression is the longest expression in bytes.
	maxExpression = 200
	// minInterval is how far apart the due times of a schedule are at least.
	minInterval = 10 * time.Second

	cronHelp = `Write 5 fields, minute hour day month weekday, as in "30 9 * * 1-5", or 6 with seconds first; weekdays are 0 (Sunday) to 6. @hourly, @daily, @weekly, @monthly and @yearly are good, too.`
)

// Times returns the first n due times of a cron expression after a time, in
// UTC; fewer when the expression comes to an end. It has 5 fields, or 6 with
// seconds first, or is a descriptor like @daily, and zone is an IANA name. Errors
// are an [*action.Error] of kind ErrInvalid with Field /cron_expression or /timezone.
//
// What clocks are set to for summer time changes due times like this. With an
// expression that names hours, a time that is left out is due at the first
// moment after the gap, and one that comes twice is due the first time. With one
// that takes every hour, due is what the clock shows whenever it shows it: each
// quarter of an hour stays each quarter of an hour.
func Times(expression, zone string, after time.Time, n int) ([]time.Time, error) {
	s, err := parseCron(expression, zone)
	if err != nil {
		return nil, err
	}
	t := s.next(after)
	if t.IsZero() {
		return nil, cronError("This expression never comes due: no month of those has such a day. Write a day that exists, as in \"0 9 28 2 *\".")
	}
	all := []time.Time{}
	for ; len(all) < n && !t.IsZero(); t = s.next(t) {
		all = append(all, t)
	}
	return all, nil
}

// cronSchedule is a cron expression in a time zone.
type cronSchedule struct {
	fields    *cron.SpecSchedule // of times without a zone, for which UTC stands
	zone      *time.Location
	everyHour bool // every hour is good
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

// loadZone refuses what time.LoadLocation takes for the zone of this machine.
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
	case strings.Contains(expression, "="): // TZ=, with which the parser panics, too
		return nil, cronError("The expression names a time zone. Move the zone to `timezone`; the expression holds only the fields.")
	case strings.HasPrefix(expression, "@every"):
		// It counts from whenever a process began, so that no two would agree.
		return nil, cronError(`@every has no times of the clock. Write them, as in "*/15 * * * *" for every 15 minutes.`)
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, cronError("This is no cron expression: " + match.Line(err.Error(), match.MaxLine) + ". " + cronHelp)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok || hasEmptyField(fields) {
		return nil, cronError("This is no cron expression: a field of it has no value. " + cronHelp)
	}
	fields.Location = time.UTC
	if tooFrequent(fields.Second) {
		return nil, cronError(`This comes due more often than every 10 seconds. Write seconds that are further apart, as in "*/10 * * * * *", or leave out the field of seconds.`)
	}
	return fields, nil
}

// hasEmptyField reports whether a field has no value, as "," has none: the parser takes
// it, and a search would not end soon.
func hasEmptyField(f *cron.SpecSchedule) bool {
	const star = 1 << 63
	return slices.ContainsFunc([]uint64{f.Second, f.Minute, f.Hour, f.Dom, f.Month, f.Dow}, func(set uint64) bool { return set&^star == 0 })
}

func cronError(message string) error {
	e := action.Errorf(action.ErrInvalid, "invalid_cron", "%s", message)
	e.Field = "/cron_expression"
	return e
}

// tooFrequent reports whether seconds of a minute, a bit each, are too close to one
// another, or to those of the next minute.
func tooFrequent(seconds uint64) bool {
	const minute = 60
	seconds &= 1<<minute - 1
	last := bits.Len64(seconds) - 1 - minute // of the minute before
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

// What clocks show is reckoned in times of UTC that have the same digits: none
// of those is left out or comes twice.

// next returns the first due time after a time, in UTC; zero: there is none.
func (s cronSchedule) next(after time.Time) time.Time {
	if s.everyHour {
		return s.nextWallTime(after)
	}
	return s.nextFixedTime(after)
}

// nextFixedTime returns when clocks next come to a due time that they had not come
// to before. Several that one gap leaves out are one.
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

// nextWallTime returns when clocks next show a due time.
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

// nextMatch returns what clocks show at the next due time after what they show.
func (s cronSchedule) nextMatch(wall time.Time) time.Time {
	next := s.fields.Next(wall)
	if next.IsZero() {
		// It looks ahead for five years. Leap days are up to eight apart.
		next = s.fields.Next(time.Date(wall.Year()+6, 1, 1, 0, 0, 0, -1, time.UTC))
	}
	return next
}

// firstReached returns the first moment at which clocks of a zone show wall or later.
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

// offsetUntil returns a moment until which the offset of the time's zone stays as
// it is, or true when it stays for good. On the last day of leap years
// ZoneBounds has an end that is over.
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

// wallTime returns what clocks of the time's zone show.
func wallTime(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// maxMissed bounds how far missed due times are counted.
const maxMissed = 1000

// occurrence is what a schedule does when it is looked at.
type occurrence struct {
	at     time.Time // the due time that makes an event; zero: none does
	missed int       // due times before it that make none
	next   time.Time // zero: never
}

// occurrence says what comes of a due time that has come. Within the grace each has
// its event, also when they come faster than they are looked at. An older one was
// missed: then the last of all that have come has the event, or none that is
// older than the grace.
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

// last returns the last due time that is not after now, the first of which is
// due. It halves the time between: a second's schedule may have been missed for
// a year.
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

// count returns how many due times there are from one until before another.
func (s cronSchedule) count(from, to time.Time) (n int) {
	for ; n < maxMissed && !from.IsZero() && from.Before(to); from = s.next(from) {
		n++
	}
	return n
}
