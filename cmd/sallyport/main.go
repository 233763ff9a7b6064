// Command sallyport is the gateway between coding agents and the services
// they act on, and the client of a running one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"sallyport/internal/redact"
)

// The exit statuses of the command.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

type commandLine struct {
	Serve   serveCommand     `cmd:"" help:"Run everything in one process."`
	Gateway gatewayCommand   `cmd:"" help:"Run one of several instances for agents and people; they share --database-url."`
	Ingest  ingestCommand    `cmd:"" help:"Run the work that no request brings, apart from the gateways: overdue calls and cleaning."`
	Migrate migrateCommand   `cmd:"" help:"Bring the database up to date, or say what that would do."`
	Demo    demoCommand      `cmd:"" help:"Run a gateway with a built-in upstream, to try an approval."`
	Version kong.VersionFlag `help:"Print the version." env:"-"`
	clientCommands
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit status.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var line commandLine
	std := &stdio{In: stdin, Out: stdout, Err: stderr}
	exited := -1
	parser, err := kong.New(
		&line, kong.Name("sallyport"),
		kong.Description("The gate between coding agents and the services they act on."),
		kong.DefaultEnvars("SALLYPORT"), kong.Vars{"data": dataFolder(), "version": version()},
		kong.UsageOnError(), kong.Writers(stdout, stderr), kong.Exit(func(status int) { exited = status }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(std),
		kong.Configuration(loadConfig), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "sallyport:", err)
		return exitError
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help or --version
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "sallyport: %v\nTry: sallyport --help\n", err)
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(stderr, "sallyport:", err)
		if errors.As(err, new(usageError)) {
			return exitUsage
		}
		return exitError
	}
	for _, note := range std.notes {
		fmt.Fprintln(stderr, note)
	}
	return exitOK
}

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "dev"
	}
	return strings.Trim(info.Main.Version, "()")
}

// newLogger writes lines that are cleaned of secrets: also of those in an error
// that somebody else made.
func newLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	return slog.New(redact.NewHandler(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}), &redact.JSON{}, nil))
}
