package github

import (
	_ "embed"
	"encoding/json"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// Module returns the GitHub module. Its metadata is
// {"repositories":[{"full_name","private","default_branch"}]}, filtered by
// owner.
func Module() *sources.Module {
	return &sources.Module{
		ID:      "github",
		Title:   "GitHub",
		About:   "Reads repositories, issues and pull requests, and opens, comments and merges them, on github.com or an Enterprise server.",
		Guide:   guide,
		BaseURL: "https://api.github.com",
		Needs: []sources.Need{
			{Kind: action.KindApp, Preset: "github", Hint: "Install the organization's GitHub App, and choose the repositories that agents may reach."},
			{Kind: action.KindAPIKey, Users: true, Hint: "Make a fine-grained personal access token at https://github.com/settings/personal-access-tokens/new, with Contents, Issues and Pull requests."},
			{Kind: action.KindOAuth2, Users: true, Preset: "github", Scopes: []string{"repo"}, Hint: "Sign in to GitHub with the account that agents are to act as."},
		},
		Settings: json.RawMessage(settingsSchema),
		Actions: []sources.ModuleAction{
			listRepos(), getRepo(), listIssues(), getIssue(), listPulls(), getPull(), getPullComments(), listBranches(),
			createIssue(), commentIssue(), closeIssue(), createBranch(), createPull(), commentPull(), mergePull(),
		},
		Account:  account,
		Metadata: metadata,
		Choose:   chooseIntegration,
	}
}
