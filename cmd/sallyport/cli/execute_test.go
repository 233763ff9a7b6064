package cli

import (
	"context"
	"io"

	"sallyport/cmd/sallyport/command"
)

// executeClient runs a command like the program, and returns its exit status.
func executeClient(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Execute(ctx, New(), args, &command.Streams{In: stdin, Out: stdout, Err: stderr}, Vars(), FlagTypes())
}
