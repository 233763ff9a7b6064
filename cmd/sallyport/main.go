// Command sallyport is the gateway between coding agents and the services
// they act on, and the client of a running one.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules have time zones, wherever the binary runs

	"github.com/alecthomas/kong"

	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/server"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // which nohup does
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	_ = tuneCollector()          // until the process ends
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs a command line and returns its exit status.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	std := &command.Streams{In: stdin, Out: stdout, Err: stderr}
	return command.Execute(ctx, grammar(args), args, std,
		kong.Description("The gate between coding agents and the services they act on."),
		cli.Vars(), kong.Vars{"version": command.Version()}, cli.FlagTypes(), kong.Configuration(server.LoadConfig))
}
