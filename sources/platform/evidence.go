package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"sallyport/action"
	"sallyport/sources"
)

// VerifyTool is the name of the tool that uploads evidence.
const VerifyTool = "verify"

const verifySchema = `{
  "type": "object",
  "properties": {
    "folder": {"type": "string", "maxLength": 500, "description": "Where the files are in the sandbox. Default: .sallyport/verification/"},
    "upload": {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "description": "Of the files that the command sallyport verify sent, which fills this in; leave it out."}
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
		Description: "Keeps files that show that your work is right, such as screenshots, logs and test reports, where people see them. " +
			"Put them into " + evidenceFolder + " first. The gateway cannot read your sandbox, so run this command in its shell instead of calling the tool yourself: sallyport verify [FOLDER]. No secrets in the files: people read them.",
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
				command += " " + shellQuote(in.Folder)
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

// shellQuote quotes text for a shell if necessary.
func shellQuote(text string) string {
	if regexp.MustCompile(`^[\w./@%+=:,-]+$`).MatchString(text) {
		return text
	}
	return "'" + regexp.MustCompile(`'`).ReplaceAllString(text, `'\''`) + "'"
}
