package api

import (
	"time"

	"sallyport/action"
)

// Routes.
var (
	GetStatistics = Route[GetStatisticsInput, StatisticsView]{Operation{
		Method: "GET", Path: "/api/v1/statistics", Who: Member, Tag: "invocations",
		Summary: "Count calls by time, action, source and outcome",
		Doc:     "Counts calls created in the window, which starts and ends with whole buckets. Only the newest are counted: 50,000 in total, 10,000 pending and 10,000 denied; see `capped` and `since`.",
	}}
)

// StatisticsView has the data of the charts.
type StatisticsView struct {
	Window     string    `json:"window" enum:"1h,24h,7d,30d" example:"24h"`
	ComputedAt time.Time `json:"computed_at" doc:"When the rows were last read: a few seconds ago, or longer if reading was slow."`
	action.Statistics
	Sources []SourceStatistics `json:"sources" nullable:"false" doc:"Most called first, at most 50; then connectors without calls."`
}

// SourceStatistics has the counts and health of a source.
type SourceStatistics struct {
	action.SourceCount
	Health string `json:"health,omitempty" enum:"ok,failing,broken,disabled,unknown" doc:"Status of a connector: its tools can be listed; the last attempt failed; the circuit is open; it is disabled; it has not been asked yet. Missing: not an existing connector."`
	Error  string `json:"error,omitempty" doc:"Why the tools cannot be listed."`
}

// GetStatisticsInput is the input of [GetStatistics].
type GetStatisticsInput struct {
	Window string `query:"window" enum:"1h,24h,7d,30d" default:"24h" doc:"Length of the window."`
}
