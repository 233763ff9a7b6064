package cloudlogs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// backend reads the logs of one service. Errors that agents can act on are of type
// [*sources.Refusal].
type backend interface {
	// describe returns what is known without reading entries.
	describe() Service
	// query offers the entries that the query selects to its result.
	query(ctx context.Context, q *Query, result *result) error
	// entry returns the entry with an ID that is encoded by its backend.
	entry(ctx context.Context, id string) (Entry, error)
}

// result collects the newest entries of a query.
type result struct {
	top                 topEntries
	untimed, unreadable int
}

// latest returns the latest relevant time of a query, which is that of the cursor from the
// second page on.
func (r *result) latest(q *Query) time.Time {
	if r.top.after != nil && r.top.after.timestamp().Before(q.Until) {
		return r.top.after.timestamp()
	}
	return q.Until
}

// openBackend returns the backend of an address: journald:, cloudwatch: or gcloud:, or a
// path or pattern of files.
func openBackend(c *Config, name, address string) (backend, error) {
	scheme, rest, found := strings.Cut(address, ":")
	switch {
	case !found:
	case scheme == "journald" || scheme == "cloudwatch" || scheme == "gcloud":
		u, err := url.Parse(address)
		if err != nil || u.Host != "" || u.Fragment != "" {
			return nil, fmt.Errorf("the service %q has %q; write %s:NAME?option=value, with %% escapes", name, address, scheme)
		}
		rest, _, _ = strings.Cut(rest, "?")
		if rest, err = url.PathUnescape(rest); err != nil {
			return nil, fmt.Errorf("the service %q has %q: %w", name, address, err)
		}
		switch scheme {
		case "journald":
			return openJournal(name, rest, u.Query())
		case "cloudwatch":
			return openCloudWatch(name, rest, u.Query())
		}
		return openGoogleCloud(name, rest, u.Query())
	}
	return openFiles(c, name, address)
}

// checkOptions refuses options that a backend does not have.
func checkOptions(name string, q url.Values, known ...string) error {
	for option := range q {
		if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+option+" ") {
			return fmt.Errorf("the service %q has the option %q; the options are %s", name, option, strings.Join(known, ", "))
		}
	}
	return nil
}

// offer adds an entry that a remote service identifies by key to the result if it matches.
// It reports whether older entries may still be wanted.
func (r *result) offer(q *Query, key string, raw []byte, d parsedRecord, cut bool) bool {
	if d.time.IsZero() {
		r.untimed++
		return true
	}
	if d.time.Before(q.Since) || d.time.After(q.Until) || !d.matches(q, raw) {
		return !d.time.Before(q.Since.Add(-clockSkew))
	}
	p := position{time: d.time.UnixNano(), file: digestOf([]byte(key))}
	if r.top.wants(p) {
		r.top.add(rankedEntry{p, remoteEntry(q.Service, key, d, cut), len(raw) + len(d.message)})
	}
	return r.top.dropped == nil || d.time.After(r.top.dropped.timestamp().Add(-clockSkew))
}

// remoteEntry returns the entry with the key.
func remoteEntry(service, key string, d parsedRecord, cut bool) Entry {
	return Entry{
		ID: remoteID{service, d.time, key}.String(), Service: service, Time: d.time,
		Level: d.level.String(), Message: strings.Clone(d.message), Fields: d.encodeFields(), Cut: cut,
	}
}

// remoteID locates an entry of a remote service by its time and the service's own key.
type remoteID struct {
	service string
	time    time.Time
	key     string
}

func (i remoteID) String() string {
	b := append([]byte{kindRemoteID}, byte(len(i.service))) //nolint:gosec // a name has at most 64 characters
	b = append(b, i.service...)
	b = binary.BigEndian.AppendUint64(b, uint64(i.time.UnixNano())) //nolint:gosec // read back the same way
	return base64.RawURLEncoding.EncodeToString(append(b, i.key...))
}

// parseRemoteID parses the result of [remoteID.String].
func parseRemoteID(s string) (i remoteID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 2 || b[0] != kindRemoteID || len(b) < 2+int(b[1])+8 {
		return i, false
	}
	i.service, b = string(b[2:2+b[1]]), b[2+b[1]:]
	i.time = time.Unix(0, int64(binary.BigEndian.Uint64(b))).UTC() //nolint:gosec // see String
	i.key = string(b[8:])
	return i, i.key != "" && i.String() == s
}

// serviceOf returns the service in the ID of an entry.
func serviceOf(text string) (string, bool) {
	if i, ok := parseID(text); ok {
		return i.service, true
	}
	i, ok := parseRemoteID(text)
	return i.service, ok
}

const maxResponse = 16 << 20

// send sends a request and decodes its answer. title is the name of the service in errors.
func send(c *http.Client, r *http.Request, title string, answer any) error {
	resp, err := c.Do(r)
	if err != nil {
		if r.Context().Err() != nil {
			return r.Context().Err()
		}
		return unreachable(title, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(guard.LimitBody(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", title, err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, answer); err != nil {
			return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "%s sent an answer that is not valid JSON. Try again.", title)
		}
		return nil
	}
	return remoteRefusal(title, resp.StatusCode, body)
}

func unreachable(title string, err error) error {
	return action.Errorf(action.ErrUnavailable, sources.FaultUnreachable, "%s cannot be reached. Tell the user that the gateway's operator must check its network and credentials.", title).WithCause(err)
}

// remoteRefusal converts an error response of AWS ({"__type", "message"}) or Google
// ({"error": {"status", "message"}}).
func remoteRefusal(title string, status int, body []byte) error {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
		Error   struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &e) // not every answer has it
	_, code, _ := strings.Cut("#"+e.Type+e.Error.Status, "#")
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	no := &sources.Refusal{Code: code, Status: status, Detail: e.Message + e.Error.Message}
	switch {
	case status == http.StatusTooManyRequests, code == "ThrottlingException":
		no.Status, no.Message = http.StatusTooManyRequests, title+" limits requests. Wait a minute, or ask for a shorter time."
	case status == http.StatusUnauthorized, status == http.StatusForbidden, strings.Contains(code, "AccessDenied"), code == "UnrecognizedClientException", code == "ExpiredTokenException", code == "InvalidSignatureException":
		no.Message = title + " refused the gateway's credentials. Tell the user that the gateway's operator must check them and their permissions."
	case status == http.StatusNotFound, code == "ResourceNotFoundException":
		no.Message = title + " does not have the logs that are configured for this service. Tell the user that the gateway's operator must check their name."
	default:
		no.Message = title + " refused the query. Try a shorter time; if it is refused again, tell the user."
	}
	return no
}
