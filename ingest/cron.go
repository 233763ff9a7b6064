package ingest

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"sallyport/action"
)

const (
	// maxCron is the longest expression in bytes.
	maxCron = 200
	// leastStep is how far apart the due times of a schedule are at least.
	leastStep = 10 * time.Second

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
		return nil, badCron("This expression never comes due: no month of those has such a day. Write a day that exists, as in \"0 9 28 2 *\".")
	}
	all := []time.Time{}
	for ; len(all) < n && !t.IsZero(); t = s.next(t) {
		all = append(all, t)
	}
	return all, nil
}

// timetable is a cron expression in a time zone.
type timetable struct {
	fields *cron.SpecSchedule // of times without a zone, for which UTC stands
	zone   *time.Location
	hourly bool // every hour is good
}

func parseCron(expression, zone string) (timetable, error) {
	location, err := loadZone(zone)
	if err != nil {
		return timetable{}, err
	}
	fields, err := parseFields(expression)
	if err != nil {
		return timetable{}, err
	}
	const hours = 1<<24 - 1
	return timetable{fields: fields, zone: location, hourly: fields.Hour&hours == hours}, nil
}

// loadZone refuses what time.LoadLocation takes for the zone of this machine.
func loadZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || name == "" || location == time.Local {
		e := action.NewError("invalid_time_zone", line(name, 60))
		e.Field = "/timezone"
		return nil, e
	}
	return location, nil
}

func parseFields(expression string) (*cron.SpecSchedule, error) {
	switch {
	case len(expression) > maxCron:
		return nil, badCron("The expression is longer than 200 bytes. " + cronHelp)
	case strings.Contains(expression, "="): // TZ=, with which the parser panics, too
		return nil, badCron("The expression names a time zone. Move the zone to `timezone`; the expression holds only the fields.")
	case strings.HasPrefix(expression, "@every"):
		// It counts from whenever a process began, so that no two would agree.
		return nil, badCron(`@every has no times of the clock. Write them, as in "*/15 * * * *" for every 15 minutes.`)
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, badCron("This is no cron expression: " + line(err.Error(), keptLine) + ". " + cronHelp)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok || empty(fields) {
		return nil, badCron("This is no cron expression: a field of it has no value. " + cronHelp)
	}
	fields.Location = time.UTC
	if crowded(fields.Second) {
		return nil, badCron(`This comes due more often than every 10 seconds. Write seconds that are further apart, as in "*/10 * * * * *", or leave out the field of seconds.`)
	}
	return fields, nil
}

// empty reports whether a field has no value, as "," has none: the parser takes
// it, and a search would not end soon.
func empty(f *cron.SpecSchedule) bool {
	const star = 1 << 63
	return slices.ContainsFunc([]uint64{f.Second, f.Minute, f.Hour, f.Dom, f.Month, f.Dow}, func(set uint64) bool { return set&^star == 0 })
}

func badCron(message string) error {
	e := action.Errorf(action.ErrInvalid, "invalid_cron", "%s", message)
	e.Field = "/cron_expression"
	return e
}

// crowded reports whether seconds of a minute, a bit each, are too close to one
// another, or to those of the next minute.
func crowded(seconds uint64) bool {
	const minute = 60
	seconds &= 1<<minute - 1
	last := bits.Len64(seconds) - 1 - minute // of the minute before
	for i := range minute {
		if seconds&(1<<i) == 0 {
			continue
		}
		if time.Duration(i-last)*time.Second < leastStep {
			return true
		}
		last = i
	}
	return false
}
