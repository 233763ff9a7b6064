package page

import (
	"errors"
	"html/template"
	"slices"
	"strings"

	"sallyport/dashboard/render"
)

// inboundFuncs are the extra template functions of the pages about triggers and
// runs.
func (p *pages) inboundFuncs() template.FuncMap {
	return template.FuncMap{
		"marks":      render.Markdown,
		"unmatched":  unmatchedReason,
		"again":      canRedrive,
		"paragraphs": paragraphs,
		"intervals":  intervals,
		"crons":      cronExamples,
		"workerHelp": p.workerHelp,
		"dict":       dict,
	}
}

// dict passes several named values to a template.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		name, ok := pair[0].(string)
		if !ok || len(pair) < 2 {
			return nil, errors.New("dict takes names and values in turn")
		}
		m[name] = pair[1]
	}
	return m, nil
}

// paragraphs splits text at its line breaks.
func paragraphs(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			all = append(all, line)
		}
	}
	return all
}

// interval is a polling interval in a form.
type interval struct {
	Seconds int
	Text    string
}

func intervals() []interval {
	return []interval{{30, "30 seconds"}, {60, "minute"}, {300, "5 minutes"}, {900, "15 minutes"}, {3600, "hour"}, {21600, "6 hours"}, {86400, "day"}}
}

// cronExamples are sample expressions.
func cronExamples() []choice {
	return []choice{
		{Value: "0 9 * * 1-5", Text: "weekdays at 9:00"},
		{Value: "0 * * * *", Text: "every hour"},
		{Value: "*/15 * * * *", Text: "every 15 minutes"},
		{Value: "30 6 * * *", Text: "every day at 6:30"},
		{Value: "0 8 1 * *", Text: "first of the month at 8:00"},
	}
}

// workerHelp shows how a program claims a run.
func (p *pages) workerHelp() string {
	return strings.Join([]string{
		"sallyport api-key create worker --scope runs   # prints the key once",
		"export WORKER_KEY=…",
		`curl -X POST '` + p.PublicURL + `/api/v1/runs/claim?wait=30s' \`,
		`  -H "Authorization: Bearer $WORKER_KEY" -H 'Content-Type: application/json' -d '{"lease":"5m"}'`,
		`curl -X POST ` + p.PublicURL + `/api/v1/runs/RUN_ID/finish \`,
		`  -H "Authorization: Bearer $WORKER_KEY" -H 'Content-Type: application/json' -d '{"claim_id":"CLAIM_ID","status":"succeeded"}'`,
	}, "\n")
}
