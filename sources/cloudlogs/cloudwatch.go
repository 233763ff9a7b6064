package cloudlogs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"time"

	"sallyport/internal/aws"
	"sallyport/internal/guard"
)

// cloudWatch reads a log group of Amazon CloudWatch Logs.
type cloudWatch struct {
	service, group, stream string // stream: the prefix of its streams' names; empty: all
	region                 string
	endpoint               *url.URL
	credentials            *aws.Credentials
	http                   *http.Client
}

// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
//
// Lengths are checked apart from the patterns: a pattern that counts to 512 takes 10 ms
// to compile, at each start of the program.
const maxGroup = 512

var (
	validGroup  = regexp.MustCompile(`^[.\-_/#A-Za-z0-9]+$`)
	validRegion = regexp.MustCompile(`^[a-z0-9-]+$`)
)

func openCloudWatch(name, group string, q url.Values) (backend, error) {
	if err := checkOptions(name, q, "region", "stream", "endpoint"); err != nil {
		return nil, err
	}
	if len(group) > maxGroup || !validGroup.MatchString(group) {
		return nil, fmt.Errorf("the service %q has the log group %q; write cloudwatch:/aws/lambda/api?region=eu-central-1", name, group)
	}
	region := cmp.Or(q.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if !validRegion.MatchString(region) {
		return nil, fmt.Errorf("the service %q needs a region: cloudwatch:%s?region=eu-central-1, or AWS_REGION", name, group)
	}
	u, err := guard.CheckURL(cmp.Or(q.Get("endpoint"), "https://logs."+region+"."+aws.Domain(region)))
	if err != nil {
		return nil, fmt.Errorf("the service %q: endpoint: %w", name, err)
	}
	c, err := aws.NewCredentials(region)
	if err != nil {
		return nil, fmt.Errorf("the service %q: %w", name, err)
	}
	u.Path = "/"
	return &cloudWatch{name, group, q.Get("stream"), region, u, c, guard.OperatorClient(u)}, nil
}

func (b *cloudWatch) describe() Service { return Service{Name: b.service, Kind: "cloudwatch"} }

// filterEvents is the request of FilterLogEvents. Times are Unix milliseconds, both
// inclusive.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
type filterEvents struct {
	Group  string `json:"logGroupName"`
	Stream string `json:"logStreamNamePrefix,omitempty"`
	Start  int64  `json:"startTime"`
	End    int64  `json:"endTime"`
	Token  string `json:"nextToken,omitempty"`
}

type cloudWatchEvent struct {
	ID        string `json:"eventId"`
	Timestamp int64  `json:"timestamp"`
	Message   string `json:"message"`
}

// query reads backward in windows of growing length, because the service returns the
// oldest entries first.
func (b *cloudWatch) query(ctx context.Context, q *Query, r *result) error {
	from, to := q.Since.UnixMilli(), r.latest(q).UnixMilli()
	for span := time.Minute.Milliseconds(); to >= from; span *= 4 {
		start := max(from, to-span+1)
		if err := b.window(ctx, q, r, start, to); err != nil {
			return err
		}
		to = start - 1
		if len(r.top.list) >= q.Limit { // what is older is on the next page
			if to >= from && r.top.dropped == nil {
				r.top.dropped = &position{time: time.UnixMilli(to).UnixNano()}
			}
			return nil
		}
	}
	return nil
}

// maxWindowPages bounds the pages that are read of a window before it is halved.
const maxWindowPages = 4

// window offers the entries of a time window.
func (b *cloudWatch) window(ctx context.Context, q *Query, r *result, from, to int64) error {
	var events []cloudWatchEvent
	request := filterEvents{Group: b.group, Stream: b.stream, Start: from, End: to}
	for pages := 1; ; pages++ {
		page, token, err := b.events(ctx, &request)
		if err != nil {
			return err
		}
		events = append(events, page...)
		if token == "" {
			break
		}
		if pages >= maxWindowPages && to > from {
			middle := from + (to-from)/2
			if err := b.window(ctx, q, r, middle+1, to); err != nil || r.top.dropped != nil {
				return err
			}
			return b.window(ctx, q, r, from, middle)
		}
		request.Token = token
	}
	for _, e := range events {
		b.offer(q, r, &e)
	}
	return nil
}

func (b *cloudWatch) offer(q *Query, r *result, e *cloudWatchEvent) {
	raw, cut := []byte(e.Message), false
	if len(raw) > maxRecord {
		raw, cut = raw[:maxRecord], true
	}
	d := jsonLines.parse(raw)
	d.time = time.UnixMilli(e.Timestamp).UTC()
	r.offer(q, e.ID, raw, d, cut)
}

// entry reads the events of the entry's millisecond, because the service does not find
// events by ID.
func (b *cloudWatch) entry(ctx context.Context, text string) (Entry, error) {
	id, ok := parseRemoteID(text)
	if !ok {
		return Entry{}, unknownEntry()
	}
	at := id.time.UnixMilli()
	q := &Query{Service: b.service, Since: id.time, Until: id.time}
	request := filterEvents{Group: b.group, Stream: b.stream, Start: at, End: at}
	for {
		page, token, err := b.events(ctx, &request)
		if err != nil {
			return Entry{}, err
		}
		for _, e := range page {
			if e.ID == id.key {
				r := &result{top: topEntries{limit: 1}}
				b.offer(q, r, &e)
				if len(r.top.list) == 1 {
					return r.top.list[0].entry, nil
				}
			}
		}
		if request.Token = token; token == "" {
			return Entry{}, unknownEntry()
		}
	}
}

// events returns a page of events and the token of the next page.
func (b *cloudWatch) events(ctx context.Context, request *filterEvents) ([]cloudWatchEvent, string, error) {
	keys, err := b.credentials.Keys(ctx)
	if err != nil {
		return nil, "", unreachable("CloudWatch Logs", err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Logs_20140328.FilterLogEvents")
	sum := sha256.Sum256(body)
	keys.Sign(r, "logs", b.region, hex.EncodeToString(sum[:]), time.Now())
	var answer struct {
		Events []cloudWatchEvent `json:"events"`
		Token  string            `json:"nextToken"`
	}
	err = send(b.http, r, "CloudWatch Logs", &answer)
	return answer.Events, answer.Token, err
}
