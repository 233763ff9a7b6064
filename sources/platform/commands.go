package platform

import (
	"encoding/json"
	"fmt"

	"sallyport/action"
	"sallyport/sources"
)

const commandsSchema = `{
  "type": "object",
  "properties": {
    "commands": {
      "type": "array", "minItems": 1, "maxItems": 10,
      "description": "All of them: they replace what was saved before.",
      "items": {
        "type": "object",
        "properties": {
          "name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "What people call the service."},
          "command": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The shell command that starts it. No secret in it: name an environment variable."},
          "cwd": {"type": "string", "maxLength": 500, "description": "Folder to start it in, relative to the workspace."},
          "workspacePath": {"type": "string", "maxLength": 500, "description": "Which workspace, where there are several repositories; relative to their common folder."}
        },
        "required": ["name", "command"],
        "additionalProperties": false
      }
    }
  },
  "required": ["commands"],
  "additionalProperties": false
}`

type command struct {
	Name          string  `json:"name"`
	Command       string  `json:"command"`
	Cwd           *string `json:"cwd"`
	WorkspacePath *string `json:"workspacePath"`
}

func (p *platform) saveCommands() sources.PlatformAction {
	return sources.PlatformAction{
		Name: CommandsTool, Title: "Save service commands",
		Description: "Saves the commands that start this workspace's services, so that later sandboxes start them by themselves. " +
			"Give all of them each time: they replace those saved before. For setup sessions.",
		Risk: action.RiskWrite, Idempotent: true, Types: []action.SessionType{action.TypeSetup}, Input: json.RawMessage(commandsSchema),
		Examples: []sources.Example{{
			Note:   "A web server and its database",
			Params: json.RawMessage(`{"commands":[{"name":"db","command":"docker compose up db"},{"name":"web","command":"pnpm dev","cwd":"apps/web"}]}`),
		}},
		Summarize: func(params json.RawMessage) string {
			in, err := readCommands(params)
			if err != nil || len(in) == 0 {
				return ""
			}
			return fmt.Sprintf("Save %d service commands, the first %q: %s", len(in), in[0].Name, in[0].Command)
		},
		Check: p.checkCommands, Answered: p.replay, Run: p.saveMember("commands", p.Rows.SaveServiceCommands),
	}
}

func readCommands(params json.RawMessage) ([]command, error) {
	var in struct {
		Commands []command `json:"commands"`
	}
	err := json.Unmarshal(params, &in)
	return in.Commands, err
}

func (p *platform) checkCommands(params json.RawMessage) error {
	in, err := readCommands(params)
	if err != nil {
		return invalidParam("/commands", "The commands cannot be read: %s", "give a list of objects.")
	}
	named := map[string]bool{}
	for i, c := range in {
		at := fmt.Sprintf("/commands/%d", i)
		if err := firstError(
			checkText(at+"/name", c.Name, false), checkText(at+"/command", c.Command, true),
			checkOptionalPath(at+"/cwd", c.Cwd), checkOptionalPath(at+"/workspacePath", c.WorkspacePath), p.rejectSecret(at+"/command", c.Command),
		); err != nil {
			return err
		}
		key := c.Name
		if c.WorkspacePath != nil {
			key = *c.WorkspacePath + "\x00" + key
		}
		if named[key] {
			return invalidParam(at+"/name", "Two commands are called %q; give each its own name.", c.Name)
		}
		named[key] = true
	}
	return nil
}

// rejectSecret rejects text that looks like a credential, because the text is
// stored as is and run in every sandbox.
func (p *platform) rejectSecret(field, text string) error {
	if p.JSON.RedactText(text, nil) == text {
		return nil
	}
	return invalidParam(field, "The command holds what looks like a credential, and is kept where others read it. Have it read an environment variable instead, and name that with %s.", FilesTool)
}
