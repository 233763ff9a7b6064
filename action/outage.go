package action

import "time"

// Outage is a source that did not answer when its actions were last requested.
type Outage struct {
	Source string    `json:"source_id" example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef"`
	Name   string    `json:"source_name" example:"notes"`
	Reason string    `json:"reason" doc:"What happened, and what to do."`
	Since  time.Time `json:"since" doc:"First failed attempt since it last answered."`
	// Listed reports whether its actions are listed as it last answered.
	Listed bool `json:"listed,omitempty" doc:"Its actions are still listed, as it last answered. Missing: they are not in the list."`
}
