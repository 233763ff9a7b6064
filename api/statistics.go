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
		Doc:     "Of the calls that were made in the window, which begins and ends with whole buckets. Where there are very many, only the newest ones are counted: 50,000 of all, 10,000 of the held ones and as many of the denied ones; `capped` and `since` tell.",
	}}
)

// StatisticsView is what the charts are made of.
type StatisticsView struct {
	Window     string    `json:"window" enum:"1h,24h,7d,30d" example:"24h"`
	ComputedAt time.Time `json:"computed_at" doc:"When rows were last looked at: some seconds ago at most, or a little longer where that took long."`
	action.Statistics
	Sources []SourceStatistics `json:"sources" nullable:"false" doc:"Those with the most calls first, at most 50; then connectors without any."`
}

// SourceStatistics is how a source does.
type SourceStatistics struct {
	action.SourceCount
	Health string `json:"health,omitempty" enum:"ok,failing,broken,disabled,unknown" doc:"Of a connector, now: its tools can be listed; the last attempt failed; it failed so often that its calls fail at once; it is turned off; it was not asked yet. Absent: it is no connector that there is."`
	Error  string `json:"error,omitempty" doc:"Why its tools cannot be listed."`
}

// GetStatisticsInput is the input of [GetStatistics].
type GetStatisticsInput struct {
	Window string `query:"window" enum:"1h,24h,7d,30d" default:"24h" doc:"How far back."`
}
