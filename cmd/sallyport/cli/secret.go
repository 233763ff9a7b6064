package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/redact"
)

type secretCommand struct {
	Set    secretSet                                  `cmd:"" help:"Set a secret; the value is read from standard input."`
	List   request[api.None, api.List[action.Secret]] `cmd:"" help:"List secrets without their values."`
	Delete request[api.ByKey, api.None]               `cmd:"" help:"Delete a secret that no connector uses."`
	Rotate secretRotate                               `cmd:"" help:"Rotate the master key: seal all sealed values again with the new key. Safe to repeat."`
}

type secretSet struct {
	clientFlags
	api.ByKey
	api.NewSecret
}

// secretLimit is far above the size of any credential and catches a wrong file.
const secretLimit = 64 << 10

func (c *secretSet) Run(ctx context.Context, std *command.Streams) (err error) {
	if _, err := c.connect(); err != nil { // fail before the user types a value
		return err
	}
	if c.Value, err = readSecret(std, "secret set KEY --host HOST"); err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(c.Host); err == nil && ip.Is6() {
		c.Host = "[" + c.Host + "]" // the notation of URLs
	}
	return perform(ctx, &c.clientFlags, std, api.PutSecret, api.ByKeyWith[api.NewSecret]{ByKey: c.ByKey, Body: c.NewSecret}, func(w io.Writer, _ *action.Secret) {
		printLine(w, "secret "+c.Key+" is set; it is sent only to "+c.Host)
	})
}

// readSecret reads a value from standard input without the trailing newline.
// command is the command line to show if the value is missing.
func readSecret(std *command.Streams, command string) (string, error) {
	if f, ok := std.In.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			fmt.Fprintln(std.Err, "enter the value, then press Enter and Ctrl-D:")
		}
	}
	raw, err := io.ReadAll(io.LimitReader(std.In, secretLimit+1))
	if err != nil {
		return "", fmt.Errorf("reading the value from standard input: %w", err)
	}
	value := strings.TrimRight(string(raw), "\r\n")
	switch {
	case value == "":
		return "", errors.New(`the value is empty: pass it on standard input, as in: printf %s "$TOKEN" | sallyport ` + command)
	case strings.TrimSpace(value) == "":
		return "", errors.New("the value is blank; check that the variable is set")
	case len(value) > secretLimit:
		return "", errors.New("the value is over 64 KB; check that this is the right file")
	case len(strings.TrimSpace(value)) < redact.MinSecret:
		std.Notes = append(std.Notes, fmt.Sprintf("warning: the value has fewer than %d characters, so it is not redacted where the server repeats it", redact.MinSecret))
	}
	return value, nil
}

type secretRotate struct{ clientFlags }

func (c *secretRotate) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	d, raw, err := Fetch(ctx, server, api.RotateMasterKey, api.None{})
	if err != nil {
		return err
	}
	if d.Left > 0 {
		fmt.Fprintf(std.Err, "warning: %d values could not be sealed again, because no key decrypts them or they keep changing; see the server log. The old key is kept until you rotate again without such values\n", d.Left)
	}
	return c.print(std, raw, lineText(rotationText(d)))
}

// rotationText describes the result of a key rotation.
func rotationText(d *api.Rotated) string {
	if d.Left > 0 {
		return fmt.Sprintf("master key %s is active; %d values were sealed again, %d are still sealed with another key", d.KeyID, d.Resealed, d.Left)
	}
	return fmt.Sprintf("master key %s is active; %d values were sealed again", d.KeyID, d.Resealed)
}
