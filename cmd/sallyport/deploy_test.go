package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/server"
)

// The files with which Sallyport is run and released name what is there:
// commands and flags of this program, its variables, and files of this
// repository.

const root = "../../"

func deployed(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// readYAML reads a file whose every field is known.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(deployed(t, file)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// parses checks words of a command line of sallyport.
func parses(t *testing.T, where string, args []string) {
	t.Helper()
	if err := parsing(args); err != nil {
		t.Errorf("%s: sallyport %s: %v", where, strings.Join(args, " "), err)
	}
}

func parsing(args []string) error {
	var line commandLine
	app, err := kong.New(&line, kong.Name("sallyport"), kong.Configuration(server.LoadConfig),
		kong.Vars{"data": "DATA", "version": "", "event_kinds": "EVENTS", "clients": cli.ClientNames()})
	if err != nil {
		return err
	}
	_, err = app.Parse(args)
	return err
}

// variables are those that flags have, and the two that are no flags.
func variables(t *testing.T) []string {
	t.Helper()
	var line commandLine
	app, err := kong.New(&line, kong.DefaultEnvars("SALLYPORT"), kong.Vars{"data": "DATA", "version": "", "event_kinds": "EVENTS", "clients": cli.ClientNames()})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"SALLYPORT_API_KEY", "SALLYPORT_TOKEN"}
	if err := kong.Visit(app.Model, func(n kong.Visitable, next kong.Next) error {
		if f, ok := n.(*kong.Flag); ok {
			all = append(all, f.Envs...)
		}
		return next(nil)
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// pinnedImage matches images with a version of at least two numbers, or a digest.
var pinnedImage = regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[a-z0-9/._-]+(:v?\d+\.\d+[a-z0-9.-]*|(:[a-z0-9.-]+)?@sha256:[0-9a-f]{64})$`)

func TestPinnedImages(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]bool{
		"docker.io/library/caddy:2.11.4-alpine":                    true,
		"gcr.io/a/b:nonroot@sha256:" + strings.Repeat("0a", 32):    true,
		"docker.io/library/caddy":                                  false,
		"docker.io/library/caddy:latest":                           false,
		"docker.io/library/caddy:2":                                false,
		"caddy:2.11.4":                                             false, // of which registry?
		"gcr.io/distroless/static-debian13:nonroot":                false,
		"gcr.io/distroless/static-debian13:nonroot@sha256:0123456": false,
	} {
		if pinnedImage.MatchString(image) != want {
			t.Errorf("%s: pinned is %t", image, !want)
		}
	}
}

// TestVariablesOfDeployment has every SALLYPORT_ variable be one of the program's.
func TestVariablesOfDeployment(t *testing.T) {
	t.Parallel()
	known := variables(t)
	name := regexp.MustCompile(`SALLYPORT_[A-Z0-9_]+`)
	for _, file := range []string{"deploy/Containerfile", "deploy/compose.yaml", "deploy/env.example", "deploy/Caddyfile", "deploy/systemd/sallyport.service", ".goreleaser.yaml", "docs/deploy.md"} {
		for _, found := range name.FindAllString(deployed(t, file), -1) {
			if found != "SALLYPORT_NAME" && !slices.Contains(known, found) {
				t.Errorf("%s: no flag has the variable %s", file, found)
			}
		}
	}
}

// compose is what compose.yaml may hold, and no more.
type compose struct {
	Name     string                    `yaml:"name"`
	Hardened yaml.Node                 `yaml:"x-hardened"`
	Common   yaml.Node                 `yaml:"x-sallyport"`
	Services map[string]composeService `yaml:"services"`
	Networks map[string]struct {
		Internal bool `yaml:"internal"`
	} `yaml:"networks"`
	Volumes map[string]struct{} `yaml:"volumes"`
}

type composeService struct {
	Image string `yaml:"image"`
	Build *struct {
		Context    string            `yaml:"context"`
		Dockerfile string            `yaml:"dockerfile"`
		Args       map[string]string `yaml:"args"`
	} `yaml:"build"`
	Command     []string          `yaml:"command"`
	User        string            `yaml:"user"`
	Restart     string            `yaml:"restart"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	CapAdd      []string          `yaml:"cap_add"`
	SecurityOpt []string          `yaml:"security_opt"`
	Networks    []string          `yaml:"networks"`
	Ports       []string          `yaml:"ports"`
	Tmpfs       []string          `yaml:"tmpfs"`
	Volumes     []string          `yaml:"volumes"`
	Environment map[string]string `yaml:"environment"`
	ShmSize     string            `yaml:"shm_size"`
	StopGrace   string            `yaml:"stop_grace_period"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Disable     bool     `yaml:"disable"`
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		Retries     int      `yaml:"retries"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var c compose
	readYAML(t, "deploy/compose.yaml", &c)
	if want := []string{"balancer", "gateway-1", "gateway-2", "ingest", "migrate", "postgres", "valkey"}; !slices.Equal(slices.Sorted(maps.Keys(c.Services)), want) {
		t.Fatalf("the services are %v", slices.Sorted(maps.Keys(c.Services)))
	}
	if !c.Networks["back"].Internal {
		t.Error("the database can be reached from outside")
	}
	for name, s := range c.Services {
		c.check(t, name, s)
	}
	// What the environment of these four says beside secrets is compared by the
	// program itself: an instance with other keys does not start.
	for _, name := range []string{"gateway-1", "gateway-2", "ingest"} {
		for _, v := range []string{"SALLYPORT_MASTER_KEY", "SALLYPORT_TOKEN_KEY", "SALLYPORT_PUBLIC_URL", "SALLYPORT_METRICS_TOKEN"} {
			if got := c.Services[name].Environment[v]; !strings.HasPrefix(got, "${"+v+":?") {
				t.Errorf("%s: %s is %q, and does not have to be set", name, v, got)
			}
		}
		if !slices.Contains(c.Services[name].Volumes, "evidence:/var/lib/sallyport-evidence") {
			t.Errorf("%s does not share the files of evidence", name)
		}
	}
	if len(c.Services["migrate"].Environment) != 1 {
		t.Error("migrate is told more than where the database is")
	}
	for _, line := range strings.Split(deployed(t, "deploy/Caddyfile"), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "reverse_proxy" {
			continue
		}
		for _, to := range words[1:] {
			if service, port, ok := strings.Cut(to, ":"); ok && (c.Services[service].Build == nil || port != "8787") {
				t.Errorf("Caddyfile: nothing is at %s", to)
			}
		}
	}
}

// check looks at one service.
func (c *compose) check(t *testing.T, name string, s composeService) {
	t.Helper()
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Restart == "" {
		t.Errorf("%s is not hardened: %+v", name, s)
	}
	if len(s.Ports) > 0 != (name == "balancer") {
		t.Errorf("%s: the ports %v are published", name, s.Ports)
	}
	if s.Build == nil {
		if !pinnedImage.MatchString(s.Image) {
			t.Errorf("%s: the image %s is not pinned to a version", name, s.Image)
		}
	} else {
		if _, err := os.Stat(filepath.Join(root, "deploy", s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.User != "65532:65532" {
			t.Errorf("%s runs as %q", name, s.User)
		}
		parses(t, name, s.Command)
	}
	switch test := s.Healthcheck.Test; {
	case s.Healthcheck.Disable && name == "migrate", name == "balancer":
	case len(test) < 2 || test[0] != "CMD":
		t.Errorf("%s has no health check without a shell: %v", name, test)
	case s.Build != nil:
		if test[1] != "/usr/local/bin/sallyport" || !slices.Contains(test, "--ready") {
			t.Errorf("%s: its health check is %v", name, test)
		}
		parses(t, name, test[2:])
	}
	for on := range s.DependsOn {
		if _, ok := c.Services[on]; !ok {
			t.Errorf("%s depends on %s, which is not there", name, on)
		}
	}
	for _, n := range s.Networks {
		if _, ok := c.Networks[n]; !ok {
			t.Errorf("%s: there is no network %s", name, n)
		}
	}
	for _, v := range s.Volumes {
		from, _, _ := strings.Cut(v, ":")
		if strings.HasPrefix(from, ".") {
			if _, err := os.Stat(filepath.Join(root, "deploy", from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if _, ok := c.Volumes[from]; !ok {
			t.Errorf("%s: there is no volume %s", name, from)
		}
	}
	example := deployed(t, "deploy/env.example")
	for v, value := range s.Environment {
		for _, wanted := range regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(value, -1) {
			if !strings.Contains(example, "\n"+wanted[1]+"=") {
				t.Errorf("%s: %s wants %s, which env.example lacks", name, v, wanted[1])
			}
		}
	}
}

func TestContainerfile(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(deployed(t, "deploy/Containerfile"), "\\\n", " ")
	var images, last []string
	var user, build string
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		from := slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--from=") })
		plain := slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { return strings.HasPrefix(w, "--") })
		switch words[0] {
		case "FROM":
			images = append(images, plain[0])
			if !pinnedImage.MatchString(plain[0]) {
				t.Errorf("the image %s is not pinned", plain[0])
			}
		case "COPY":
			for _, path := range plain[:len(plain)-1] {
				if _, err := os.Stat(root + path); !from && err != nil {
					t.Errorf("it copies %v", err)
				}
			}
		case "RUN":
			if strings.Contains(line, "go build") {
				build = line
			}
		case "USER":
			user = plain[0]
		case "ENTRYPOINT", "CMD":
			var args []string
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, words[0])), &args); err != nil {
				t.Errorf("%s wants a shell, which the image lacks: %v", line, err)
			}
			last = append(last, args...)
		}
	}
	if len(images) != 2 || !strings.Contains(images[1], "/distroless/static-") {
		t.Fatalf("the images are %v", images)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`).FindStringSubmatch(deployed(t, "go.mod"))
	if version == nil || !strings.Contains(images[0], "golang:"+version[1]+"-") {
		t.Errorf("it builds with %s, and go.mod asks for %v", images[0], version)
	}
	if user != "65532:65532" {
		t.Errorf("it runs as %q", user)
	}
	if !strings.HasPrefix(strings.TrimPrefix(build, "RUN "), "CGO_ENABLED=0 ") {
		t.Errorf("it is not built without C: %s", build)
	}
	builds(t, "Containerfile", build)
	if last[0] != "/usr/local/bin/sallyport" {
		t.Errorf("it starts %v", last)
	}
	parses(t, "Containerfile", last[1:])
}

// builds checks how the program is built for others: from where it is, with the
// versions of go.mod alone, no path of the machine in it, and its version.
func builds(t *testing.T, where, line string) {
	t.Helper()
	for _, part := range []string{"GOWORK=off", "-trimpath", "-buildvcs=false", "-X sallyport/cmd/sallyport/command.Release=", "./cmd/sallyport"} {
		if !strings.Contains(line, part) {
			t.Errorf("%s builds without %s: %s", where, part, line)
		}
	}
	_ = command.Release // which -X sets
}

// goreleaser is what .goreleaser.yaml may hold, and no more.
type goreleaser struct {
	Version     int    `yaml:"version"`
	ProjectName string `yaml:"project_name"`
	Before      struct {
		Hooks []string `yaml:"hooks"`
	} `yaml:"before"`
	Builds []struct {
		Main         string   `yaml:"main"`
		Binary       string   `yaml:"binary"`
		Env          []string `yaml:"env"`
		GOOS         []string `yaml:"goos"`
		GOARCH       []string `yaml:"goarch"`
		Flags        []string `yaml:"flags"`
		Ldflags      []string `yaml:"ldflags"`
		ModTimestamp string   `yaml:"mod_timestamp"`
	} `yaml:"builds"`
	Archives []struct {
		Formats      []string       `yaml:"formats"`
		NameTemplate string         `yaml:"name_template"`
		Wrap         bool           `yaml:"wrap_in_directory"`
		BuildsInfo   map[string]any `yaml:"builds_info"`
		Files        []struct {
			Src  string         `yaml:"src"`
			Info map[string]any `yaml:"info"`
		} `yaml:"files"`
	} `yaml:"archives"`
	SBOMs []struct {
		Artifacts string `yaml:"artifacts"`
	} `yaml:"sboms"`
	Checksum struct {
		NameTemplate string `yaml:"name_template"`
		Algorithm    string `yaml:"algorithm"`
	} `yaml:"checksum"`
	Snapshot  map[string]string `yaml:"snapshot"`
	Changelog map[string]bool   `yaml:"changelog"`
	Release   map[string]bool   `yaml:"release"`
}

func TestGoreleaser(t *testing.T) {
	t.Parallel()
	var g goreleaser
	readYAML(t, ".goreleaser.yaml", &g)
	if g.Version != 2 || len(g.Builds) != 1 || len(g.Archives) != 1 || len(g.SBOMs) != 1 || g.Checksum.Algorithm != "sha256" {
		t.Fatalf("%+v", g)
	}
	b, a := g.Builds[0], g.Archives[0]
	if !slices.Equal(b.GOOS, []string{"linux", "darwin"}) || !slices.Equal(b.GOARCH, []string{"amd64", "arm64"}) || !slices.Equal(b.Env, []string{"CGO_ENABLED=0", "GOWORK=off"}) {
		t.Errorf("it builds %+v", b)
	}
	builds(t, ".goreleaser.yaml", strings.Join(slices.Concat(b.Env, b.Flags, b.Ldflags, []string{b.Main}), " "))
	if b.ModTimestamp == "" || a.BuildsInfo["mtime"] == nil {
		t.Error("the times of files in an archive are those of its making")
	}
	for _, f := range a.Files {
		found, err := filepath.Glob(root + strings.ReplaceAll(f.Src, "**/", ""))
		if err != nil || len(found) == 0 && f.Src != "LICENSE*" {
			t.Errorf("there is no %s: %v", f.Src, err)
		}
		if f.Info["mtime"] == nil {
			t.Errorf("%s has the time of its checkout", f.Src)
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	const file = "deploy/systemd/sallyport.service"
	unit, set := deployed(t, file), map[string]string{}
	for _, line := range strings.Split(unit, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			set[name] = value
		}
	}
	words := strings.Fields(set["ExecStart"])
	if len(words) < 2 || words[0] != "/usr/local/bin/sallyport" {
		t.Fatalf("it starts %v", words)
	}
	parses(t, file, words[1:])
	for name, want := range map[string]string{
		"DynamicUser": "yes", "StateDirectory": "sallyport", "StateDirectoryMode": "0700", "ProtectSystem": "strict",
		"NoNewPrivileges": "yes", "ProtectHome": "yes", "CapabilityBoundingSet": "", "MemoryDenyWriteExecute": "yes",
		"Environment": "SALLYPORT_DATA=%S/sallyport",
	} {
		if got, ok := set[name]; !ok || got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("systemd-analyze is not here; .ci/prepare installs it where it can")
	}
	if err != nil {
		t.Skip("systemd-analyze, which says what systemd thinks of it, is not here")
	}
	// It wants the program to be there.
	there := filepath.Join(t.TempDir(), "sallyport.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/sallyport", "/bin/true")
	if err := os.WriteFile(there, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", there).CombinedOutput()
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, filepath.Base(there)) { // and not of other units of this machine
			t.Errorf("systemd-analyze verify: %s (%v)", line, err)
		}
	}
}

// TestParsesBites proves that a command or flag that is not there is seen.
func TestParsesBites(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"gatewai"}, {"doctor", "--redy", "http://x"}, {"serve", "--nothing"}} {
		if parsing(args) == nil {
			t.Errorf("sallyport %v parses", args)
		}
	}
}

func TestDoctorReady(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("it asks for %s", r.URL.Path)
		}
		w.WriteHeader(status)
	}))
	ask := func(at string) (int, string) {
		var out, errs strings.Builder
		code := execute(t.Context(), []string{"doctor", "--ready", at}, strings.NewReader(""), &out, &errs)
		return code, out.String() + errs.String()
	}
	if code, said := ask(server.URL); code != command.ExitOK || said != "" {
		t.Errorf("a ready server: %d %s", code, said)
	}
	status = http.StatusServiceUnavailable
	if code, said := ask(server.URL + "/"); code != command.ExitError || !strings.Contains(said, "its log says why") {
		t.Errorf("one that is not ready: %d %s", code, said)
	}
	server.Close()
	if code, said := ask(server.URL); code != command.ExitError || !strings.Contains(said, "check that it runs") {
		t.Errorf("one that is gone: %d %s", code, said)
	}
	if code, said := ask("127.0.0.1"); code != command.ExitUsage || !strings.Contains(said, "http://127.0.0.1:8787") {
		t.Errorf("no URL: %d %s", code, said)
	}
}
