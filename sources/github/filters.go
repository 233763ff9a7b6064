package github

import (
	"encoding/json"
	"slices"
	"strings"

	"sallyport/ingest/event"
)

// wanted is the config of a trigger. An empty list lets everything pass, and
// a type of event uses only those that its schema has.
type wanted struct {
	Actions      []string `json:"actions"`
	Repositories []string `json:"repositories"`
	Branches     []string `json:"branches"`
	Labels       []string `json:"labels"`
	Conclusions  []string `json:"conclusions"`
	Ignored      []string `json:"ignore_senders"`
	Bots         bool     `json:"bots"`
}

// facts are what filters read of an event's context.
type facts struct {
	Action     string   `json:"action"`
	Repository where    `json:"repository"`
	Sender     actor    `json:"sender"`
	Branch     string   `json:"branch"`
	Label      named    `json:"label"`
	Issue      labeled  `json:"issue"`
	Pull       labeled  `json:"pull_request"`
	Suite      finished `json:"check_suite"`
	Run        finished `json:"check_run"`
	Workflow   finished `json:"workflow_run"`
}

type labeled struct {
	Labels []named `json:"labels"`
}

type finished struct {
	Conclusion string `json:"conclusion"`
}

// passes reports whether an event passes the filters. What cannot be read does
// not pass: a filter that was meant must not go missing.
func passes(e *event.Event, config json.RawMessage) bool {
	var f wanted
	var is facts
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &is) != nil {
		return false
	}
	if is.Sender.Type == "Bot" && !f.Bots && !ofMachines(e.Type, is.Sender.Login) || slices.ContainsFunc(f.Ignored, func(i string) bool { return strings.EqualFold(i, is.Sender.Login) }) {
		return false
	}
	owner, name, _ := strings.Cut(is.Repository.FullName, "/")
	labels := slices.Concat([]named{is.Label}, is.Issue.Labels, is.Pull.Labels)
	conclusions := []string{is.Suite.Conclusion, is.Run.Conclusion, is.Workflow.Conclusion} // of these it has one
	return either(f.Actions, func(a string) bool { return a == is.Action }) &&
		(len(f.Repositories) == 0 || repository{owner, name}.among(f.Repositories)) &&
		either(f.Branches, func(b string) bool { return is.Branch != "" && matches(b, is.Branch) }) &&
		either(f.Labels, func(l string) bool {
			return slices.ContainsFunc(labels, func(has named) bool { return strings.EqualFold(string(has), l) })
		}) &&
		either(f.Conclusions, func(c string) bool { return slices.Contains(conclusions, c) })
}

// ofMachines reports whether bots do such things for people: they make checks, run
// workflows, and merge what people queued.
func ofMachines(kind, login string) bool {
	switch kind {
	case "check_suite", "check_run", "workflow_run":
		return true
	case "push":
		return login == "github-merge-queue[bot]"
	}
	return false
}

// either reports whether one of a list is what is wanted, or nothing is.
func either(list []string, is func(string) bool) bool {
	return len(list) == 0 || slices.ContainsFunc(list, is)
}
