package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

const completeSchema = `{
  "type": "object",
  "properties": {
    "run_id": {"type": "string", "maxLength": 100, "description": "ID of this session's run; optional."},
    "completion_id": {"type": "string", "minLength": 1, "maxLength": 200, "description": "An ID that you choose once for this run. If the result is lost, repeat the call with the same ID."},
    "outcome": {"type": "string", "enum": ["succeeded", "failed", "needs_human"], "description": "needs_human: a person must continue; say in summary_markdown what they should do."},
    "summary_markdown": {"type": "string", "maxLength": 8000, "description": "What you did and found, for people."},
    "citations": {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 500}, "description": "Sources: links, files, issues."},
    "diff_ref": {"type": "string", "maxLength": 500, "description": "The change: a pull request, branch or commit."},
    "test_report_ref": {"type": "string", "maxLength": 500, "description": "The test report."},
    "side_effect_refs": {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 500}, "description": "Other changes, such as messages sent or issues created."}
  },
  "required": ["completion_id", "outcome"],
  "additionalProperties": false
}`

type completion struct {
	Run       string   `json:"run_id"`
	ID        string   `json:"completion_id"`
	Outcome   string   `json:"outcome"`
	Summary   string   `json:"summary_markdown"`
	Citations []string `json:"citations"`
	Diff      string   `json:"diff_ref"`
	Report    string   `json:"test_report_ref"`
	Effects   []string `json:"side_effect_refs"`
}

func (p *platform) complete() sources.PlatformAction {
	return sources.PlatformAction{
		Name: CompleteTool, Alias: "automation.complete", Title: "Complete the run",
		Description: "Ends this automation's run and reports its outcome. Call it once, last. " +
			"The session accepts no calls afterwards, and pending calls are withdrawn.",
		Risk: action.RiskWrite, Idempotent: true, Types: []action.SessionType{action.TypeAutomation}, OfRun: true, Input: json.RawMessage(completeSchema),
		Examples: []sources.Example{{
			Note:   "It went well",
			Params: json.RawMessage(`{"completion_id":"done-1","outcome":"succeeded","summary_markdown":"Fixed the flaky test.","diff_ref":"https://github.com/acme/app/pull/7"}`),
		}},
		Summarize: func(params json.RawMessage) string {
			var in completion
			if json.Unmarshal(params, &in) != nil {
				return ""
			}
			return strings.TrimSuffix(fmt.Sprintf("End the run as %s: %s", in.Outcome, in.Summary), ": ")
		},
		Check: checkCompletion, Answered: p.replayCompletion, Run: p.runComplete,
	}
}

func checkCompletion(params json.RawMessage) error {
	var in completion
	if err := json.Unmarshal(params, &in); err != nil {
		return invalidParam("", "The params cannot be read: give an object.")
	}
	if in.Outcome == "needs_human" && strings.TrimSpace(in.Summary) == "" {
		return invalidParam("/summary_markdown", "Say in summary_markdown what a person is to do.")
	}
	return checkText("/completion_id", in.ID, false)
}

// replayCompletion returns the stored reply, by the ID of the completion or of
// the call.
func (p *platform) replayCompletion(ctx context.Context, c action.ToolCall, params json.RawMessage) (*action.ToolReply, error) {
	var in completion
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, err
	}
	return p.Rows.ToolAnswered(ctx, p.withQuota(c, params), in.ID)
}

func (p *platform) runComplete(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error) {
	var in completion
	if err := json.Unmarshal(params, &in); err != nil {
		return action.ToolReply{}, err
	}
	reply, ended, err := p.Rows.CompleteRun(ctx, p.withQuota(c, params), action.Completion{
		ID: in.ID, Run: in.Run, Outcome: in.Outcome, Message: p.JSON.RedactText(in.Summary, nil), Record: p.JSON.Redact(params, nil), ReplayFor: p.ReplayFor,
	})
	if ended != nil {
		p.Completed(c.Organization, c.Session, ended)
	}
	return reply, err
}

// VerifyTool is the name of the tool that uploads evidence.
const VerifyTool = "verify"

const verifySchema = `{
  "type": "object",
  "properties": {
    "folder": {"type": "string", "maxLength": 500, "description": "Folder of the files in the sandbox. Default: .sallyport/verification/"},
    "upload": {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "description": "Set by the command sallyport verify; leave it out."}
  },
  "additionalProperties": false
}`

// evidenceFolder is the default folder for evidence.
const evidenceFolder = ".sallyport/verification/"

type evidence struct {
	Folder string `json:"folder"`
	Upload string `json:"upload"`
}

func (p *platform) verify() sources.PlatformAction {
	return sources.PlatformAction{
		Name: VerifyTool, Title: "Send evidence",
		Description: "Stores files that prove your work, such as screenshots, logs and test reports, and shows them to people. " +
			"Put them into " + evidenceFolder + " first. The gateway cannot read your sandbox, so run this command in its shell instead of calling the tool yourself: sallyport verify [FOLDER]. Put no secrets in the files.",
		Risk: action.RiskWrite, Idempotent: true, Input: json.RawMessage(verifySchema),
		Summarize: func(params json.RawMessage) string {
			in, err := readEvidence(params)
			if err != nil || in.Upload == "" {
				return ""
			}
			return "Keep the files of " + in.Folder + " as evidence"
		},
		Check: func(params json.RawMessage) error {
			in, err := readEvidence(params)
			if err != nil {
				return invalidParam("", "The params cannot be read: give an object.")
			}
			return checkText("/folder", in.Folder, false)
		},
		Answered: p.replay,
		Run: func(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error) {
			in, err := readEvidence(params)
			if err != nil {
				return action.ToolReply{}, err
			}
			command := "sallyport verify"
			if in.Folder != evidenceFolder {
				quoted := in.Folder
				if !regexp.MustCompile(`^[\w./@%+=:,-]+$`).MatchString(quoted) {
					quoted = "'" + strings.ReplaceAll(quoted, "'", `'\''`) + "'"
				}
				command += " " + quoted
			}
			return p.Rows.Verify(ctx, p.withQuota(c, params), in.Upload, in.Folder, fmt.Sprintf(
				"Nothing is kept yet: the gateway cannot read your sandbox. Run this in its shell; it sends the files and calls this tool for you, and prints where they are: %s", command))
		},
	}
}

func readEvidence(params json.RawMessage) (in evidence, err error) {
	in.Folder = evidenceFolder
	err = json.Unmarshal(params, &in)
	if in.Folder == "" {
		in.Folder = evidenceFolder
	}
	return in, err
}
