package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

type webhookOptions struct {
	instanceOptions

	rate, connections, bytes int
	lasts                    time.Duration
}

func parseWebhooks(args []string) (o webhookOptions, err error) {
	flags := flag.NewFlagSet("bench webhooks", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder for the data of gateways and databases; on a disk, commits are durable")
	flags.StringVar(&o.binary, "binary", "", "the sallyport to measure; empty: built here")
	flags.StringVar(&o.json, "json", "", "file to write the figures to; empty: none")
	flags.IntVar(&o.rate, "rate", 1000, "deliveries a second")
	flags.IntVar(&o.connections, "connections", 64, "connections that they come by")
	flags.IntVar(&o.bytes, "bytes", 8<<10, "size of a delivery")
	flags.DurationVar(&o.lasts, "lasts", 30*time.Second, "how long they come")
	names := flags.String("setups", "sqlite,postgres", "setups to measure")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.rate < 1 || o.connections < 1 || o.lasts < time.Second {
		return o, fmt.Errorf("-rate and -connections must be 1 or more, and -lasts 1s or more")
	}
	o.setups = strings.Split(*names, ",")
	return o, nil
}

// webhookRow is how long senders wait, and workers behind them.
type webhookRow struct {
	Setup        string  `json:"setup"`
	Deliveries   int     `json:"deliveries"`
	Rate         float64 `json:"rate"` // a second, as they really came
	FromDue      spread  `json:"from_due"`
	FromRequest  spread  `json:"from_request"`
	Target       float64 `json:"target_p99_ms"`
	DrainSeconds float64 `json:"drain_seconds"` // from the last delivery until all were worked off
	CPU          float64 `json:"gateway_cpu_us"`
}

// webhooks measures how long signed deliveries take to be acknowledged while
// they are worked off, and that each becomes one run.
func webhooks(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseWebhooks(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "sallyport-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		if o.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	machine, err := newInstanceReport(dir)
	if err != nil {
		return err
	}
	var rows []webhookRow
	for _, s := range setups() {
		if !slices.Contains(o.setups, s.name) {
			continue
		}
		row, err := o.deliveries(ctx, s, filepath.Join(dir, s.name))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, row)
	}
	if o.json != "" {
		if err := save(o.json, rows); err != nil {
			return err
		}
	}
	if err := machine.table(out); err != nil {
		return err
	}
	return webhookTable(out, rows)
}

func webhookTable(w io.Writer, rows []webhookRow) error {
	fmt.Fprint(w, "\nSigned deliveries, each verified, kept and made a run; ms from when it was due, and from its request, to the 200:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "setup\tdeliveries\ta second\tfrom due: p50\tp90\tp99\tmax\tfrom request: p50\tp90\tp99\tmax\ttarget p99\ts to drain\tCPU µs each\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%s\t%s\t%.0f\t%.1f\t%.0f\t\n", r.Setup, r.Deliveries, r.Rate, r.FromDue, r.FromRequest, r.Target, r.DrainSeconds, r.CPU)
	}
	return t.Flush()
}

// deliveries takes the figures of one setup, with one process that does it all.
func (o *webhookOptions) deliveries(ctx context.Context, s setup, dir string) (row webhookRow, err error) {
	c := &cluster{}
	defer c.stop()
	_, args, err := c.services(ctx, s, o.dir)
	if err != nil {
		return row, err
	}
	g, err := startGateway(ctx, o.binary, dir, "serve", append(args, "--webhook-rate", "0")...)
	if err != nil {
		return row, err
	}
	c.gateways = append(c.gateways, g)
	to, err := g.trigger(ctx)
	if err != nil {
		return row, err
	}
	before, err := cpuTime(g.PID)
	if err != nil {
		return row, err
	}
	began := time.Now()
	fromDue, fromRequest, err := o.deliver(ctx, to)
	if err != nil {
		return row, err
	}
	ended := time.Now()
	row = webhookRow{
		Setup: s.name, Deliveries: len(fromDue), Rate: float64(len(fromDue)) / ended.Sub(began).Seconds(), Target: 15,
		FromDue: spreadOf(fromDue), FromRequest: spreadOf(fromRequest),
	}
	if err := g.drained(ctx); err != nil {
		return row, err
	}
	row.DrainSeconds = time.Since(ended).Seconds()
	after, err := cpuTime(g.PID)
	if err != nil {
		return row, err
	}
	row.CPU = float64((after - before).Microseconds()) / float64(row.Deliveries)
	fmt.Fprintf(os.Stderr, "%s: %d deliveries, p99 %.1f ms, drained within %.1f s\n", s.name, row.Deliveries, row.FromDue.P99, row.DrainSeconds)
	return row, g.oneRunEach(ctx, row.Deliveries)
}

// hook is where deliveries go to.
type hook struct{ url, secret string }

// trigger makes an automation that all deliveries start.
func (g *gateway) trigger(ctx context.Context) (to hook, err error) {
	var automation struct {
		ID string `json:"id"`
	}
	if err := g.api(ctx, "POST", "/api/v1/automations", map[string]any{"name": "bench"}, &automation); err != nil {
		return to, err
	}
	var made struct {
		URL    string `json:"url"`
		Secret string `json:"secret"`
	}
	err = g.api(ctx, "POST", "/api/v1/triggers", map[string]any{
		"automation": automation.ID, "provider": "github", "event_type": "issue", "config": map[string]any{"actions": []string{"opened"}},
	}, &made)
	return hook{made.URL, made.Secret}, err
}

// deliver sends deliveries at their times, however long others take, and
// returns how long each one took.
func (o *webhookOptions) deliver(ctx context.Context, to hook) (fromDue, fromRequest []time.Duration, err error) {
	n := int(o.lasts.Seconds() * float64(o.rate))
	fromDue, fromRequest = make([]time.Duration, n), make([]time.Duration, n)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: o.connections, MaxIdleConnsPerHost: o.connections}}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	began, gap := time.Now().Add(100*time.Millisecond), time.Second/time.Duration(o.rate)
	for range o.connections {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				request, err := o.delivery(ctx, to, i)
				if err != nil {
					stop(err)
					return
				}
				due := began.Add(time.Duration(i) * gap)
				time.Sleep(time.Until(due))
				sent := time.Now()
				if err := post(client, request); err != nil {
					stop(fmt.Errorf("delivery %d: %w", i, err))
					return
				}
				fromDue[i], fromRequest[i] = time.Since(due), time.Since(sent)
			}
		})
	}
	all.Wait()
	return fromDue, fromRequest, context.Cause(ctx)
}

// delivery is the i-th, as GitHub would send it.
func (o *webhookOptions) delivery(ctx context.Context, to hook, i int) (*http.Request, error) {
	body := fmt.Appendf(nil, `{"action":"opened","issue":{"id":%d,"number":%[1]d,"title":"Issue %[1]d","state":"open","html_url":"https://github.com/acme/site/issues/%[1]d",`+
		`"user":{"login":"ann","id":1,"type":"User"},"labels":[{"id":1,"name":"bug"}],"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","body":"`, i+1)
	const tail = `"},"repository":{"id":1,"full_name":"acme/site","name":"site","owner":{"login":"acme","id":2}},"sender":{"login":"ann","id":1,"type":"User"}}`
	for len(body) < o.bytes-len(tail) {
		body = append(body, "It happens each time that the page is opened twice. "...)
	}
	body = append(body, tail...)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(to.secret))
	mac.Write(body)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	request.Header.Set("X-Github-Event", "issues")
	request.Header.Set("X-Github-Delivery", fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

func post(client *http.Client, request *http.Request) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return err
}

// drained waits until nothing is left to be worked off.
func (g *gateway) drained(ctx context.Context) error {
	for _, status := range []string{"queued", "processing", "queued"} {
		for left := 1; left > 0; {
			var page struct {
				Total int `json:"total"`
			}
			if err := g.api(ctx, "GET", "/api/v1/deliveries?limit=1&status="+status, nil, &page); err != nil {
				return err
			}
			if left = page.Total; left > 0 {
				time.Sleep(500 * time.Millisecond) // counting what is left costs the gateway something, too
			}
		}
	}
	return nil
}

// oneRunEach fails unless there are so many runs, each of an event of its own.
func (g *gateway) oneRunEach(ctx context.Context, want int) error {
	events, runs := map[string]bool{}, 0
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				Event string `json:"event_id"`
			} `json:"items"`
			Next string `json:"next_cursor"`
		}
		if err := g.api(ctx, "GET", "/api/v1/runs?limit=100&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return err
		}
		for _, r := range page.Items {
			events[r.Event] = true
		}
		if runs, cursor = runs+len(page.Items), page.Next; cursor == "" {
			break
		}
	}
	if runs != want || len(events) != want {
		return fmt.Errorf("%d deliveries made %d runs of %d events", want, runs, len(events))
	}
	return nil
}
