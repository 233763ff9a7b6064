package dashboard

import (
	"time"

	"sallyport/action"
)

// Lifetime says when something ends: at a time or in a while. Without either,
// never; an approval of a gate, in 30 days.
type Lifetime struct {
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"In the future; absent: never, or in 30 days for the approval of a gate."`
	ExpiresIn string     `json:"expires_in,omitempty" maxLength:"40" doc:"Instead of expires_at: a duration from now, such as 24h." example:"24h"`
}

const maxLifetime = 10 * 365 * 24 * time.Hour

// until returns when it ends; nil for never.
func (l Lifetime) until(now time.Time) (*time.Time, error) {
	if l.ExpiresIn == "" {
		if l.ExpiresAt != nil && !now.Before(*l.ExpiresAt) {
			return nil, invalid("/expires_at", "expires_at must be in the future; leave it out for never.")
		}
		return l.ExpiresAt, nil
	}
	if l.ExpiresAt != nil {
		return nil, invalid("/expires_in", "Send expires_at or expires_in, not both.")
	}
	d, err := time.ParseDuration(l.ExpiresIn)
	if err != nil || d <= 0 || d > maxLifetime {
		return nil, invalid("/expires_in", "expires_in must be a duration above zero and up to 87600h, such as 90m or 24h.")
	}
	at := now.Add(d)
	return &at, nil
}

// under puts the field of an error below another one, as in /grant/scope.
func under(err error, field string) error {
	e := action.Public(err)
	if e.Field == "" || e.Kind == nil {
		return err
	}
	return placed(err, field+e.Field)
}
