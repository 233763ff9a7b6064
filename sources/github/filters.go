package github

import (
	"encoding/json"
	"slices"
	"strings"

	"sallyport/ingest/event"
)

// filters is the config of a trigger. An empty list matches everything, and
// each event type uses the fields in its schema.
type filters struct {
	Actions      []string `json:"actions"`
	Repositories []string `json:"repositories"`
	Branches     []string `json:"branches"`
	Labels       []string `json:"labels"`
	Conclusions  []string `json:"conclusions"`
	Ignored      []string `json:"ignore_senders"`
	Bots         bool     `json:"bots"`
}

// filterInput is the part of an event's context that filters read.
type filterInput struct {
	Action     string         `json:"action"`
	Repository repositoryInfo `json:"repository"`
	Sender     actor          `json:"sender"`
	Branch     string         `json:"branch"`
	Label      named          `json:"label"`
	Issue      labeled        `json:"issue"`
	Pull       labeled        `json:"pull_request"`
	Suite      finished       `json:"check_suite"`
	Run        finished       `json:"check_run"`
	Workflow   finished       `json:"workflow_run"`
}

type labeled struct {
	Labels []named `json:"labels"`
}

type finished struct {
	Conclusion string `json:"conclusion"`
}

// matches reports whether an event passes the filters. Invalid configs or
// contexts never match, so a filter cannot be bypassed.
func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var in filterInput
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &in) != nil {
		return false
	}
	if in.Sender.Type == "Bot" && !f.Bots && !actsForPeople(e.Type, in.Sender.Login) || slices.ContainsFunc(f.Ignored, func(i string) bool { return strings.EqualFold(i, in.Sender.Login) }) {
		return false
	}
	owner, name, _ := strings.Cut(in.Repository.FullName, "/")
	labels := slices.Concat([]named{in.Label}, in.Issue.Labels, in.Pull.Labels)
	conclusions := []string{in.Suite.Conclusion, in.Run.Conclusion, in.Workflow.Conclusion} // of these it has one
	return anyOf(f.Actions, func(a string) bool { return a == in.Action }) &&
		(len(f.Repositories) == 0 || repository{owner, name}.isIn(f.Repositories)) &&
		anyOf(f.Branches, func(b string) bool { return in.Branch != "" && matchesPattern(b, in.Branch) }) &&
		anyOf(f.Labels, func(l string) bool {
			return slices.ContainsFunc(labels, func(has named) bool { return strings.EqualFold(string(has), l) })
		}) &&
		anyOf(f.Conclusions, func(c string) bool { return slices.Contains(conclusions, c) })
}

// actsForPeople reports whether bots cause such events on behalf of people:
// checks, workflow runs, and pushes of the merge queue.
func actsForPeople(kind, login string) bool {
	switch kind {
	case "check_suite", "check_run", "workflow_run":
		return true
	case "push":
		return login == "github-merge-queue[bot]"
	}
	return false
}

// anyOf reports whether the list is empty or contains a match.
func anyOf(list []string, is func(string) bool) bool {
	return len(list) == 0 || slices.ContainsFunc(list, is)
}
