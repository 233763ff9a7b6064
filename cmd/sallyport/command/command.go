// Package command is what all commands of the program share: their streams, exit
// statuses and usage errors, the names in a data folder, the endpoint file by which
// a client finds a running server, and files that are written as a whole.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
)

// Streams are the standard streams of a command.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	Notes []string // written to Err after the command has succeeded
}

// Warn adds a warning of the server to the notes, unless it is empty.
func (s *Streams) Warn(text string) {
	if text != "" {
		s.Notes = append(s.Notes, "warning: "+Printable(text))
	}
}

// UsageError reports a command line that parses but is not valid. The process exits
// with ExitUsage.
type UsageError struct{ Err error }

// Error returns the text of the error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e UsageError) Unwrap() error { return e.Err }

// UsageErrorf formats a UsageError. The text says what is wrong and what to write
// instead.
func UsageErrorf(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}

// PrintJSON prints an API response indented, with every number as the server wrote it.
func (s *Streams) PrintJSON(raw json.RawMessage) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("the server's answer is not valid JSON: %w", err)
	}
	_, err := fmt.Fprintln(s.Out, strings.TrimSpace(out.String()))
	return err
}

// Table prints rows in columns under a header, or "none".
func Table(w io.Writer, head []string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = Printable(cell); row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // a failed write to the terminal cannot be reported there
}

// Printable escapes text from outside for a terminal. Control characters, and those
// that reorder or hide their neighbors, are shown as their code point.
func Printable(text string) string {
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

// Plural formats a number of things: "1 file", "2 files".
func Plural[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// pipeTimeout limits the wait for a pipe to which nothing may ever be written.
const pipeTimeout = 200 * time.Millisecond

// Given reports whether standard input is redirected and has data. It does not read
// from a terminal.
func (s *Streams) Given() bool {
	if s.In == nil {
		return false
	}
	if f, ok := s.In.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return false
		}
	}
	got := make(chan bool, 1)
	go func() {
		n, _ := io.ReadFull(s.In, make([]byte, 1)) // one byte shows that there is data
		got <- n > 0
	}()
	select {
	case any := <-got:
		return any
	case <-time.After(pipeTimeout):
		return false
	}
}

// Exit statuses of all commands.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2
)

// Exit statuses of the commands with which an agent runs actions.
const (
	ExitDenied  = 3 // policy or a person denied the call, or the session has ended
	ExitExpired = 4 // nobody decided in time
	ExitFailed  = 5 // the call ran and failed, or could not run
	ExitUnknown = 6 // the call may or may not have had its effect
	ExitPending = 7 // the call is still pending or executing, and this command stops waiting
)

// StatusError is an error with an exit status of its own.
type StatusError struct {
	err    error
	Status int
}

// Error returns the text of the error.
func (e StatusError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e StatusError) Unwrap() error { return e.err }

// Execute parses args with the grammar, a struct of commands as kong
// reads it, runs the command and returns the exit status.
func Execute(ctx context.Context, grammar any, args []string, std *Streams, more ...kong.Option) int {
	stderr := std.Err
	exited := -1
	options := append([]kong.Option{
		kong.Name("sallyport"), kong.DefaultEnvars("SALLYPORT"), kong.UsageOnError(),
		kong.Writers(std.Out, stderr), kong.Exit(func(status int) { exited = status }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(std),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}, more...)
	parser, err := kong.New(grammar, options...)
	if err != nil {
		fmt.Fprintln(stderr, "sallyport:", err)
		return ExitError
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help or --version
		return exited
	}
	if err != nil {
		if flag, _, _ := strings.Cut(args[0], "="); strings.HasPrefix(flag, "-") && strings.HasPrefix(err.Error(), "unknown flag "+flag) {
			err = fmt.Errorf("%w; flags go after the command, as in: sallyport COMMAND %s", err, flag)
		}
		fmt.Fprintf(stderr, "sallyport: %s\nTry: %s --help\n", usageText(err.Error()), attempted(err))
		return ExitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(stderr, "sallyport:", err)
		if own := new(StatusError); errors.As(err, own) {
			return own.Status
		}
		if errors.As(err, new(UsageError)) {
			return ExitUsage
		}
		return ExitError
	}
	for _, note := range std.Notes {
		fmt.Fprintln(stderr, note)
	}
	return ExitOK
}

// usageText rewrites the parser's errors in the words of this program.
func usageText(text string) string {
	for _, rule := range [][2]string{
		{`,"" but got`, ` but got`}, // a flag that may be empty
		{`expected duration but got ("[^"]*").*`, `$1 is not a duration; pass one such as 30s, 10m or 8h`},
		{`expected a valid \d+ bit u?int but got ("[^"]*")`, `$1 is not a whole number`},
		{`expected "<key>=<value>" but got ("[^"]*")`, `$1 is not of the form NAME=VALUE`},
		{`: expected \w+ value but got "EOL" .*`, ` needs a value`},
		{`must be one of (.*) but got (".*")`, `must be one of $1, not $2`},
		{`^expected one of (.*)`, `a command is missing, one of $1`},
		{`^expected "(<.*)"`, `missing arguments: $1`},
	} {
		text = regexp.MustCompile(rule[0]).ReplaceAllString(text, rule[1])
	}
	return regexp.MustCompile(`\[?<(\w[^>]*)>( \.\.\.\])?`).ReplaceAllStringFunc(text, func(argument string) string {
		return strings.ToUpper(strings.Trim(argument, "[<>] ."))
	})
}

// attempted returns the command of a line that does not parse, as far as it parses.
func attempted(err error) string {
	command := "sallyport"
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return command
	}
	for _, part := range wrong.Context.Path {
		if part.Command != nil {
			command += " " + part.Command.Name
		}
	}
	return command
}

// Release is the version that a packager sets with -ldflags -X when the build
// has no version of its own: from an archive, or in an image.
var Release string

// Version returns Release, or the version that the Go toolchain recorded.
func Version() string {
	if Release != "" {
		return Release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "dev"
	}
	return strings.Trim(info.Main.Version, "()")
}

// ExitWith returns err as a StatusError.
func ExitWith(err error, status int) error { return StatusError{err: err, Status: status} }
