package store

import (
	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// recordRow is an event of a trigger or schedule.
type recordRow struct {
	bun.BaseModel `bun:"table:events,alias:e"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Trigger      string `bun:"trigger_id"`
	Automation   string `bun:"automation_id"`
	Receipt      opt    `bun:"inbox_id"`
	Provider     string `bun:"provider"`
	Type         string `bun:"type"`
	Native       opt    `bun:"native"`
	Key          string `bun:"dedup_key"`
	OccurredAt   stamp  `bun:"occurred_at"`
	Title        string `bun:"title"`
	URL          opt    `bun:"url"`
	Skip         opt    `bun:"skip_reason"`
	Error        opt    `bun:"error"`
	CreatedAt    stamp  `bun:"created_at"`
	Shown        opt    `bun:"shown"`
	Sealed       []byte `bun:"sealed"`

	Run       opt `bun:"run_id,scanonly"`
	RunStatus opt `bun:"run_status,scanonly"`

	Session     opt   `bun:"session_id,scanonly"`
	CompletedAt stamp `bun:"completed_at,scanonly"`
}

func newRecordRow(m *event.Match, now stamp) recordRow {
	r := &m.Record
	return recordRow{
		ID: r.ID, Organization: r.Organization, Trigger: r.Trigger, Automation: r.Automation, Receipt: opt(r.Receipt), Provider: r.Provider,
		Type: r.Type, Native: opt(r.Native), Key: r.Key, OccurredAt: atPtr(r.OccurredAt), Title: r.Title, URL: opt(r.URL), Skip: opt(r.Skip),
		Error: opt(r.Error), CreatedAt: at(r.CreatedAt).or(now), Shown: opt(r.Shown), Sealed: m.Sealed,
	}
}

func (r *recordRow) record() event.Record {
	return event.Record{
		ID: r.ID, Organization: r.Organization, Trigger: r.Trigger, Automation: r.Automation, Receipt: string(r.Receipt), Provider: r.Provider,
		Type: r.Type, Native: string(r.Native), Key: r.Key, OccurredAt: r.OccurredAt.ptr(), Title: r.Title, URL: string(r.URL),
		Skip: event.SkipReason(r.Skip), Error: string(r.Error), CreatedAt: r.CreatedAt.t, Run: string(r.Run), RunStatus: event.RunStatus(r.RunStatus),
		Session: string(r.Session), EndedAt: r.endedAt().ptr(), Shown: r.Shown.bytes(),
	}
}

// endedAt is when the event's run ended; what starts none ends as it comes.
func (r *recordRow) endedAt() stamp {
	if r.Skip != "" && r.Run == "" {
		return r.CreatedAt
	}
	return r.CompletedAt
}

// insertEventsSQL and keepFirstSQL write those, between the two, whose trigger
// has none of the key, and return their ids. One without a run because it could
// not be made is replaced, and one that nobody verified gives way to one that is.
const (
	insertEventsSQL = "INSERT INTO events AS e (" + eventColumns + ") VALUES "
	keepFirstSQL    = " ON CONFLICT (trigger_id, dedup_key) DO UPDATE SET " + replaceSQL + " WHERE " + givesWaySQL + " RETURNING id"
)

// givesWaySQL tells of an event e that another of its key takes its place.
const givesWaySQL = "e.skip_reason = 'run_create_failed' OR e.skip_reason = 'unverified' AND EXCLUDED.skip_reason IS NULL"

// replaceSQL has an event take another's place.
const replaceSQL = `id = EXCLUDED.id, organization_id = EXCLUDED.organization_id, automation_id = EXCLUDED.automation_id, inbox_id = EXCLUDED.inbox_id,
  provider = EXCLUDED.provider, type = EXCLUDED.type, native = EXCLUDED.native, occurred_at = EXCLUDED.occurred_at, title = EXCLUDED.title, url = EXCLUDED.url,
  skip_reason = EXCLUDED.skip_reason, error = EXCLUDED.error, created_at = EXCLUDED.created_at, shown = EXCLUDED.shown, sealed = EXCLUDED.sealed`

// newRunRow is a run that waits, and newParcelRow its delivery.
func newRunRow(r *event.Run) runRow {
	return runRow{
		ID: r.ID, Organization: r.Organization, Automation: r.Automation, Event: r.Event, Trigger: r.Trigger, Status: string(r.Status),
		CreatedAt: at(r.CreatedAt),
	}
}

func newParcelRow(r *event.Run, id string) parcelRow {
	return parcelRow{
		ID: id, Organization: r.Organization, Run: r.ID, Status: string(event.ParcelPending), NextAt: at(r.CreatedAt), CreatedAt: at(r.CreatedAt),
	}
}
