package inbox

import (
	"context"
	"errors"
	"slices"

	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
)

// hydrateFunc completes an event for a target and returns a note for people.
type hydrateFunc func(t target, e *event.Event) (note string, err error)

// outcome completes the events, evaluates the triggers and returns the outcome of a
// reading. A nil with means that its events are complete.
func (w *Worker) outcome(ctx context.Context, rd *reading, with hydrateFunc) event.Settlement {
	s := event.Settlement{
		Receipt: rd.receipt, Status: event.ReceiptCompleted, Error: rd.note, KeepPayload: rd.note != "", Redacted: rd.shown, BodyHash: rd.body, DedupWindow: sameBodyWindow,
	}
	if len(rd.events) > 0 {
		s.Native = w.match.Line(rd.events[0].Native, match.MaxLine)
	}
	err := w.match.Recovering(ctx, "working on delivery "+rd.receipt.ID, func() (err error) {
		if err = w.recheckIntegrations(ctx, rd); err == nil {
			s.Matches, err = w.matches(ctx, rd, with)
		}
		return err
	})
	var late *postponed
	switch {
	case errors.As(err, &late):
		return w.postpone(rd, late)
	case err != nil:
		return w.failure(ctx, rd, err)
	}
	return s
}

// matches completes each event and evaluates the triggers of its type.
func (w *Worker) matches(ctx context.Context, rd *reading, with hydrateFunc) (all []event.Match, err error) {
	for _, e := range rd.events {
		for _, t := range rd.targets {
			if !t.listensTo(e) {
				continue
			}
			whole, note := e, ""
			if with != nil && w.needsHydration(t, e) {
				if note, err = with(t, &whole); err != nil {
					return nil, err
				}
			}
			for _, m := range w.match.Matches(ctx, t.triggers, whole, rd.receipt.ID) {
				if m.Record.Error == "" {
					m.Record.Error = note
				}
				if t.unverified && m.Record.Skip == "" {
					m = skip(m, event.SkipUnverified, "")
				}
				all = append(all, m)
			}
		}
	}
	return all, nil
}

func skip(m event.Match, why event.SkipReason, text string) event.Match {
	m.Record.Skip, m.Record.Error, m.Run, m.Sealed = why, text, "", nil
	return m
}

// postpone releases a receipt until a time.
func (w *Worker) postpone(rd *reading, l *postponed) event.Settlement {
	return event.Settlement{Receipt: rd.receipt, Status: event.ReceiptQueued, NextAt: l.until.UTC(), Error: l.reason, Failures: rd.receipt.Failures}
}

// failure releases a receipt for a retry, or fails it after the last attempt or a
// permanent error.
func (w *Worker) failure(ctx context.Context, rd *reading, err error) event.Settlement {
	r := rd.receipt
	w.Log.WarnContext(ctx, "a delivery could not be processed", "delivery", r.ID, "endpoint", r.Endpoint, "attempt", r.Attempt, "error", w.match.JSON.RedactText(err.Error(), nil))
	failures := r.Failures + 1
	s := event.Settlement{
		Receipt: r, Status: event.ReceiptQueued, NextAt: w.Now().UTC().Add(w.Backoff(failures)), Error: w.match.PublicText(err), Failures: failures,
	}
	if failures >= w.MaxAttempts || match.IsPermanent(err) {
		s.Status, s.Redacted = event.ReceiptFailed, rd.shown
	}
	return s
}

// settle writes outcomes in one transaction; one by one if that fails, so that only
// the faulty ones remain.
func (w *Worker) settle(ctx context.Context, list []event.Settlement) {
	if len(list) == 0 {
		return
	}
	defer func() {
		for _, s := range list {
			w.leases.remove(s.Receipt.ID)
		}
	}()
	err := w.write(ctx, list)
	if err == nil || ctx.Err() != nil {
		return
	}
	if len(list) == 1 {
		w.settleFailed(ctx, list[0], err)
		return
	}
	w.Log.WarnContext(ctx, "deliveries could not be written together; writing them one by one", "deliveries", len(list), "error", err)
	for _, s := range list {
		if err := w.write(ctx, []event.Settlement{s}); err != nil && ctx.Err() == nil {
			w.settleFailed(ctx, s, err)
		}
	}
}

// settleFailed releases a receipt whose outcome could not be written. After the last
// attempt its events are stored as skipped, for people to see.
func (w *Worker) settleFailed(ctx context.Context, s event.Settlement, cause error) {
	back := w.failure(ctx, &reading{receipt: s.Receipt, shown: s.Redacted}, cause)
	if back.Status == event.ReceiptFailed {
		back.Native = s.Native
		for _, m := range s.Matches {
			back.Matches = append(back.Matches, skip(m, event.SkipRunFailed, back.Error))
		}
		if w.write(ctx, []event.Settlement{back}) == nil {
			return
		}
		back.Matches, back.Redacted, back.Native = nil, nil, ""
	}
	if err := w.write(ctx, []event.Settlement{back}); err != nil {
		w.Log.ErrorContext(ctx, "the outcome of a delivery could not be written; it is retried when its lease expires", "delivery", s.Receipt.ID, "error", err)
	}
}

// write writes outcomes and waits while the database is unreachable.
func (w *Worker) write(ctx context.Context, list []event.Settlement) error {
	var out event.SettleResult
	err := loop.RetryUnavailable(ctx, func() (err error) {
		out, err = w.Rows.Settle(ctx, w.Worker, list)
		return err
	})
	if err != nil {
		return err
	}
	w.count(list, out)
	if len(out.Runs) > 0 {
		w.Began(out.Runs)
	}
	return nil
}

func (w *Worker) count(list []event.Settlement, out event.SettleResult) {
	began := make(map[string]bool, len(out.Runs))
	for _, r := range out.Runs {
		began[r.ID] = true
	}
	what := map[event.ReceiptStatus]string{event.ReceiptCompleted: "completed", event.ReceiptQueued: "retried", event.ReceiptFailed: "failed"}
	for _, s := range list {
		w.Count(what[s.Status], s.Receipt.Provider)
		if slices.Contains(out.Duplicates, s.Receipt.ID) {
			w.Count("doubled", s.Receipt.Provider)
		}
		for _, m := range s.Matches {
			switch {
			case m.Run == "":
			case began[m.Run]:
				w.Count("run", m.Record.Provider)
			default:
				w.Count("no_run", m.Record.Provider)
			}
		}
	}
}
