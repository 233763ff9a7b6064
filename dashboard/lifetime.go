package dashboard

import (
	"time"

	"sallyport/action"
	"sallyport/api"
)

const maxLifetime = 10 * 365 * 24 * time.Hour

// lifetimeUntil returns when it ends; nil for never.
func lifetimeUntil(l api.Lifetime, now time.Time) (*time.Time, error) {
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
