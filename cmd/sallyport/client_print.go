package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON prints what the server said, every digit as it came.
func (s *stdio) printJSON(raw json.RawMessage) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("the server's answer is no JSON: %w", err)
	}
	_, err := fmt.Fprintln(s.Out, strings.TrimSpace(out.String()))
	return err
}

// print prints raw with --json, and otherwise what human writes.
func (r *remote) print(s *stdio, raw json.RawMessage, human func(w io.Writer)) error {
	if r.JSON {
		return s.printJSON(raw)
	}
	human(s.Out)
	return nil
}

// table writes rows in columns under a head, or that there are none.
func table(w io.Writer, head []string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = visible(cell); row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // of a terminal; there is nobody else to tell
}

// visible makes text from outside harmless on a terminal: control characters,
// and those that reorder or hide what stands beside them, are shown as their
// code.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// maxCell is how much of a sentence a table shows, in characters; what is shown
// alone has all of it.
const maxCell = 60

// brief is the beginning of a sentence, for a table.
func brief(text string) string {
	runes := []rune(text)
	if len(runes) <= maxCell {
		return text
	}
	return string(runes[:maxCell-1]) + "…"
}

// since tells a time as a person would: in 4m, 2h ago.
func since(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	d := time.Until(*t).Round(time.Second)
	if d > 0 {
		return "in " + short(d)
	}
	return short(-d) + " ago"
}

func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d.Round(time.Minute) < time.Hour:
		return fmt.Sprintf("%dm", d.Round(time.Minute)/time.Minute)
	case d.Round(time.Hour) < 48*time.Hour:
		return fmt.Sprintf("%dh", d.Round(time.Hour)/time.Hour)
	}
	return fmt.Sprintf("%dd", d.Round(24*time.Hour)/(24*time.Hour))
}

// more says that a list goes on at a cursor, unless that is empty.
func more(w io.Writer, cursor string) {
	if cursor != "" {
		fmt.Fprintf(w, "and more: the same command goes on with --cursor %s\n", cursor)
	}
}

// number tells how many there are of a thing.
func number[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// ends tells when something that may last for ever ends.
func ends(t *time.Time) string {
	switch {
	case t == nil:
		return "never expires"
	case t.Before(time.Now()):
		return "expired " + since(t)
	}
	return "expires " + since(t)
}

// block shows JSON on lines of its own, indented and harmless.
func block(w io.Writer, indent string, raw json.RawMessage) {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		out.Reset()
		out.Write(raw)
	}
	for line := range strings.Lines(out.String()) {
		fmt.Fprintf(w, "%s%s\n", indent, visible(strings.TrimSuffix(line, "\n")))
	}
}
