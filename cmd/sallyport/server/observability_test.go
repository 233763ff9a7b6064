package server

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the table of metrics in docs/observability.md anew")

// everyPart is a gateway with all that it can have, which talks to nobody.
func everyPart(t *testing.T) *Gateway {
	t.Helper()
	o := Options{Data: t.TempDir(), Listen: "127.0.0.1:0", ValkeyURL: "valkey://127.0.0.1:1"}
	prepareRows(t, &o)
	g, err := Open(t.Context(), o, slog.New(slog.NewTextHandler(testWriter{t}, nil)), (*Gateway).openInbound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// metric is what a gateway says of one of its metrics.
type metric struct {
	kind   string
	labels []string
	help   string
}

var described = regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: ("(?:[^"\\]|\\.)*"), unit: "", constLabels: \{\}, variableLabels: \{([\w,]*)\}\}$`)

func metricsOf(t *testing.T, g *Gateway) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for _, c := range g.collectors() {
		descs := make(chan *prometheus.Desc, 10)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			m := described.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("what is %s?", d)
			}
			kind := "gauge"
			switch c.(type) {
			case *prometheus.HistogramVec:
				kind = "histogram"
			case *prometheus.SummaryVec:
				kind = "summary"
			default:
				if strings.HasSuffix(m[1], "_total") {
					kind = "counter"
				}
			}
			var help string
			if err := json.Unmarshal([]byte(m[2]), &help); err != nil {
				t.Fatal(err)
			}
			one := metric{kind: kind, help: help}
			if m[3] != "" {
				one.labels = strings.Split(m[3], ",")
			}
			all[m[1]] = one
		}
	}
	return all
}

// The table of metrics in the docs says what the gateway says.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../../docs/observability.md", "<!-- metrics -->\n", "<!-- end of metrics -->\n"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(raw), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q", path, begin)
	}
	all := metricsOf(t, everyPart(t))
	var want strings.Builder
	want.WriteString("| metric | labels | meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		fmt.Fprintf(&want, "| `%s` (%s) | %s | %s |\n", name, m.kind, cmp.Or(strings.Join(m.labels, ", "), "—"), m.help)
	}
	if table == want.String() {
		return
	}
	if !*update {
		t.Fatalf("the table in %s differs from the metrics; run go test -run %s -update ./cmd/sallyport/server", path, t.Name())
	}
	if err := os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	metricNames  = regexp.MustCompile(`\b(?:sallyport|go|process)_\w+`)
	metricLabels = regexp.MustCompile(`\b(?:by|on|without) ?\(([^)]*)\)|\b(\w+) ?(?:=~|!~|!=|=) ?"`)
)

// checkExpression wants every metric and label in an expression to exist.
func checkExpression(t *testing.T, expression string, metrics map[string]metric, scraped string) {
	t.Helper()
	known := []string{"le", "job", "instance"}
	names := metricNames.FindAllString(expression, -1)
	if len(names) == 0 {
		t.Errorf("%s names no metric", expression)
	}
	for _, name := range names {
		m, ok := metrics[name]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if whole := strings.TrimSuffix(name, part); !ok && whole != name {
				m, ok = metrics[whole]
				ok = ok && (m.kind == "histogram" || m.kind == "summary" && part != "_bucket")
			}
		}
		known = append(known, m.labels...)
		if !ok && !strings.Contains(scraped, "\n"+name+" ") {
			t.Errorf("%s: no gateway has the metric %s", expression, name)
		}
	}
	for _, used := range metricLabels.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(used[1]+used[2], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(known, label) {
				t.Errorf("%s: no such label: %s", expression, label)
			}
		}
	}
}

// What the dashboard and the alerts ask Prometheus for is there.
func TestDashboardAndAlertsNameWhatExists(t *testing.T) {
	t.Parallel()
	g := everyPart(t)
	metrics := metricsOf(t, g)
	w := httptest.NewRecorder()
	g.metrics().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics answered %d %s", w.Code, w.Body)
	}
	t.Run("alerts", func(t *testing.T) {
		for _, rule := range alertRules(t) {
			checkExpression(t, rule.Expr, metrics, w.Body.String())
		}
	})
	t.Run("dashboard", func(t *testing.T) {
		raw, err := os.ReadFile("../../../deploy/grafana/sallyport.json")
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID    string
			Title  string
			Panels []struct {
				Title   string
				Type    string
				GridPos struct{ H, W, X, Y int }
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(raw, &board); err != nil {
			t.Fatal(err)
		}
		if board.UID == "" || board.Title == "" || len(board.Panels) == 0 {
			t.Error("it is no dashboard")
		}
		for _, p := range board.Panels {
			if p.GridPos.W == 0 || p.GridPos.H == 0 || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("panel %q has no place, or asks for nothing", p.Title)
			}
			for _, target := range p.Targets {
				checkExpression(t, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), metrics, w.Body.String())
			}
		}
	})
}

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertRules reads the file as Prometheus does: a field that it does not know
// is an error.
func alertRules(t *testing.T) (all []alertRule) {
	t.Helper()
	f, err := os.Open("../../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var file struct {
		Groups []struct {
			Name  string      `yaml:"name"`
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// Every alert says how bad it is and what to do, and the docs have it.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range alertRules(t) {
		if rule.Alert == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%q does not say what to do", rule.Alert)
		}
		if s := rule.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s has severity %q", rule.Alert, s)
		}
		if !strings.Contains(string(docs), "| `"+rule.Alert+"` |") {
			t.Errorf("%s is not in docs/observability.md", rule.Alert)
		}
	}
}
