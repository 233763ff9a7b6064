package platform

import (
	"cmp"
	"encoding/json"
	"fmt"

	"sallyport/action"
	"sallyport/internal/envfile"
	"sallyport/sources"
)

const commandsSchema = `{
  "type": "object",
  "properties": {
    "commands": {
      "type": "array", "minItems": 1, "maxItems": 10,
      "description": "All of them: they replace the saved ones.",
      "items": {
        "type": "object",
        "properties": {
          "name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Name of the service, for people."},
          "command": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Shell command that starts it. Put no secret in it: use an environment variable."},
          "cwd": {"type": "string", "maxLength": 500, "description": "Folder to start it in, relative to the workspace."},
          "workspacePath": {"type": "string", "maxLength": 500, "description": "The workspace, if there are several repositories; relative to their common folder."}
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
		Description: "Saves the commands that start this workspace's services, so that later sandboxes start them automatically. " +
			"Pass all of them each time: they replace the saved ones. For setup sessions.",
		Risk: action.RiskWrite, Idempotent: true, Types: []action.SessionType{action.TypeSetup}, Input: json.RawMessage(commandsSchema),
		Examples: []sources.Example{{
			Note:   "A web server and its database",
			Params: json.RawMessage(`{"commands":[{"name":"db","command":"docker compose up db"},{"name":"web","command":"pnpm dev","cwd":"apps/web"}]}`),
		}},
		Summarize: func(params json.RawMessage) string {
			in, err := readMember[[]command](params, "commands")
			if err != nil || len(in) == 0 {
				return ""
			}
			return fmt.Sprintf("Save %d service commands, the first %q: %s", len(in), in[0].Name, in[0].Command)
		},
		Check: p.checkCommands, Answered: p.replay, Run: p.saveMember("commands", p.Rows.SaveServiceCommands),
	}
}

func (p *platform) checkCommands(params json.RawMessage) error {
	in, err := readMember[[]command](params, "commands")
	if err != nil {
		return invalidParam("/commands", "The commands cannot be read: %s", "give a list of objects.")
	}
	named := map[string]bool{}
	for i, c := range in {
		at := fmt.Sprintf("/commands/%d", i)
		if err := cmp.Or(
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

const filesSchema = `{
  "type": "object",
  "properties": {
    "files": {
      "type": "array", "minItems": 1, "maxItems": 10,
      "description": "All of them: they replace the saved ones.",
      "items": {
        "type": "object",
        "properties": {
          "path": {"type": "string", "minLength": 1, "maxLength": 500, "description": "Path of the file, relative to the workspace."},
          "workspacePath": {"type": "string", "maxLength": 500, "description": "The workspace, if there are several repositories. Default: \".\"."},
          "format": {"type": "string", "enum": ["dotenv"]},
          "mode": {"type": "string", "enum": ["secret"]},
          "keys": {
            "type": "array", "minItems": 1, "maxItems": 50,
            "description": "Names of the variables in it, never their values.",
            "items": {
              "type": "object",
              "properties": {
                "key": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "required": {"type": "boolean", "description": "Whether the workspace needs it."}
              },
              "required": ["key", "required"],
              "additionalProperties": false
            }
          }
        },
        "required": ["path", "format", "mode", "keys"],
        "additionalProperties": false
      }
    }
  },
  "required": ["files"],
  "additionalProperties": false
}`

type envFile struct {
	Path          string  `json:"path"`
	WorkspacePath *string `json:"workspacePath"`
	Keys          []struct {
		Key string `json:"key"`
	} `json:"keys"`
}

func (p *platform) saveFiles() sources.PlatformAction {
	return sources.PlatformAction{
		Name: FilesTool, Title: "Save environment files",
		Description: "Saves which files with environment variables this workspace needs, and the names of the variables, so that later sandboxes get them. " +
			"Names only, never values. Pass all files each time: they replace the saved ones. For setup sessions.",
		Risk: action.RiskWrite, Idempotent: true, Types: []action.SessionType{action.TypeSetup}, Input: json.RawMessage(filesSchema),
		Examples: []sources.Example{{
			Note:   "One file",
			Params: json.RawMessage(`{"files":[{"path":".env.local","format":"dotenv","mode":"secret","keys":[{"key":"DATABASE_URL","required":true}]}]}`),
		}},
		Summarize: func(params json.RawMessage) string {
			in, err := readMember[[]envFile](params, "files")
			if err != nil || len(in) == 0 {
				return ""
			}
			return fmt.Sprintf("Save which environment files the workspace needs: %d, the first %s with %d variables", len(in), in[0].Path, len(in[0].Keys))
		},
		Check: checkFiles, Answered: p.replay, Run: p.saveMember("files", p.Rows.SaveEnvFiles),
	}
}

func checkFiles(params json.RawMessage) error {
	in, err := readMember[[]envFile](params, "files")
	if err != nil {
		return invalidParam("/files", "The files cannot be read: %s", "give a list of objects.")
	}
	seen := map[string]bool{}
	for i, f := range in {
		at := fmt.Sprintf("/files/%d", i)
		if err := cmp.Or(checkPath(at+"/path", f.Path), checkOptionalPath(at+"/workspacePath", f.WorkspacePath)); err != nil {
			return err
		}
		key := f.Path
		if f.WorkspacePath != nil && *f.WorkspacePath != "." {
			key = *f.WorkspacePath + "\x00" + key
		}
		if seen[key] {
			return invalidParam(at+"/path", "The file %q is there twice; put all its keys into one.", f.Path)
		}
		seen[key] = true
		keys := map[string]bool{}
		for j, k := range f.Keys {
			if keys[k.Key] {
				return invalidParam(fmt.Sprintf("%s/keys/%d/key", at, j), "The key %s is there twice in %q; give it once.", k.Key, f.Path)
			}
			keys[k.Key] = true
		}
	}
	if _, err := envfile.Parse(params); err != nil { // saved files must be applicable
		return invalidParam("/files", "These files could not be made in a sandbox: %s", err.Error()+".")
	}
	return nil
}
