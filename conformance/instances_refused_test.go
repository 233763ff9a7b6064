package conformance_test

import (
	"strings"
	"testing"
)

// password is in URLs that commands are given, and must not be in what they
// say.
const password = "canary-password-5e4d3c2b"

// An instance whose keys are others than those of the rows does not start: it
// could read nothing of what the others sealed.
func TestForeignKeysAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, false)
	other := strings.Repeat("ab", 32)
	at := []string{"gateway", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--database-url", c.postgres.URL}
	c.refuses("Set the same SALLYPORT_MASTER_KEY on every instance", []string{"SALLYPORT_MASTER_KEY=" + other, "SALLYPORT_TOKEN_KEY=" + tokenKey}, at...)
	c.refuses("Set the same SALLYPORT_TOKEN_KEY on every instance", []string{"SALLYPORT_MASTER_KEY=" + masterKey, "SALLYPORT_TOKEN_KEY=" + other}, at...)
	c.refuses("shares its keys with other instances", nil, at...)
	at[0] = "serve"
	c.refuses("Set the same SALLYPORT_", nil, at...) // keys of its own, in its folder

	// Those that are there work on.
	call := c.write(c.gateways[0], 1)
	c.gateways[0].approve(c.gateways[0].held().ID)
	c.once(c.gateways[0], "write 1", call.wait())
}

// Wrong use ends at once and says what is due; passwords stay where they are.
func TestWrongUseIsRefused(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs the gateway as a process")
	}
	c := &cluster{t: t}
	dir := t.TempDir()
	const public = "SALLYPORT_PUBLIC_URL=http://127.0.0.1:1"
	for _, part := range []string{"gateway", "ingest"} {
		c.refuses("set --database-url", nil, part, "--listen", "127.0.0.1:0", "--data", dir)
		for at, message := range map[string]string{
			"postgres://sallyport:" + password + "@127.0.0.1:1/sallyport?sslmode=disable": `the database "sallyport" on 127.0.0.1:1`,
			"postgres://sallyport:" + password + "@127.0.0.1:port/sallyport":              "the database URL has the form",
			"mysql://sallyport:" + password + "@127.0.0.1/sallyport":                      "the database URL has the form",
		} {
			c.refuses(message, append(keys(), public), part, "--listen", "127.0.0.1:0", "--data", dir, "--database-url", at)
			c.refuses(message, append(keys(), public, "SALLYPORT_DATABASE_URL="+at), part, "--listen", "127.0.0.1:0", "--data", dir)
		}
	}
	c.refuses("the URL of Valkey is not valid", nil, "serve", "--listen", "127.0.0.1:0", "--data", dir, "--valkey-url", "valkey://user:"+password+"@127.0.0.1:port/0")
}
