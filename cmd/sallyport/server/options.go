package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"sallyport/action/gate"
	"sallyport/ingest/dispatch"
	"sallyport/ingest/inbox"
	"sallyport/ingest/poll"
	"sallyport/ingest/schedule"
	"sallyport/mcpserver"
	"sallyport/sources"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Options are the flags of `sallyport serve`. Each can also be set with an environment
// variable: its name in upper case with the prefix SALLYPORT_.
type Options struct {
	Config        configFlag     `help:"YAML configuration file with flag names as keys." placeholder:"FILE"`
	Listen        string         `help:"Address to listen on; port 0 picks a free port (default: 127.0.0.1:8787)." default:"127.0.0.1:8787" placeholder:"HOST:PORT"`
	Data          string         `help:"Folder of the database and keys (default: ${data})." placeholder:"DIR" type:"folder"`
	LocalAdmin    bool           `help:"Write an administrator key to endpoint.json; every program of the same system user can then approve calls."`
	PublicURL     string         `help:"Public base URL of the gateway, used in all links (default: the listen address)." placeholder:"URL"`
	AllowHost     []string       `help:"Additional Host header values to accept." placeholder:"HOST"`
	AllowUpstream []netip.Prefix `help:"Private networks that connectors may reach." placeholder:"CIDR"`
	RateLimit     int            `help:"Calls per minute and session; 0 for no limit (default: 60)." default:"60" placeholder:"N"`
	ToolList      string         `help:"Tools that agents list by default: all, or search for tools that find and call the others (default: all)." enum:"all,search" default:"all"`
	LogLevel      string         `help:"Log level: debug, info, warn or error (default: info)." enum:"debug,info,warn,error" default:"info"`
	LogFormat     string         `help:"Log format: text or json (default: text)." enum:"text,json" default:"text"`
	MetricsToken  string         `help:"Bearer token required for /metrics (default: none, loopback only)." placeholder:"TOKEN"`

	Logs        map[string]string `help:"Logs for the cloudlogs integration, by service name: a file or pattern, journald:UNIT, cloudwatch:GROUP?region=REGION or gcloud:PROJECT?filter=FILTER." placeholder:"NAME=LOGS"`
	LogsFor     []string          `help:"Organizations that may read these logs (default: the first one)." placeholder:"ORGANIZATION"`
	LogsRange   time.Duration     `help:"Maximum time range of a log query (default: 24h)." placeholder:"D"`
	LogsEntries int               `help:"Maximum number of entries of a log query (default: 100)." placeholder:"N"`

	WebhookSecrets   webhookSecrets    `help:"Signing secrets of provider-wide webhook URLs, and of nango; name a provider twice while you replace its secret." placeholder:"PROVIDER=SECRET,…"`
	WebhookRate      int               `help:"New verified deliveries per minute and trigger URL, ten times as many per provider URL; 0 for no limit (default: 6000)." default:"6000" placeholder:"N"`
	WebhookTolerance webhookTolerances `help:"Maximum age of signed webhook timestamps (default: what the provider recommends)." placeholder:"PROVIDER=D,…"`
	PayloadRetention time.Duration     `help:"Retention of delivery and event payloads, at least 48h; 0 for no limit (default: 720h)." default:"720h" placeholder:"D"`
	RunLife          runLife           `help:"Maximum duration of a run (default: 48h)." default:"48h" placeholder:"D"`

	Retention time.Duration `help:"Retention of ended calls, at least 48h; 0 for no limit (default: no limit)." placeholder:"D"`

	Evidence         string        `help:"Storage of evidence files: file:///FOLDER or s3://BUCKET?region=R&endpoint=URL (default: the data folder)." placeholder:"URL"`
	SessionIdle      time.Duration `help:"Idle time before a session is stopped (default: no limit)." placeholder:"D"`
	SessionRetention time.Duration `help:"Retention of ended sessions (default: no limit)." placeholder:"D"`

	DatabaseURL         string        `help:"PostgreSQL URL, instead of SQLite: postgres://user:password@host/name." placeholder:"URL"`
	DatabaseConnections int           `help:"Maximum PostgreSQL connections (default: 16)." placeholder:"N"`
	DatabaseWait        time.Duration `help:"Time to wait for PostgreSQL at startup; 0 for no wait (default: 30s)." default:"30s" placeholder:"D"`
	ValkeyURL           string        `help:"Valkey or Redis URL, for hints and counters shared by instances: valkey://host:6379/0." placeholder:"URL"`

	MasterKey     string   `help:"Key that seals secrets, params and results: 32 bytes in hex (default: generated in the data folder)." placeholder:"HEX"`
	OldMasterKeys []string `help:"Previous master keys, only for opening sealed values during a rotation." placeholder:"HEX"`
	TokenKey      string   `help:"Key that signs session tokens: 32 bytes in hex (default: generated in the data folder)." placeholder:"HEX"`

	SignIn    signInFlags `embed:"" group:"Signing in"`
	Intervals intervals   `embed:"" group:"Intervals"`
}

// intervals are durations that few deployments change. Zero means the default.
type intervals struct {
	gate.Timing `embed:""`
	MCP         mcpserver.Timing `embed:""`
	Lists       sources.Timing   `embed:""`
	Inbox       inbox.Timing     `embed:""`
	Poll        poll.Timing      `embed:""`
	Schedule    schedule.Timing  `embed:""`
	Dispatch    dispatch.Timing  `embed:""`

	SealEvery        time.Duration `default:"500ms" help:"Interval of sealing ended calls into the audit log (default: ${default})." placeholder:"D"`
	ClockEvery       time.Duration `default:"10s" help:"Interval of comparing the clock with the database's (default: ${default})." placeholder:"D"`
	ValkeyHeartbeat  time.Duration `default:"1s" help:"Interval of Valkey heartbeats; after 2.5 missed ones Valkey counts as down (default: ${default})." placeholder:"D"`
	ValkeyTimeout    time.Duration `default:"250ms" help:"Timeout of one Valkey request (default: ${default})." placeholder:"D"`
	InboxPause       time.Duration `help:"Backoff after the first failed attempt at a delivery; doubles each time (default: 1s)." placeholder:"D"`
	NotifyEvery      time.Duration `default:"1s" help:"Interval of checking for notifications to send (default: ${default})." placeholder:"D"`
	RunSweepEvery    time.Duration `default:"5s" help:"Interval of checking for runs that lost their worker or timed out (default: ${default})." placeholder:"D"`
	EvidenceKept     time.Duration `default:"25h" help:"How long unverified evidence files are kept (default: ${default})." name:"evidence-unsealed" placeholder:"D"` // longer than a call of verify can stay pending
	SessionEvery     time.Duration `default:"1s" help:"Interval of recording session activity (default: ${default})." placeholder:"D"`
	IdleSessionEvery time.Duration `default:"15s" help:"Interval of checking for idle and expired sessions (default: ${default})." name:"session-idle-every" placeholder:"D"`
	CompletionStays  time.Duration `default:"15m" help:"How long a session answers after it completed its run (default: ${default})." placeholder:"D"`
	ShutdownDelay    time.Duration `default:"0s" help:"Delay before shutdown, for load balancers to see /readyz (default: ${default})." placeholder:"D"`
	ShutdownWithin   time.Duration `default:"40s" help:"Time for executing calls to end at shutdown (default: ${default})." placeholder:"D"`
}

// DefaultListen is the default of --listen.
const DefaultListen = "127.0.0.1:8787"

// Check validates the options. Zero intervals must have been replaced by their
// defaults.
func (o *Options) Check() error {
	if o.RateLimit < 0 {
		return errors.New("--rate-limit must be 0 (no limit) or more")
	}
	if _, _, err := net.SplitHostPort(o.Listen); o.Listen != "" && err != nil {
		return fmt.Errorf("--listen %s is not HOST:PORT; write an address such as 127.0.0.1:%s", o.Listen, cmp.Or(onlyPort(o.Listen), "8787"))
	}
	if o.Retention != 0 && o.Retention < 48*time.Hour {
		return fmt.Errorf("--retention (%s) must be 48h or more, so that results stay available until they are fetched; set 0 to keep all calls", o.Retention)
	}
	if o.SessionIdle < 0 || o.SessionIdle%time.Second != 0 || o.SessionRetention < 0 {
		return errors.New("--session-idle must be a number of whole seconds, and --session-retention must be positive; 0 means no limit")
	}
	if err := errors.Join(o.checkInbound(), o.SignIn.check()); err != nil {
		return err
	}
	if o.LogsRange < 0 || o.LogsEntries < 0 {
		return errors.New("--logs-range and --logs-entries must be positive, or 0 for the default")
	}
	if o.DatabaseWait < 0 {
		return errors.New("--database-wait must be a duration such as 30s, or 0 for no wait")
	}
	if o.DatabaseConnections < 0 {
		return errors.New("--database-connections must be 1 or more, or 0 for the default")
	}
	if err := checkIntervals(reflect.ValueOf(o.Intervals)); err != nil {
		return err
	}
	abandon, seen := o.Intervals.AbandonAfter, o.Intervals.SeenEvery
	if abandon < 2*seen {
		return fmt.Errorf("--abandon-after (%s) must be at least twice --seen-every (%s); otherwise pending calls are withdrawn while their callers wait", abandon, seen)
	}
	blind, poll := o.Intervals.ClaimGraceBlind, o.Intervals.PollEvery
	if blind <= poll {
		return fmt.Errorf("--claim-grace-blind (%s) must be longer than --poll-every (%s); otherwise another instance may run a call before the instance of its caller", blind, poll)
	}
	return nil
}

// checkIntervals rejects negative durations in a struct and its nested structs.
func checkIntervals(v reflect.Value) error {
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct {
			if err := checkIntervals(v.Field(i)); err != nil {
				return err
			}
		} else if d, ok := v.Field(i).Interface().(time.Duration); ok && d < 0 {
			return fmt.Errorf("--%s must not be negative, but is %s", flagName(v.Type().Field(i)), d)
		}
	}
	return nil
}

// onlyPort returns the port if the text consists only of one, and otherwise "".
func onlyPort(text string) string {
	if text = strings.TrimPrefix(text, ":"); strings.Trim(text, "0123456789") != "" {
		return ""
	}
	return text
}

// flagName returns the name of a field's flag.
func flagName(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	var b strings.Builder
	for i, r := range f.Name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Public returns the public URL of a server that listens on addr.
func (o *Options) Public(addr net.Addr) (string, error) {
	if o.PublicURL == "" {
		_, port, err := net.SplitHostPort(addr.String())
		if err != nil {
			return "", err
		}
		host, _, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return "", fmt.Errorf("--listen: %w", err)
		}
		if ip, err := netip.ParseAddr(host); host == "" || (err == nil && ip.IsUnspecified()) {
			return "", fmt.Errorf("listening on every address (%s) needs --public-url, which links to this server use", o.Listen)
		}
		return "http://" + net.JoinHostPort(host, port), nil
	}
	u, err := url.Parse(o.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.User != nil {
		return "", errors.New("--public-url must be a scheme and a host, such as https://gate.example.com")
	}
	return u.Scheme + "://" + u.Host, nil
}

// LoadConfig reads the optional configuration file, a YAML mapping from flag names to
// values. Flags and environment variables override it.
func LoadConfig(r io.Reader) (kong.Resolver, error) {
	values := map[string]any{}
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the configuration file is not a YAML mapping from flags to values: %w", err)
	}
	return configFile(values), nil
}

// configFlag is the path of the configuration file.
type configFlag string

// BeforeResolve loads the file, whose values apply to flags that are not set.
func (configFlag) BeforeResolve(app *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFlag)
	values, err := app.LoadConfig(string(path))
	if errors.As(err, new(*fs.PathError)) {
		return fmt.Errorf("reading the configuration file (--config): %w", err)
	}
	if err == nil {
		ctx.AddResolver(values)
	}
	return err
}

type configFile map[string]any

// Validate implements kong.Resolver. It rejects names of unknown flags, which would
// otherwise be ignored.
func (c configFile) Validate(app *kong.Application) error {
	var known []string
	_ = kong.Visit(app, func(n kong.Visitable, next kong.Next) error {
		if f, ok := n.(*kong.Flag); ok {
			known = append(known, f.Name)
		}
		return next(nil)
	})
	for name := range c {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the configuration file sets %q, which is not a flag; see sallyport serve --help", name)
		}
	}
	return nil
}

// Resolve implements kong.Resolver.
func (c configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := c[flag.Name]
	if !ok {
		return nil, nil
	}
	if list, ok := value.([]any); ok {
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = fmt.Sprint(v)
		}
		return strings.Join(parts, ","), nil
	}
	return fmt.Sprint(value), nil
}
