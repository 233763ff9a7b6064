package github

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/jsonlex"
)

// Triggers returns the trigger provider of GitHub: issues, pull requests,
// pushes, checks, and the lifecycle of app installations.
func Triggers() event.Provider {
	return event.Provider{
		ID: "github", Title: "GitHub",
		Types: []event.Type{
			trigger("issue", "Issue", "An issue was opened, closed, labeled or otherwise changed.",
				actionsFilter("opened", "edited", "closed", "reopened", "labeled", "unlabeled", "assigned", "unassigned", "milestoned", "demilestoned",
					"typed", "untyped", "pinned", "unpinned", "locked", "unlocked", "transferred", "deleted"),
				repositoriesFilter, labelsFilter, sendersFilter, botsFilter),
			trigger("pull_request", "Pull request", "A pull request was opened, closed, given commits or otherwise changed.",
				actionsFilter("opened", "edited", "closed", "reopened", "synchronize", "ready_for_review", "converted_to_draft", "labeled", "unlabeled",
					"assigned", "unassigned", "review_requested", "review_request_removed", "milestoned", "demilestoned",
					"auto_merge_enabled", "auto_merge_disabled", "enqueued", "dequeued", "locked", "unlocked"),
				repositoriesFilter, labelsFilter, branchesFilter("Base branches"), sendersFilter, botsFilter),
			trigger("push", "Push", "Commits came to a branch, or a tag was made or moved. A deletion is no push. What a merge queue pushes counts, though a bot does it.",
				repositoriesFilter, branchesFilter("Branches; given any, tags do not count"), sendersFilter, botsFilter),
			trigger("check_suite", "Check suite", "All checks of a commit by one app were asked for, or are through. Apps make checks, so what bots do counts.",
				actionsFilter("completed", "requested", "rerequested"), repositoriesFilter, branchesFilter(checkedBranches), conclusionsFilter, sendersFilter),
			trigger("check_run", "Check run", "One check of a commit was made, is through, or is asked for again. Apps make checks, so what bots do counts.",
				actionsFilter("completed", "created", "rerequested", "requested_action"), repositoriesFilter, branchesFilter(checkedBranches), conclusionsFilter, sendersFilter),
			trigger("workflow_run", "Workflow run", "A run of a GitHub Actions workflow was asked for, began, or is through. What bots started counts.",
				actionsFilter("completed", "requested", "in_progress"), repositoriesFilter, branchesFilter(checkedBranches), conclusionsFilter, sendersFilter),
		},
		Secret:            "The secret is chosen here: enter it as **Secret** of the webhook, in the settings of the repository, of the organization, or of the GitHub App.",
		IdentifiesAccount: true,
		Webhook:           &event.Webhook{Verify: verify, Parse: parse, IDHeader: "X-GitHub-Delivery", MaxBody: 25 << 20},
	}
}

func trigger(id, title, description string, filters ...string) event.Type {
	return event.Type{
		ID: id, Title: title, Description: description, Matches: matches,
		Config: json.RawMessage(`{"type":"object","properties":{` + strings.Join(filters, ",") + `},"additionalProperties":false}`),
	}
}

// Properties of the filter schemas.
const (
	repositoriesFilter = `"repositories":{"type":"array","maxItems":1000,"title":"Repositories","items":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(\\*|[A-Za-z0-9._-]{1,100})$"},"description":"owner/repo, or owner/* for all of an owner. Default: any."}`
	labelsFilter       = `"labels":{"type":"array","maxItems":100,"title":"Labels","items":{"type":"string","minLength":1,"maxLength":100},"description":"One match is enough. Case is ignored, and a label that was just removed counts, too. Default: any."}`
	conclusionsFilter  = `"conclusions":{"type":"array","maxItems":20,"uniqueItems":true,"title":"Conclusions","items":{"enum":["success","failure","neutral","cancelled","skipped","timed_out","action_required","stale","startup_failure"]},"description":"Conclusion. Default: any, and runs that have not ended."}`
	sendersFilter      = `"ignore_senders":{"type":"array","maxItems":100,"title":"Ignored senders","items":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,100}(\\[bot\\])?$"},"description":"Not what these did: logins, such as octocat or dependabot[bot]. Name here the user whose token agents act with, so that they do not start themselves."}`
	botsFilter         = `"bots":{"type":"boolean","title":"Bots","description":"Also what apps and bots did, which is left out otherwise so that agents do not start themselves."}`
	checkedBranches    = "Branches of the commit; a fork's are owner:branch"
)

func actionsFilter(names ...string) string {
	return `"actions":{"type":"array","maxItems":50,"uniqueItems":true,"title":"Actions","items":{"enum":["` + strings.Join(names, `","`) + `"]},"description":"Action, in GitHub's terms. Default: any."}`
}

func branchesFilter(which string) string {
	return fmt.Sprintf(`"branches":{"type":"array","maxItems":100,"title":"Branches","items":{"type":"string","minLength":1,"maxLength":300},"description":"%s. * matches any characters. Default: any."}`, which)
}

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
	// Bots cause checks, workflow runs, and pushes of the merge queue on behalf of people.
	forPeople := slices.Contains([]string{"check_suite", "check_run", "workflow_run"}, e.Type) || e.Type == "push" && in.Sender.Login == "github-merge-queue[bot]"
	if in.Sender.Type == "Bot" && !f.Bots && !forPeople || slices.ContainsFunc(f.Ignored, func(i string) bool { return strings.EqualFold(i, in.Sender.Login) }) {
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

// anyOf reports whether the list is empty or contains a match.
func anyOf(list []string, is func(string) bool) bool {
	return len(list) == 0 || slices.ContainsFunc(list, is)
}

// verify accepts the SHA-256 signature only. GitHub signs no timestamp, so
// deliveries never expire.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	signature, ok := event.Header(d.Header, "X-Hub-Signature-256")
	if !ok {
		return event.ErrSignature
	}
	return event.VerifyHex(signature, "sha256=", secrets, d.Body)
}

// deliveryBody holds the raw members of a delivery.
type deliveryBody map[string]json.RawMessage

// parse reads a delivery. Headers are not signed, so the members must be those
// of the event in the header.
func parse(d *event.Delivery) (event.Parsed, error) {
	body, err := payload(d.Body)
	if err != nil {
		return event.Parsed{}, err
	}
	var m deliveryBody
	if err := json.Unmarshal(body, &m); err != nil {
		return event.Parsed{}, fmt.Errorf("github: the delivery's body: %w", err)
	}
	native, ok := event.Header(d.Header, "X-GitHub-Event")
	if !ok {
		return event.Parsed{}, errors.New("github: the delivery needs one header X-GitHub-Event")
	}
	var in installation
	if err := m.readOptional("installation", &in); err != nil {
		return event.Parsed{}, err
	}
	var p event.Parsed
	if id, _ := event.Header(d.Header, "X-GitHub-Delivery"); len(id) <= 100 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.ID = id
	}
	if p.Account, err = m.account(in); err != nil {
		return event.Parsed{}, err
	}
	if native == "installation" {
		p.Lifecycle, err = m.lifecycle(in)
		return p, err
	}
	e, err := m.event(native, body)
	if e != nil {
		e.Key = p.ID
		p.Events = []event.Event{*e}
	}
	return p, err
}

// payload returns the JSON of a body, which can be form-encoded. The body
// decides, because the Content-Type is not signed.
func payload(body []byte) ([]byte, error) {
	if form, is := bytes.CutPrefix(body, []byte("payload=")); is {
		text, err := url.QueryUnescape(string(form))
		if err != nil {
			return nil, fmt.Errorf("github: the delivery's form: %w", err)
		}
		body = []byte(text)
	}
	if err := jsonlex.Document(body); err != nil {
		return nil, fmt.Errorf("github: the delivery's body is not valid JSON: %w", err)
	}
	return body, nil
}

// readRequired decodes a mandatory member.
func (m deliveryBody) readRequired(name string, into any) error {
	raw, ok := m[name]
	if !ok || string(raw) == "null" {
		return fmt.Errorf("github: the delivery has no %s, which its event has", name)
	}
	return m.readOptional(name, into)
}

// readOptional decodes a member if present.
func (m deliveryBody) readOptional(name string, into any) error {
	if m[name] == nil {
		return nil
	}
	if err := json.Unmarshal(m[name], into); err != nil {
		return fmt.Errorf("github: the delivery's %s: %w", name, err)
	}
	return nil
}

// rejectMembers rejects a body with members of other events.
func (m deliveryBody) rejectMembers(names ...string) error {
	if i := slices.IndexFunc(names, func(n string) bool { return m[n] != nil }); i >= 0 {
		return fmt.Errorf("github: the delivery has a %s, so it is not the event of its header", names[i])
	}
	return nil
}

// installation is the app installation that a delivery is for. Most deliveries
// have its ID only.
type installation struct {
	ID      int64 `json:"id"`
	AppID   int64 `json:"app_id"`
	Account owner `json:"account"`
}

// owner is a user or an organization.
type owner struct {
	ID  int64  `json:"id"`
	URL string `json:"url"` // API URL
}

// account returns the account ID as integrations store it, or "".
func (o owner) account() string {
	base, err := url.Parse(o.URL)
	if o.ID == 0 || err != nil {
		return ""
	}
	if base.Host == "" {
		return strconv.FormatInt(o.ID, 10)
	}
	base.Path = path.Dir(path.Dir(base.Path)) // without users/octocat
	return userID(base, o.ID)
}

// account returns the account that the app is installed in. It is empty for
// webhooks of a repository or organization, which belong to no integration.
func (m deliveryBody) account(in installation) (string, error) {
	if in.ID == 0 || in.Account.ID != 0 {
		return in.Account.account(), nil
	}
	var organization owner
	var of struct {
		Owner owner `json:"owner"`
	}
	err := errors.Join(m.readOptional("repository", &of), m.readOptional("organization", &organization))
	if of.Owner.ID != 0 {
		return of.Owner.account(), err
	}
	return organization.account(), err
}

// lifecycle returns what happened to an installation. Other events also name
// the installation and have the action deleted, but only installation events
// have the app ID.
func (m deliveryBody) lifecycle(in installation) (event.Lifecycle, error) {
	var action string
	if err := m.readRequired("action", &action); err != nil {
		return "", err
	}
	if err := m.rejectMembers("repository"); err != nil {
		return "", err
	}
	if in.ID == 0 || in.AppID == 0 {
		return "", errors.New("github: the delivery is not about an installation, as its header says")
	}
	return map[string]event.Lifecycle{
		"created": event.Installed, "deleted": event.Uninstalled, "suspend": event.Suspended, "unsuspend": event.Unsuspended,
	}[action], nil
}
