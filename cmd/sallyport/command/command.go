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
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
)

// Streams is where a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	Notes []string // for Err, once the command did what it was to do
}

// Warn notes what the server warned of, if anything.
func (s *Streams) Warn(text string) {
	if text != "" {
		s.Notes = append(s.Notes, "warning: "+Printable(text))
	}
}

// ShellQuote quotes what a shell would not take as it is: names are chosen by others.
func ShellQuote(text string) string {
	harmless := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@%+=,", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !harmless(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// UsageError is a command line that makes no sense although it parses. It
// ends the process with status 2, as one that does not parse.
type UsageError struct{ Err error }

// Error returns the text of the error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e UsageError) Unwrap() error { return e.Err }

// UsageErrorf says what makes no sense and what to write instead.
func UsageErrorf(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}

// PrintJSON prints what the server said, every digit as it came.
func (s *Streams) PrintJSON(raw json.RawMessage) error {
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

// Table writes rows in columns under a head, or that there are none.
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
	_ = t.Flush() // of a terminal; there is nobody else to tell
}

// Printable makes text from outside harmless on a terminal: control characters,
// and those that reorder or hide what stands beside them, are shown as their
// code.
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

// Plural tells how many there are of a thing.
func Plural[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// pipePatience is how long a pipe is waited for in which nothing may ever come.
const pipePatience = 200 * time.Millisecond

// Given reports whether somebody passes a value on standard input. A terminal
// is not asked.
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
		n, _ := io.ReadFull(s.In, make([]byte, 1)) // nothing more is asked than whether there is something
		got <- n > 0
	}()
	select {
	case any := <-got:
		return any
	case <-time.After(pipePatience):
		return false
	}
}

// The exit statuses of the command.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2
)

// The exit statuses of the commands that make an agent's calls.
const (
	ExitDenied  = 3 // policy or a person refused, this call or all of the session
	ExitExpired = 4 // UnreachableError decided in time
	ExitFailed  = 5 // it ran and failed, or could not run
	ExitUnknown = 6 // it may or may not have happened
	ExitPending = 7 // it still waits, or runs, and this command does not wait longer
)

// StatusError is an error that ends the process with a status of its own.
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
		fmt.Fprintf(stderr, "sallyport: %s\nTry: %s --help\n", strings.Replace(err.Error(), `,"" but got`, " but got", 1), attempted(err))
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

// attempted is the command that was meant, as far as it was understood.
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

// ExitWith returns err as one that ends the process with the status.
func ExitWith(err error, status int) error { return StatusError{err: err, Status: status} }
