// Command sallyport is the gateway between coding agents and the services
// they act on, and the client of a running one.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"reflect"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // schedules have time zones, wherever the binary runs

	"github.com/alecthomas/kong"

	"sallyport/action"
	"sallyport/internal/redact"
)

// The exit statuses of the command.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// The exit statuses of the commands that make an agent's calls.
const (
	exitDenied  = 3 // policy or a person refused, this call or all of the session
	exitExpired = 4 // nobody decided in time
	exitFailed  = 5 // it ran and failed, or could not run
	exitUnknown = 6 // it may or may not have happened
	exitPending = 7 // it still waits, or runs, and this command does not wait longer
)

// statusError is an error that ends the process with a status of its own.
type statusError struct {
	error
	status int
}

// Unwrap returns what is wrong.
func (e statusError) Unwrap() error { return e.error }

type commandLine struct {
	serverCommands
	Version kong.VersionFlag `help:"Print the version." env:"-"`
	clientCommands
}

// serverCommands may share a configuration file, so that each must know the others'
// flags.
type serverCommands struct {
	Serve   serveCommand   `cmd:"" help:"Run everything in one process."`
	Gateway gatewayCommand `cmd:"" help:"Run one of several gateway instances for agents and people."`
	Ingest  ingestCommand  `cmd:"" help:"Run the inbound instance: webhooks, polling, schedules, runs and cleanup."`
	Migrate migrateCommand `cmd:"" help:"Apply database migrations, or show their status."`
	Backup  backupCommand  `cmd:"" help:"Back up the data folder of a running gateway."`
	Restore restoreCommand `cmd:"" help:"Restore a backup to a data folder and verify it."`
	Doctor  doctorCommand  `cmd:"" help:"Check configuration, database, keys, Valkey and connectors."`
	Demo    demoCommand    `cmd:"" help:"Run a demo gateway with a built-in upstream."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	_ = giveRoom()               // for as long as the process lives
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit status.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	std := &stdio{In: stdin, Out: stdout, Err: stderr}
	exited := -1
	parser, err := kong.New(
		grammar(args), kong.Name("sallyport"),
		kong.Description("The gate between coding agents and the services they act on."),
		kong.DefaultEnvars("SALLYPORT"), grammarVars(), flagTypes(),
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
		if flag, _, _ := strings.Cut(args[0], "="); strings.HasPrefix(flag, "-") && strings.HasPrefix(err.Error(), "unknown flag "+flag) {
			err = fmt.Errorf("%w; flags go after the command, as in: sallyport COMMAND %s", err, flag)
		}
		fmt.Fprintf(stderr, "sallyport: %s\nTry: %s --help\n", strings.Replace(err.Error(), `,"" but got`, " but got", 1), attempted(err))
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(stderr, "sallyport:", err)
		if own := new(statusError); errors.As(err, own) {
			return own.status
		}
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

// grammarVars are what the texts of the grammar name.
func grammarVars() kong.Vars {
	return kong.Vars{"data": dataFolder(), "version": version(), "event_kinds": strings.Join(action.EventKinds(), ",")}
}

// flagTypes are the kinds of values that flags have beside Go's own.
func flagTypes() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		for name, read := range map[string]kong.MapperFunc{
			"folder": readFolder, "seconds": readSeconds, "period": readPeriod, "span": readSpan, "window": readWindow,
			"limit": readLimit, "calltime": readCallTime, "anyjson": readAnyJSON, "moment": readMoment,
		} {
			if err := kong.NamedMapper(name, read).Apply(k); err != nil {
				return err
			}
		}
		if err := kong.TypeMapper(reflect.TypeFor[json.RawMessage](), kong.MapperFunc(readJSON)).Apply(k); err != nil {
			return err
		}
		return kong.TypeMapper(reflect.TypeFor[netip.Prefix](), kong.MapperFunc(readNetwork)).Apply(k)
	})
}

// grammar is what args are read by: of the clients' commands the named one alone, or
// those of servers. To build all of them takes longer than most commands do.
func grammar(args []string) any {
	all := new(commandLine)
	if len(args) == 0 {
		return all
	}
	if _, ok := commandNamed(reflect.TypeFor[serverCommands](), args[0]); ok {
		return &struct {
			serverCommands
			Version kong.VersionFlag `help:"Print the version." env:"-"`
		}{}
	}
	command, ok := commandNamed(reflect.TypeFor[clientCommands](), args[0])
	if !ok {
		return all
	}
	flag, _ := reflect.TypeFor[commandLine]().FieldByName("Version")
	return reflect.New(reflect.StructOf([]reflect.StructField{command, {Name: flag.Name, Type: flag.Type, Tag: flag.Tag}})).Interface()
}

// commandNamed finds a command's field as kong names it.
func commandNamed(commands reflect.Type, name string) (command reflect.StructField, ok bool) {
	return commands.FieldByNameFunc(func(field string) bool {
		f, _ := commands.FieldByName(field)
		return cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)) == name
	})
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

// release is the version that a packager gives with -ldflags -X, where a build
// knows none by itself: from an archive, or in an image.
var release string

// version is what the build knows of itself.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "dev"
	}
	return strings.Trim(info.Main.Version, "()")
}

// newLogger writes lines that are cleaned of secrets: also of those in an error
// that somebody else made.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	var lines slog.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})
	if format == "json" {
		lines = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})
	}
	return slog.New(redact.NewHandler(lines, &redact.JSON{}, nil))
}
