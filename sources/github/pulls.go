package github

import (
	"context"

	"sallyport/action"
	"sallyport/sources"
)

type pullsParams struct {
	repository
	State string `json:"state"`
	Head  string `json:"head"`
	Base  string `json:"base"`
	Sort  string `json:"sort"`
	Order string `json:"direction"`
	pageParams
}

func listPulls() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_prs", Title: "List pull requests", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists a repository's pull requests, the newest first unless sort says otherwise; bodies are cut, get_pr has them whole.",
		Input: input(2, ownerParam, repoParam,
			`"state":{"type":"string","enum":["open","closed","all"],"default":"open","description":"Open ones unless told; merged ones are closed and have merged_at."}`,
			`"head":{"type":"string","maxLength":350,"pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}:.+$","description":"Only those that come from this branch, with its owner: octocat:my-branch."}`,
			`"base":{"type":"string","maxLength":240,"description":"Only those that go into this branch."}`,
			`"sort":{"type":"string","enum":["created","updated","popularity","long-running"],"default":"created"}`,
			`"direction":{"type":"string","enum":["asc","desc"],"default":"desc","description":"Newest or most first, unless told."}`,
			limitParam, cursorParam),
		Summarize: summary(func(p pullsParams) string { return "List pull requests of " + p.String() }),
		Examples: []sources.Example{
			{Note: "Is there one of my branch already?", Params: []byte(`{"owner":"octocat","repo":"hello-world","head":"octocat:new-topic"}`)},
		},
		Run: handler(func(ctx context.Context, c *sources.Conn, p pullsParams) (any, error) {
			if p.Order == "" {
				p.Order = "desc" // GitHub's own default depends on sort
			}
			r := request{path: p.path("pulls"), about: p.repository.about(), query: queryOf(
				"state", p.State, "head", p.Head, "base", p.Base, "sort", p.Sort, "direction", p.Order)}
			return list(ctx, c, p.pageParams, r, func(l *pull) bool {
				l.truncateBody(maxExcerpt)
				l.MergeCommit = ""
				return true
			})
		}),
	}
}

// Limits of a diff, in bytes.
const (
	defaultPatchBytes = 20_000
	maxPatchPerFile   = 8_000
)

// file is a file in a diff.
type file struct {
	Name      string `json:"filename"`
	Was       string `json:"previous_filename,omitempty"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Patch     string `json:"patch,omitempty"`
	Cut       bool   `json:"_truncated,omitempty"`
}

type pullParams struct {
	numberedParams
	Patches *sources.Integer `json:"patch_bytes"`
	pageParams
}

func getPull() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_pr", Title: "Get a pull request", Risk: action.RiskRead, Idempotent: true,
		Description: "Returns a pull request with its text, whether it can be merged, head.sha (which merge_pr wants), and a summary of its diff: the files with what was added and deleted, and as much of their patches as patch_bytes lets in.",
		Input: input(3, ownerParam, repoParam, pullParam,
			`"patch_bytes":{"type":"integer","minimum":0,"maximum":200000,"default":20000,"description":"How much of the patches, in bytes in all; 0 for none."}`,
			`"limit":{"type":"integer","minimum":1,"maximum":100,"default":30,"description":"How many files at most, 30 unless told. With a cursor it stays what it was."}`,
			`"cursor":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,1000}$","description":"diff.next_cursor of the answer before, for more files."}`),
		Summarize: summary(func(p numberedParams) string { return "Get pull request " + p.String() }),
		Examples: []sources.Example{
			{Note: "With the beginning of its diff", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347}`)},
			{Note: "Its state alone", Params: []byte(`{"owner":"octocat","repo":"hello-world","number":1347,"patch_bytes":0,"limit":1}`)},
		},
		Run: handler(runGetPull),
	}
}

func runGetPull(ctx context.Context, c *sources.Conn, p pullParams) (any, error) {
	var result struct {
		pull
		Diff page[file] `json:"diff"`
	}
	var err error
	if result.pull, err = p.pull(ctx, c, false); err != nil {
		return nil, err
	}
	result.truncateBody(maxBody)
	room := defaultPatchBytes
	if p.Patches != nil {
		room = int(*p.Patches)
	}
	result.Diff, err = list(ctx, c, p.pageParams, request{path: p.path("pulls", p.Number.String(), "files"), about: p.numberedParams.about("pull request")}, func(f *file) bool {
		f.Patch, f.Cut = truncateText(f.Patch, min(room, maxPatchPerFile))
		room -= len(f.Patch)
		return true
	})
	return result, err
}

// pull fetches the pull request. noRename is true before a write.
func (n numberedParams) pull(ctx context.Context, c *sources.Conn, fixed bool) (pull, error) {
	var found pull
	_, err := request{path: n.path("pulls", n.Number.String()), about: n.about("pull request"), noRename: fixed}.send(ctx, c, &found)
	return found, err
}
