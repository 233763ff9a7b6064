// Package doctor checks the configuration, database, keys, Valkey and
// connectors. It changes nothing: it creates no folder, key, table or row.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/server"
	"sallyport/gitserver"
	"sallyport/internal/agent"
	"sallyport/internal/vault"
	"sallyport/store"
	"sallyport/store/coord"
	"sallyport/store/database"
	"sallyport/store/files"
)

// Command is `sallyport doctor`.
type Command struct {
	server.Options
	JSON   bool   `help:"Print JSON."`
	Ready  string `help:"Health check: only test whether the server at this URL accepts calls." env:"-" placeholder:"URL"`
	Client string `help:"Only check what this client needs to use the gateway: ${clients}." env:"-" enum:"${clients}," default:"" placeholder:"NAME"`
}

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	Detail string `json:"detail"`
}

// report collects the findings of checks.
type report struct{ findings []finding }

// doctor runs the checks of a server.
type doctor struct {
	*server.Gateway
	report
	keysRead bool // the keys were read, from the data folder or the configuration

	missingFiles []string // key files that are missing and not configured

	serverURL  string // public URL of the running server, if any
	unreadable bool   // the user cannot read the data folder
}

const (
	checkTimeout = 5 * time.Second // for one check over the network
	maxClockSkew = time.Second
	maxQueueLag  = time.Minute
	diskWarn     = 1 << 30
	diskFail     = 100 << 20
)

// Run checks the configuration that serve would use with the same flags. It
// fails if any check fails.
func (c *Command) Run(ctx context.Context, std *command.Streams) error {
	if c.Ready != "" {
		return checkReady(ctx, c.Ready)
	}
	if c.Client != "" {
		found, err := checkClient(ctx, agent.Client(c.Client))
		if err != nil {
			return err
		}
		return found.print(std, c.JSON)
	}
	c.Data = cmp.Or(c.Data, command.DataFolder())
	d := &doctor{Gateway: server.Inspect(c.Options)}
	defer d.Close()
	d.checkConfiguration(ctx)
	if d.checkDataFolder() {
		d.checkKeyFiles()
	}
	d.checkDatabase(ctx)
	d.checkMissingKeys(ctx)
	d.checkValkey(ctx)
	d.checkEvidenceStore(ctx)
	d.checkGit(ctx)
	d.checkServer(ctx)
	d.checkPublicURL(ctx)
	return d.print(std, c.JSON)
}

// print prints the findings. It fails if any check failed.
func (r *report) print(std *command.Streams, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(std.Out).Encode(map[string]any{"items": r.findings}); err != nil {
			return err
		}
	}
	failed := 0
	for _, f := range r.findings {
		if f.Status == "fail" {
			failed++
		}
		if !asJSON {
			fmt.Fprintf(std.Out, "%-4s  %s: %s\n", f.Status, f.Check, command.Printable(f.Detail))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s failed; each line says what to do", command.Plural(failed, "check"))
	}
	return nil
}

// checkReady checks the readiness probe of a server.
func checkReady(ctx context.Context, address string) error {
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/readyz", nil)
	if err != nil || request.URL.Host == "" {
		return command.UsageErrorf("--ready %s is not the URL of a server; pass one such as http://127.0.0.1:8787", address)
	}
	client := http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%w; check that it runs, and that --ready matches its --listen", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready (status %d); its log says why", address, response.StatusCode)
	}
	return nil
}

func (r *report) add(status, check, detail string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(detail, args...)), " ") // database drivers return errors of several lines
	r.findings = append(r.findings, finding{Check: check, Status: status, Detail: text})
}

// checkConfiguration runs the checks that need no other program.
func (d *doctor) checkConfiguration(ctx context.Context) {
	o := &d.Options
	if err := o.Check(); err != nil {
		d.add("fail", "configuration", "%v", err)
	} else {
		d.add("ok", "configuration", "the flags, environment and file of this command are valid; pass doctor the flags of serve")
	}
	if on, err := server.Environment(os.Getenv).Traces(); err != nil {
		d.add("fail", "traces", "%v", err)
	} else if on {
		d.add("ok", "traces", "sent to the collector in the environment")
	}
}

// checkPublicURL checks the public URL; without flags, that of the running
// server.
func (d *doctor) checkPublicURL(ctx context.Context) {
	o := &d.Options
	public, err := d.serverURL, error(nil)
	if o.PublicURL != "" || o.Listen != server.DefaultListen || d.serverURL == "" {
		public, err = o.Public(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: listenPort(ctx, o.Listen)})
	}
	if err != nil {
		d.add("fail", "public URL", "%v", err)
		return
	}
	u, err := url.Parse(public)
	if err != nil {
		d.add("fail", "public URL", "%v", err)
		return
	}
	loopback := server.IsLoopback(u.Hostname())
	switch {
	case loopback:
		d.add("ok", "public URL", "%s, for this machine only; other machines, and webhooks at %s/webhooks/, need --public-url", public, public)
	case u.Scheme != "https":
		d.add("warn", "public URL", "%s is not https: tokens and sign-ins are sent unencrypted; put a TLS proxy in front and set --public-url https://…", public)
	default:
		d.add("ok", "public URL", "%s is the only origin of the page; webhooks arrive at %s/webhooks/", public, public)
	}
	if d.serverURL != "" && public != d.serverURL {
		d.add("warn", "public URL", "the running server has %s; the line above is for the flags of this command: pass those of serve", d.serverURL)
	}
}

func listenPort(ctx context.Context, listen string) int {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return 0
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return 0
	}
	return n
}

// checkDataFolder checks the data folder, and reports whether it is readable.
func (d *doctor) checkDataFolder() bool {
	data := d.Options.Data
	info, err := os.Stat(data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.add("warn", "data folder", "%s does not exist; the first start creates it", data)
		return false
	case err != nil:
		d.unreadable = true
		d.add("fail", "data folder", "it cannot be read: %v; run doctor and the server as its owner", err)
		return false
	case !info.IsDir():
		d.add("fail", "data folder", "%s is a file; name a folder with --data", data)
		return false
	case syscall.Access(data, 5) != nil: // R_OK and X_OK
		d.unreadable = true
		d.add("fail", "data folder", "this user may not read %s, so nothing in it was checked; run doctor and the server as its owner", data)
		return false
	case info.Mode().Perm()&0o077 != 0:
		d.add("fail", "data folder", "other users can read %s (mode %04o); run: chmod 700 %[1]s", data, info.Mode().Perm())
	case syscall.Access(data, 2) != nil: // W_OK
		d.add("fail", "data folder", "this user may not write to %s; run doctor and the server as its owner", data)
	default:
		d.add("ok", "data folder", "%s", data)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(data, &disk); err != nil {
		d.add("warn", "disk", "the free space is unknown: %v", err)
		return true
	}
	free := disk.Bavail * uint64(disk.Bsize) //nolint:gosec // a block has a size above zero
	status, advice := "ok", ""
	if free < diskWarn {
		status, advice = "warn", "; free some space, or set --retention to remove old calls"
	}
	if free < diskFail {
		status = "fail"
	}
	d.add(status, "disk", "%d MiB free%s", free>>20, advice)
	return true
}

// checkKeyFiles reads the keys without creating any.
func (d *doctor) checkKeyFiles() {
	for _, key := range []struct{ file, configured string }{{command.MasterFile, d.Options.MasterKey}, {command.TokenFile, d.Options.TokenKey}} {
		_, err := os.Stat(filepath.Join(d.Options.Data, key.file))
		switch {
		case key.configured != "" || err == nil:
		case errors.Is(err, os.ErrNotExist):
			d.missingFiles = append(d.missingFiles, key.file)
		default:
			d.add("fail", "keys", "%v", err)
			return
		}
	}
	if d.missingFiles != nil {
		return
	}
	if err := d.OpenMaster(); err != nil {
		d.add("fail", "keys", "%v", err)
		return
	}
	if _, err := d.SecretKey(d.Options.TokenKey, command.TokenFile); err != nil {
		d.add("fail", "keys", "%v", err)
		return
	}
	d.keysRead = true
}

// checkMissingKeys reports missing key files: a failure if the database was
// written with one.
func (d *doctor) checkMissingKeys(ctx context.Context) {
	for _, file := range d.missingFiles {
		fingerprint, err := "", error(nil)
		if d.DB != nil {
			fingerprint, err = d.DB.CheckedKey(ctx, strings.TrimSuffix(file, ".key"))
		}
		switch {
		case err != nil:
			d.add("fail", "keys", "%v", err)
		case fingerprint != "":
			d.add("fail", "keys", "there is no %s, but the database was written with one: restore the key file, or set %s", file, server.KeyVariable(file))
		default:
			d.add("warn", "keys", "there is no %s and no key is configured; the first start creates one, which does not match existing rows", file)
		}
	}
}

// checkDatabase checks the schema and, if it is current, the rows.
func (d *doctor) checkDatabase(ctx context.Context) {
	if d.Options.DatabaseURL == "" {
		if d.unreadable {
			return
		}
		if _, err := os.Stat(filepath.Join(d.Options.Data, command.DatabaseFile)); errors.Is(err, os.ErrNotExist) {
			if _, err := os.Stat(command.EndpointPath(d.Options.Data)); err == nil {
				d.add("warn", "database", "this data folder has none, but a gateway runs or ran here, so its rows are elsewhere; pass doctor its --database-url")
				return
			}
			d.add("ok", "database", "there is none yet; the first start creates it")
			return
		}
	}
	config := d.StoreConfig()
	config.RetryFor = checkTimeout
	list, err := database.MigrationStatus(ctx, config)
	if err != nil {
		d.add("fail", "database", "%v", server.ExplainDatabaseError(err))
		return
	}
	pending := 0
	for _, m := range list {
		if m.AppliedAt == nil {
			pending++
		}
	}
	if pending > 0 {
		d.add("warn", "database", "%s to apply: run sallyport migrate, or restart the server; the rows were not checked", command.Plural(pending, "migration"))
		return
	}
	if d.Options.DatabaseURL == "" {
		d.DB, err = store.OpenFileReadOnly(config.Path)
	} else {
		d.DB, err = store.OpenURLReadOnly(ctx, config)
	}
	if err != nil {
		d.add("fail", "database", "%v", server.ExplainDatabaseError(err))
		return
	}
	d.add("ok", "database", "reachable, and its schema is up to date")
	d.checkRows(ctx)
}

// checkRows checks the clock, the keys, the audit log, the default groups and the
// queues.
func (d *doctor) checkRows(ctx context.Context) {
	if d.DB.Shared() {
		if off := time.Until(d.DB.Now()).Abs(); off > maxClockSkew {
			d.add("warn", "clock", "it differs by %s from the database's. Rows have the database's time, but sign-in tokens are checked against this clock: synchronize it (NTP)", off.Round(time.Millisecond))
		} else {
			d.add("ok", "clock", "it agrees with the database's")
		}
	}
	if d.keysRead && d.checkKeys(ctx) {
		d.checkAuditHeads(ctx)
	}
	d.checkDefaultGroups(ctx)
	for _, queue := range []struct {
		what string
		lag  func(context.Context) (time.Duration, error)
		see  string
	}{
		{"inbox", d.DB.InboxLag, "serve or ingest runs, and sallyport delivery list"},
		{"outbox", d.DB.OutboxLag, "serve or ingest runs and reaches the endpoint of runs, or a program claims them (sallyport run endpoint show), and sallyport run list"},
	} {
		name := queue.what
		lag, err := queue.lag(ctx)
		switch {
		case err != nil:
			d.add("fail", name, "%v", err)
		case lag > maxQueueLag:
			d.add("warn", name, "its oldest entry has been due for %s: check that %s", lag.Round(time.Second), queue.see)
		default:
			d.add("ok", name, "no backlog")
		}
	}
}

// checkKeys compares the keys with the fingerprints in the database.
func (d *doctor) checkKeys(ctx context.Context) bool {
	fingerprint, err := d.DB.CheckedKey(ctx, "master")
	if err != nil {
		d.add("fail", "keys", "%v", err)
		return false
	}
	for _, key := range append(d.Master.Opening(), d.Master.Sealing) {
		if fingerprint != "" && fingerprint != command.Fingerprint("master", key) {
			continue
		}
		if err := d.OpenStableKeys(ctx, key); err != nil {
			d.add("fail", "keys", "%v", err)
			return false
		}
		d.add("ok", "keys", "the master key matches the rows")
		return d.checkTokenKey(ctx)
	}
	d.add("fail", "keys", "the master key does not match the rows: set the SALLYPORT_MASTER_KEY that they were written with, or restore the old %s", command.MasterFile)
	return false
}

func (d *doctor) checkTokenKey(ctx context.Context) bool {
	fingerprint, err := d.DB.CheckedKey(ctx, "token")
	if err == nil && fingerprint != "" {
		var key []byte
		if key, err = d.SecretKey(d.Options.TokenKey, command.TokenFile); err == nil && command.Fingerprint("token", key) != fingerprint {
			err = fmt.Errorf("the token key does not match the rows: set their SALLYPORT_TOKEN_KEY, or restore the old %s", command.TokenFile)
		}
	}
	if err != nil {
		d.add("fail", "keys", "%v", err)
	}
	return err == nil
}

// checkAuditHeads checks the heads of the audit log; audit verify checks the
// whole chain.
func (d *doctor) checkAuditHeads(ctx context.Context) {
	heads, err := d.DB.AuditHeads(ctx, "")
	if err != nil {
		d.add("fail", "evidence", "%v", err)
		return
	}
	for _, h := range heads {
		if err := d.DB.Sealable(ctx, h.Organization, d.AuditKey); err != nil {
			d.add("fail", "evidence", "%v", err)
			return
		}
	}
	d.add("ok", "evidence", "the heads of the audit log are valid; sallyport audit verify checks all of it")
}

// checkDefaultGroups warns of sessions that no capability limits although groups have
// some, and of sessions that can call nothing.
func (d *doctor) checkDefaultGroups(ctx context.Context) {
	all, err := d.DB.Versions(ctx)
	if err != nil {
		d.add("fail", "groups", "%v", err)
		return
	}
	for _, o := range all {
		settings, err := d.DB.Settings(ctx, o.Organization)
		if err != nil {
			d.add("fail", "groups", "%v", err)
			return
		}
		list, err := d.DB.ListCapabilities(ctx, o.Organization, settings.DefaultGroup)
		if err != nil {
			d.add("fail", "groups", "%v", err)
			return
		}
		usable := slices.ContainsFunc(list, func(c action.Capability) bool {
			return c.Level > action.LevelNone && (c.ExpiresAt == nil || d.DB.Now().Before(*c.ExpiresAt))
		})
		switch {
		case settings.DefaultGroup != "" && !usable:
			d.add("warn", "groups", "organization %s: the default group %q has no capability that is valid, so sessions created without a group can call nothing; set one (sallyport capability set), or choose another group (sallyport policy settings --default-group GROUP)", o.Organization, settings.DefaultGroup)
		case settings.DefaultGroup != "":
			d.add("ok", "groups", "organization %s: the default group is %q", o.Organization, settings.DefaultGroup)
		case len(list) > 0:
			d.add("warn", "groups", "organization %s: groups have capabilities, but there is no default group, so nothing limits sessions created without a group, such as those of members; set one: sallyport policy settings --default-group GROUP", o.Organization)
		}
	}
}

func (d *doctor) checkValkey(ctx context.Context) {
	if d.Options.ValkeyURL == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	if err := coord.Ping(ctx, d.Options.ValkeyURL); err != nil {
		d.add("warn", "Valkey", "%v; calls continue without it, but more slowly. Check that it runs and that the URL is correct", err)
		return
	}
	d.add("ok", "Valkey", "it answers")
}

// checkEvidenceStore requests a file that does not exist.
func (d *doctor) checkEvidenceStore(ctx context.Context) {
	location := d.Options.Evidence
	if location == "" {
		if d.Options.DatabaseURL != "" {
			d.add("warn", "files", "evidence is stored on this machine only; with several instances set --evidence")
		}
		return
	}
	if u, err := url.Parse(location); err == nil && u.Scheme == "file" {
		if _, err := os.Stat(u.Path); err != nil {
			d.add("warn", "files", "the folder of --evidence does not exist (%v); the first start creates it", err)
			return
		}
	}
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	s, err := files.Open(ctx, location)
	if err == nil {
		_, _, err = s.Get(ctx, "doctor/"+strings.Repeat("0", 2*vault.KeySize))
		if errors.Is(err, action.ErrNotFound) {
			err = nil
		}
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		d.add("fail", "files", "%v (--evidence)", err)
		return
	}
	d.add("ok", "files", "the evidence store answers")
}

// checkGit checks the program that reads the packs of pushes.
func (d *doctor) checkGit(ctx context.Context) {
	path, version, err := gitserver.FindProgram(ctx)
	if err != nil {
		d.add("warn", "git", "%v", err)
		return
	}
	d.add("ok", "git", "%s has version %s, so sessions can push through the gateway", path, version)
}

// checkServer checks the server of the data folder, if one is running.
func (d *doctor) checkServer(ctx context.Context) {
	if d.unreadable {
		return
	}
	if _, err := os.Stat(command.EndpointPath(d.Options.Data)); errors.Is(err, os.ErrNotExist) {
		d.add("ok", "server", "none runs on this data folder; connectors were not checked")
		return
	}
	e, err := command.ReadEndpoint(d.Options.Data)
	if err != nil {
		d.add("fail", "server", "%v", err)
		return
	}
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	server, err := cli.NewClient(e.URL, e.APIKey)
	if err == nil {
		err = server.Ready(ctx)
	}
	if errors.As(err, new(cli.UnreachableError)) {
		d.add("warn", "server", "process %d has ended and left %s; start it again with sallyport serve", e.PID, command.EndpointPath(d.Options.Data))
		return
	}
	if err != nil {
		d.add("fail", "server", "%s is not ready: %v", e.URL, err)
		return
	}
	d.add("ok", "server", "process %d is ready at %s", e.PID, e.URL)
	d.serverURL = strings.TrimSuffix(e.MCPURL, "/mcp")
	if me, _, err := cli.Fetch(ctx, server, api.GetMe, api.None{}); err != nil {
		d.add("fail", "local admin", "%v", err)
	} else if me.Role == action.RoleOwner {
		d.add("ok", "local admin", "on: every program of the server's user, including an agent's shell, can approve calls and change settings with the key in %s", command.EndpointPath(d.Options.Data))
	} else {
		d.add("ok", "local admin", "off: the key in %s can read, and create plain sessions", command.EndpointPath(d.Options.Data))
	}
	all, _, err := cli.Fetch(ctx, server, api.ListConnectors, api.None{})
	if err != nil {
		d.add("fail", "connectors", "%v", err)
		return
	}
	failing := 0
	for _, c := range all.Items {
		if c.Enabled && c.Error != "" {
			failing++
			d.add("warn", "connectors", "%s: %s; for details run: sallyport connector validate %s", c.Name, strings.TrimSuffix(c.Error, "."), cmp.Or(c.Slug, c.ID))
		}
		for _, warning := range c.Warnings {
			d.add("warn", "connectors", "%s: %s", c.Name, warning)
		}
	}
	if failing == 0 {
		d.add("ok", "connectors", "%s, none failing", command.Plural(len(all.Items), "connector"))
	}
}
