package cloudlogs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"sallyport/internal/guard"
)

// googleCloud reads the entries of a project in Google Cloud Logging.
type googleCloud struct {
	service, project, filter string
	endpoint                 *url.URL
	http                     *http.Client
	tokens                   googleTokens
}

// https://cloud.google.com/resource-manager/docs/creating-managing-projects
var validProject = regexp.MustCompile(`^[a-z][a-z0-9:.-]{4,62}[a-z0-9]$`)

func openGoogleCloud(name, project string, q url.Values) (backend, error) {
	if err := checkOptions(name, q, "filter", "endpoint"); err != nil {
		return nil, err
	}
	if !validProject.MatchString(project) {
		return nil, fmt.Errorf("the service %q has the project %q; write gcloud:my-project?filter=…", name, project)
	}
	u, err := guard.CheckURL(cmp.Or(q.Get("endpoint"), "https://logging.googleapis.com"))
	if err != nil {
		return nil, fmt.Errorf("the service %q: endpoint: %w", name, err)
	}
	b := &googleCloud{service: name, project: project, filter: q.Get("filter"), endpoint: u.JoinPath("v2", "entries:list"), http: guard.OperatorClient(u)}
	if err := b.tokens.open(); err != nil {
		return nil, fmt.Errorf("the service %q: %w", name, err)
	}
	return b, nil
}

func (b *googleCloud) describe() Service { return Service{Name: b.service, Kind: "gcloud"} }

// listEntries is the request of entries.list.
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
type listEntries struct {
	Resources []string `json:"resourceNames"`
	Filter    string   `json:"filter"`
	Order     string   `json:"orderBy"`
	Size      int      `json:"pageSize"`
	Token     string   `json:"pageToken,omitempty"`
}

// googlePage is the number of entries that are read at once; most match unless the query
// has a text or fields.
const googlePage = 200

func (b *googleCloud) query(ctx context.Context, q *Query, r *result) error {
	conditions := []string{
		`timestamp >= "` + q.Since.Format(time.RFC3339Nano) + `"`,
		`timestamp <= "` + r.latest(q).Format(time.RFC3339Nano) + `"`,
	}
	if q.Level > 0 {
		conditions = append(conditions, "severity >= "+[]string{"DEBUG", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL"}[q.Level-1])
	}
	request := b.request(conditions...)
	for {
		page, token, err := b.entries(ctx, request)
		if err != nil {
			return err
		}
		for _, raw := range page {
			key, d, cut := parseGoogleEntry(raw)
			if !r.offer(q, key, raw, d, cut) {
				return nil
			}
		}
		if request.Token = token; token == "" {
			return nil
		}
	}
}

// parseGoogleEntry parses a LogEntry. Its key is its insert ID, which is unique among
// the entries of a log with its time.
func parseGoogleEntry(raw []byte) (key string, d parsedRecord, cut bool) {
	if len(raw) > maxRecord {
		raw, cut = raw[:maxRecord], true
	}
	d = jsonLines.parse(raw)
	_, key = firstField(d.fields, "insertId")
	_, d.message = firstField(d.fields, "textPayload", "jsonPayload.message", "jsonPayload.msg", "protoPayload.status.message", "protoPayload.methodName")
	return key, d, cut
}

// validInsertID are the IDs that Google Cloud and its agents make; others cannot be quoted
// in a filter safely.
var validInsertID = regexp.MustCompile(`^[A-Za-z0-9._~+/=:*-]+$`)

const maxInsertID = 512

func (b *googleCloud) entry(ctx context.Context, text string) (Entry, error) {
	id, ok := parseRemoteID(text)
	if !ok || len(id.key) > maxInsertID || !validInsertID.MatchString(id.key) {
		return Entry{}, unknownEntry()
	}
	page, _, err := b.entries(ctx, b.request(`timestamp = "`+id.time.Format(time.RFC3339Nano)+`"`, `insertId = "`+id.key+`"`))
	if err != nil {
		return Entry{}, err
	}
	for _, raw := range page {
		if key, d, cut := parseGoogleEntry(raw); key == id.key {
			return remoteEntry(b.service, key, d, cut), nil
		}
	}
	return Entry{}, unknownEntry()
}

// request returns the request for entries that satisfy the conditions and the filter of
// the operator, which cannot leave its parentheses.
func (b *googleCloud) request(conditions ...string) *listEntries {
	if b.filter != "" {
		conditions = append(conditions, "("+b.filter+"\n)")
	}
	return &listEntries{[]string{"projects/" + b.project}, strings.Join(conditions, " AND "), "timestamp desc", googlePage, ""}
}

func (b *googleCloud) entries(ctx context.Context, request *listEntries) ([]json.RawMessage, string, error) {
	token, err := b.tokens.get(ctx)
	if err != nil {
		return nil, "", unreachable("Google Cloud Logging", err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	var answer struct {
		Entries []json.RawMessage `json:"entries"`
		Token   string            `json:"nextPageToken"`
	}
	err = send(b.http, r, "Google Cloud Logging", &answer)
	return answer.Entries, answer.Token, err
}

// googleTokens are access tokens of a service account: from the key file that
// GOOGLE_APPLICATION_CREDENTIALS names, or from the metadata server of a machine in
// Google Cloud.
type googleTokens struct {
	fetch func(ctx context.Context) (*oauth2.Token, error)

	mu      sync.Mutex
	current *oauth2.Token
}

const googleScope = "https://www.googleapis.com/auth/logging.read"

func (t *googleTokens) open() error {
	path := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	if path == "" {
		u, err := guard.CheckURL("http://" + cmp.Or(os.Getenv("GCE_METADATA_HOST"), "169.254.169.254") + "/computeMetadata/v1/instance/service-accounts/default/token?scopes=" + url.QueryEscape(googleScope))
		if err != nil {
			return fmt.Errorf("GCE_METADATA_HOST: %w", err)
		}
		c := guard.OperatorClient(u, "169.254.169.254/32", "fd20:ce::254/128")
		t.fetch = func(ctx context.Context) (*oauth2.Token, error) { return metadataToken(ctx, c, u) }
		return nil
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("GOOGLE_APPLICATION_CREDENTIALS: %w", err)
	}
	var key struct {
		Type     string `json:"type"`
		Email    string `json:"client_email"`
		KeyID    string `json:"private_key_id"`
		Key      string `json:"private_key"`
		TokenURL string `json:"token_uri"`
	}
	if json.Unmarshal(file, &key) != nil || key.Type != "service_account" || key.Key == "" { // the error may quote the key
		return fmt.Errorf("GOOGLE_APPLICATION_CREDENTIALS: %s is not the key file of a service account", path)
	}
	u, err := guard.CheckURL(cmp.Or(key.TokenURL, "https://oauth2.googleapis.com/token"))
	if err != nil {
		return fmt.Errorf("GOOGLE_APPLICATION_CREDENTIALS: token_uri: %w", err)
	}
	c := &jwt.Config{Email: key.Email, PrivateKey: []byte(key.Key), PrivateKeyID: key.KeyID, Scopes: []string{googleScope}, TokenURL: u.String()}
	via := guard.OperatorClient(u)
	t.fetch = func(ctx context.Context) (*oauth2.Token, error) {
		return c.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, via)).Token()
	}
	return nil
}

// metadataToken fetches a token from a machine's metadata server.
// https://cloud.google.com/compute/docs/access/authenticate-workloads
func metadataToken(ctx context.Context, c *http.Client, u *url.URL) (*oauth2.Token, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Metadata-Flavor", "Google")
	resp, err := c.Do(r)
	if err != nil {
		return nil, fmt.Errorf("this machine has no metadata server, so set GOOGLE_APPLICATION_CREDENTIALS: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(guard.LimitBody(resp.Body, 64<<10))
	var t struct {
		Token   string `json:"access_token"`
		Expires int64  `json:"expires_in"`
	}
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the metadata server answered %d", resp.StatusCode)
	case json.Unmarshal(body, &t) != nil || t.Token == "": // the error may quote the token
		return nil, errors.New("the metadata server's answer has no token")
	}
	return &oauth2.Token{AccessToken: t.Token, Expiry: time.Now().Add(time.Duration(t.Expires) * time.Second)}, nil
}

// get returns a token that is valid for a minute at least.
func (t *googleTokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil || time.Until(t.current.Expiry) < time.Minute {
		next, err := t.fetch(ctx)
		if err != nil {
			var refused *oauth2.RetrieveError
			if errors.As(err, &refused) { // its text has the whole response
				err = fmt.Errorf("the token endpoint answered %s (%.100q)", refused.Response.Status, refused.ErrorCode)
			}
			return "", fmt.Errorf("obtaining a token of Google Cloud: %w", err)
		}
		t.current = next
	}
	return t.current.AccessToken, nil
}
