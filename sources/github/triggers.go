package github

import (
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/ingest/event"
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
	repositoriesFilter = `"repositories":{"type":"array","maxItems":1000,"title":"Repositories","items":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(\\*|[A-Za-z0-9._-]{1,100})$"},"description":"owner/repo, or owner/* for all of an owner. None: any."}`
	labelsFilter       = `"labels":{"type":"array","maxItems":100,"title":"Labels","items":{"type":"string","minLength":1,"maxLength":100},"description":"One of them is enough, in whatever case; the one that was just removed counts too. None: any."}`
	conclusionsFilter  = `"conclusions":{"type":"array","maxItems":20,"uniqueItems":true,"title":"Conclusions","items":{"enum":["success","failure","neutral","cancelled","skipped","timed_out","action_required","stale","startup_failure"]},"description":"How it ended. None: any, and what has not ended."}`
	sendersFilter      = `"ignore_senders":{"type":"array","maxItems":100,"title":"Ignored senders","items":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,100}(\\[bot\\])?$"},"description":"Not what these did: logins, such as octocat or dependabot[bot]. Name here the user whose token agents act with, so that they do not start themselves."}`
	botsFilter         = `"bots":{"type":"boolean","title":"Bots","description":"Also what apps and bots did, which is left out otherwise so that agents do not start themselves."}`
	checkedBranches    = "Branches of the commit; a fork's are owner:branch"
)

func actionsFilter(names ...string) string {
	return `"actions":{"type":"array","maxItems":50,"uniqueItems":true,"title":"Actions","items":{"enum":["` + strings.Join(names, `","`) + `"]},"description":"What was done, in GitHub's words. None: any."}`
}

func branchesFilter(which string) string {
	return fmt.Sprintf(`"branches":{"type":"array","maxItems":100,"title":"Branches","items":{"type":"string","minLength":1,"maxLength":300},"description":"%s. * stands for any characters. None: any."}`, which)
}
