package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// options are the flags of `sallyport serve`; each is an environment variable
// too, in capitals behind SALLYPORT_.
type options struct {
	Config        configFlag     `help:"YAML file with the names of these flags as keys; flags and environment go before it." placeholder:"FILE"`
	Listen        string         `help:"Address to listen on (default: 127.0.0.1:8787); port 0 picks a free one." default:"127.0.0.1:8787" placeholder:"HOST:PORT"`
	Data          string         `help:"Folder of the database and the keys (default: ${data})." placeholder:"DIR" type:"folder"`
	LocalAdmin    bool           `help:"Write a key of a full administrator to endpoint.json (ingest, which has no API, writes none). Whoever runs as the same system user, an agent's shell too, can then approve."`
	PublicURL     string         `help:"Where people and agents reach this server: scheme and host. Every link is built from it (default: the listening address)." placeholder:"URL"`
	AllowHost     []string       `help:"Further names that a request's Host header may have." placeholder:"HOST"`
	AllowUpstream []netip.Prefix `help:"Private networks that connectors may reach." placeholder:"CIDR"`
	RateLimit     int            `help:"Calls a minute and session (default: 60); 0 for no limit. Instances count together with Valkey, and each by itself without." default:"60" placeholder:"N"`
	ToolList      string         `help:"What agents list, where their session does not say: all tools that they may use, or search: tools that find and call them." enum:"all,search" default:"all"`
	LogLevel      string         `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
	LogFormat     string         `help:"text or json: the form of the log's lines." enum:"text,json" default:"text"`
	MetricsToken  string         `help:"What /metrics wants as Authorization: Bearer TOKEN (default: nothing; then it is read on a loopback listener alone)." placeholder:"TOKEN"`

	Logs        map[string]string `help:"Log files that agents may read through the integration cloudlogs, by the name of their service: JSON lines or the journal's export, as a pattern where they are rotated." placeholder:"NAME=FILE"`
	LogsFor     []string          `help:"Organizations that may connect to them (default: the first one alone)." placeholder:"ORGANIZATION"`
	LogsRange   time.Duration     `help:"The longest time that one query of logs covers (24h)." placeholder:"D"`
	LogsEntries int               `help:"The most entries that it answers (100)." placeholder:"N"`

	WebhookSecrets   webhookSecrets    `help:"Secrets that URLs of a whole provider are verified with, and nango for what Nango forwards; a provider that is named twice has two, while one is replaced." placeholder:"PROVIDER=SECRET,…"`
	WebhookRate      int               `help:"New verified deliveries a minute that the URL of each trigger takes, and repeated ones beside (default: 6000); the URL of a whole provider takes ten times as many; 0 for no limit." default:"6000" placeholder:"N"`
	WebhookTolerance webhookTolerances `help:"How far the time that a provider signs may be from now, where it is not what the provider advises." placeholder:"PROVIDER=D,…"`
	PayloadRetention time.Duration     `help:"How long payloads of deliveries and events are kept (default: 720h, 30 days); 0 for ever." default:"720h" placeholder:"D"`
	RunLife          runLife           `help:"How long a run may take before it has failed (default: 48h)." default:"48h" placeholder:"D"`

	Retention time.Duration `help:"How long ended calls are kept, such as 2160h for 90 days (default: for ever). What goes leaves a checkpoint in the chain of evidence." placeholder:"D"`

	Evidence         string        `help:"Where files are kept that agents send as evidence of their work: file:///FOLDER, or s3://BUCKET?region=R&endpoint=URL for anything that speaks S3, whose credentials are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (default: a folder in the data folder, which several instances do not share)." placeholder:"URL"`
	SessionIdle      time.Duration `help:"How long a session may be idle before it is stopped, where it has no time of its own, such as 12h (default: for ever)." placeholder:"D"`
	SessionRetention time.Duration `help:"How long ended sessions are kept, such as 720h (default: for ever). Then they lose title, prompt, notes and key, and what nothing refers to is deleted." placeholder:"D"`

	DatabaseURL         string        `help:"PostgreSQL instead of the file in the data folder, for any number of instances: postgres://user:password@host/name." placeholder:"URL"`
	DatabaseConnections int           `help:"PostgreSQL connections of this process (16)." placeholder:"N"`
	DatabaseWait        time.Duration `help:"How long to wait at the start for a PostgreSQL that cannot be reached (default: 30s); 0 to end at once." default:"30s" placeholder:"D"`
	ValkeyURL           string        `help:"Valkey or Redis, by which instances tell each other at once what changed, and count calls together: valkey://host:6379/0." placeholder:"URL"`

	MasterKey     string   `help:"32 bytes in hex that seal secrets, params and results (default: generated in the data folder)." placeholder:"HEX"`
	OldMasterKeys []string `help:"Further master keys that open what they sealed, and seal nothing: while one is replaced." placeholder:"HEX"`
	TokenKey      string   `help:"32 bytes in hex that sign session tokens (default: generated in the data folder)." placeholder:"HEX"`

	SignIn    signInFlags `embed:"" group:"Signing in"`
	Intervals intervals   `embed:"" group:"Intervals"`
}

// intervals are times that few deployments change. Zero
// means the default in the help.
type intervals struct {
	HoldInteractive time.Duration `help:"How long a call waits for a person (5m)." placeholder:"D"`
	HoldUnattended  time.Duration `help:"Likewise in an unattended session (24h)." placeholder:"D"`
	HoldEvery       time.Duration `help:"Between two progress messages of a held call (3s)." placeholder:"D"`
	PendingAfter    time.Duration `help:"When a client that cannot show progress is told that its call is pending (45s)." placeholder:"D"`
	PendingUnattend time.Duration `help:"When an unattended session is told so (10m)." name:"pending-after-unattended" placeholder:"D"`
	KeepAlive       time.Duration `help:"Between two comments that keep a silent stream open (15s)." placeholder:"D"`
	CallTimeout     time.Duration `help:"Of one execution (30s)." placeholder:"D"`
	CheckTimeout    time.Duration `help:"Of reading everything again before an approved call runs (20s)." placeholder:"D"`
	ListTimeout     time.Duration `help:"Of listing a connector's tools (15s)." placeholder:"D"`
	ListFor         time.Duration `help:"How long a list of tools is used (5m)." placeholder:"D"`
	LeaseMargin     time.Duration `help:"Of an execution's lease over its timeout (15s)." placeholder:"D"`
	ClaimGrace      time.Duration `help:"Before an approved call that nobody waits for is run (500ms)." placeholder:"D"`
	ClaimGraceBlind time.Duration `help:"Likewise while instances do not hear of each other (2.5s)." placeholder:"D"`
	ClaimWithin     time.Duration `help:"Before an approval that nobody used expires (5m)." placeholder:"D"`
	AbandonAfter    time.Duration `help:"Without a caller, before a held call is withdrawn (2m)." placeholder:"D"`
	DenialHolds     time.Duration `help:"How long a person's denial refuses the same call (15m)." placeholder:"D"`
	Pickup          time.Duration `help:"How long a result can be picked up (15m)." placeholder:"D"`
	PickupUnattend  time.Duration `help:"Likewise in an unattended session (24h)." name:"pickup-unattended" placeholder:"D"`
	SweepEvery      time.Duration `help:"Between two rounds of overdue work (250ms)." placeholder:"D"`
	SealEvery       time.Duration `help:"Between two rounds of sealing what ended into the chain of evidence (500ms)." placeholder:"D"`
	SeenEvery       time.Duration `help:"Between two notes that callers still wait (10s)." placeholder:"D"`
	PollEvery       time.Duration `help:"Between two looks at rows that other instances may have changed (1s)." placeholder:"D"`
	ClockEvery      time.Duration `help:"Between two comparisons of this clock with the database's (10s)." placeholder:"D"`
	ValkeyHeartbeat time.Duration `help:"Between two tries whether Valkey carries what instances say; it counts as away after two and a half of silence (1s)." placeholder:"D"`
	ValkeyTimeout   time.Duration `help:"Of one request to Valkey (250ms)." placeholder:"D"`
	InboxEvery      time.Duration `help:"Between two looks for deliveries, where nothing tells that one came (1s)." placeholder:"D"`
	InboxLease      time.Duration `help:"Before others work off what an instance took up that does not answer any more (1m)." placeholder:"D"`
	InboxPause      time.Duration `help:"After the first failure to work off a delivery; doubled each time (1s)." placeholder:"D"`
	LookEvery       time.Duration `help:"Between two looks for what is to be polled (1s)." placeholder:"D"`
	ScheduleEvery   time.Duration `help:"Between two looks for schedules that are due (1s)." placeholder:"D"`
	DispatchEvery   time.Duration `help:"Between two looks for runs to deliver (1s)." placeholder:"D"`
	NotifyEvery     time.Duration `help:"Between two looks for held calls to tell approvers of elsewhere; hints make it sooner (1s)." placeholder:"D"`
	RunSweepEvery   time.Duration `help:"Between two looks for runs whose worker is lost or whose time is over (5s)." placeholder:"D"`
	EvidenceKept    time.Duration `help:"Before files are removed that an agent sent and did not verify (25h, longer than a call of verify may be held)." name:"evidence-unsealed" placeholder:"D"`
	SessionEvery    time.Duration `help:"Between two rounds of noting which sessions are used (1s)." placeholder:"D"`
	SessionIdleLook time.Duration `help:"Between two looks for sessions that are idle, or ended long ago (15s)." name:"session-idle-every" placeholder:"D"`
	IdleSession     time.Duration `help:"Before memory of an unused MCP session is freed (30m)." placeholder:"D"`
	SessionLife     time.Duration `help:"How long an MCP session can be used (24h)." name:"mcp-session-life" placeholder:"D"`
	CompletionStays time.Duration `help:"How long a session that completed its run is answered the same again (15m)." placeholder:"D"`
	ShutdownDelay   time.Duration `help:"Before a stopping server refuses anything, so that balancers see /readyz first (0s)." placeholder:"D"`
	ShutdownWithin  time.Duration `help:"Time for executing calls to end when the server stops (40s)." placeholder:"D"`
}

// listenDefault is --listen where nothing is said.
const listenDefault = "127.0.0.1:8787"

// check refuses options that would break calls later.
func (o *options) check() error {
	if o.RateLimit < 0 {
		return errors.New("--rate-limit must be 0 (no limit) or more")
	}
	if _, _, err := net.SplitHostPort(o.Listen); o.Listen != "" && err != nil {
		return fmt.Errorf("--listen %s is no HOST:PORT; write one such as 127.0.0.1:%s", o.Listen, cmp.Or(onlyPort(o.Listen), "8787"))
	}
	if o.Retention != 0 && o.Retention < 48*time.Hour {
		return fmt.Errorf("--retention (%s) must be 48h or more, so that no call is removed whose result may still be picked up; or 0 to keep all", o.Retention)
	}
	if o.SessionIdle < 0 || o.SessionIdle%time.Second != 0 || o.SessionRetention < 0 {
		return errors.New("--session-idle must be whole seconds and --session-retention a time above 0, or 0 for ever")
	}
	if err := errors.Join(o.checkInbound(), o.SignIn.check()); err != nil {
		return err
	}
	if o.LogsRange < 0 || o.LogsEntries < 0 {
		return errors.New("--logs-range and --logs-entries must be above 0, or 0 for the default")
	}
	if o.DatabaseWait < 0 {
		return errors.New("--database-wait must be a time such as 30s, or 0 to wait for nothing")
	}
	if o.DatabaseConnections < 0 {
		return errors.New("--database-connections must be 1 or more, or 0 for the default")
	}
	fields := reflect.ValueOf(o.Intervals)
	for i := range fields.NumField() {
		if d, ok := fields.Field(i).Interface().(time.Duration); ok && d < 0 {
			return fmt.Errorf("--%s must not be negative: it is %s", flagName(fields.Type().Field(i)), d)
		}
	}
	abandon, seen := cmp.Or(o.Intervals.AbandonAfter, 2*time.Minute), cmp.Or(o.Intervals.SeenEvery, 10*time.Second)
	if abandon < 2*seen {
		return fmt.Errorf("--abandon-after (%s) must be at least twice --seen-every (%s): otherwise calls are withdrawn whose callers still wait", abandon, seen)
	}
	blind, poll := cmp.Or(o.Intervals.ClaimGraceBlind, 2500*time.Millisecond), cmp.Or(o.Intervals.PollEvery, time.Second)
	if blind <= poll {
		return fmt.Errorf("--claim-grace-blind (%s) must be longer than --poll-every (%s): otherwise the instance where a caller waits does not come first", blind, poll)
	}
	return nil
}

// onlyPort is a text that is nothing but a port, and empty of another.
func onlyPort(text string) string {
	if text = strings.TrimPrefix(text, ":"); strings.Trim(text, "0123456789") != "" {
		return ""
	}
	return text
}

// flagName is how the command line calls a field.
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

// dataFolder is where data lies when nothing is said.
func dataFolder() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sallyport")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ".sallyport"
	}
	return filepath.Join(home, ".local", "share", "sallyport")
}

// public returns the public URL of a server that listens on addr.
func (o *options) public(addr net.Addr) (string, error) {
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
			return "", fmt.Errorf("listening on every address (%s) needs --public-url, so that links lead here", o.Listen)
		}
		return "http://" + net.JoinHostPort(host, port), nil
	}
	u, err := url.Parse(o.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.User != nil {
		return "", errors.New("--public-url must be a scheme and a host, such as https://gate.example.com")
	}
	return u.Scheme + "://" + u.Host, nil
}
