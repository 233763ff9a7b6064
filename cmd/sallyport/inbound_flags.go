package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// webhookSecrets are what URLs of a whole provider are verified with.
type webhookSecrets struct{ of map[string][]string }

// leastSecret is how many characters a secret has at least, here as with triggers.
const leastSecret = 16

// UnmarshalText reads a flag: github=first,github=second,linear=third.
func (s *webhookSecrets) UnmarshalText(text []byte) error {
	s.of = map[string][]string{}
	for one := range strings.SplitSeq(string(text), ",") {
		provider, secret, ok := strings.Cut(strings.TrimSpace(one), "=")
		if !ok || provider == "" || secret == "" {
			return errors.New("each secret is written PROVIDER=SECRET, such as github=…, with a comma between two")
		}
		if len(secret) < leastSecret {
			return fmt.Errorf("the secret of %s has fewer than %d characters, so that it could be guessed; set a longer one here and at the service", provider, leastSecret)
		}
		s.of[provider] = append(s.of[provider], secret)
	}
	return nil
}

// webhookTolerances are how far signed times may be from now, by provider.
type webhookTolerances struct{ of map[string]time.Duration }

// UnmarshalText reads a flag: slack=10m,linear=2m.
func (t *webhookTolerances) UnmarshalText(text []byte) error {
	t.of = map[string]time.Duration{}
	known := timed()
	for one := range strings.SplitSeq(string(text), ",") {
		provider, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || !slices.Contains(known, provider) {
			return fmt.Errorf("%q is no tolerance; write PROVIDER=DURATION, such as %s=10m, for one that signs the time: %s", one, known[0], strings.Join(known, ", "))
		}
		t.of[provider] = d
	}
	return nil
}

// timed are the providers that sign the time of a delivery.
func timed() (ids []string) {
	for _, p := range eventSources() {
		if p.Webhook != nil && p.Webhook.Tolerance > 0 {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// runLife is how long a run may take; zero where no flag was read.
type runLife struct{ time.Duration }

// UnmarshalText reads a flag.
func (l *runLife) UnmarshalText(text []byte) (err error) {
	if l.Duration, err = time.ParseDuration(string(text)); err != nil || l.Duration < time.Minute {
		return fmt.Errorf("%q is no time in which a run could be done; write a duration of 1m or more, such as 48h", text)
	}
	return nil
}

// checkInbound refuses what would lose events or runs.
func (o *options) checkInbound() error {
	switch {
	case o.WebhookRate < 0:
		return errors.New("--webhook-rate must be 0 (no limit) or more")
	case o.PayloadRetention != 0 && o.PayloadRetention < 48*time.Hour:
		return fmt.Errorf("--payload-retention (%s) must be 48h or more, so that nothing is forgotten that is still to be worked on; or 0 to keep all", o.PayloadRetention)
	}
	return nil
}
