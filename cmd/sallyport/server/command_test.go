package server

import (
	"context"
	"io"

	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
)

// executeCommand runs a command of a client as the program does, and returns its
// exit status.
func executeCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Execute(ctx, cli.New(), args, &command.Streams{In: stdin, Out: stdout, Err: stderr}, cli.Vars(), cli.FlagTypes())
}
