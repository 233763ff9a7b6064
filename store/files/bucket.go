package files

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"sallyport/internal/aws"
	"sallyport/internal/guard"
)

const (
	maxAttempts     = 3
	maxListingBytes = 8 << 20 // a page has at most 1,000 keys of 1,024 bytes
)

// bucket stores keys in an S3 bucket, or below a prefix of one.
type bucket struct {
	base        *url.URL // of the bucket, without a slash at the end
	region      string
	prefix      string
	credentials *aws.Credentials
	http        *http.Client
}

func openBucket(u *url.URL) (*bucket, error) {
	q := u.Query()
	for name := range q {
		if name != "region" && name != "endpoint" && name != "path_style" && name != "prefix" {
			return nil, fmt.Errorf("the bucket URL of --evidence accepts region, endpoint, path_style and prefix, not %q", name)
		}
	}
	if u.Host == "" || u.User != nil || u.Path != "" {
		return nil, errors.New("the bucket URL of --evidence must be s3://bucket?region=…; set credentials in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)")
	}
	if strings.ContainsFunc(u.Host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_", r)
	}) {
		return nil, fmt.Errorf("the bucket name of --evidence can have only letters, digits, dots, hyphens and underscores, unlike %q", u.Host)
	}
	region := cmp.Or(q.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" || strings.ContainsFunc(region, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }) {
		return nil, errors.New("the bucket URL of --evidence needs a region: s3://bucket?region=eu-central-1, or AWS_REGION; most servers other than Amazon's accept us-east-1")
	}
	base, err := baseURL(u.Host, region, q.Get("endpoint"), q.Get("path_style"))
	if err != nil {
		return nil, err
	}
	c, err := aws.NewCredentials(region)
	if err != nil {
		return nil, err
	}
	return &bucket{base: base, region: region, prefix: q.Get("prefix"), credentials: c, http: guard.OperatorClient(base)}, nil
}

// baseURL names the bucket in the host, or in the path where TLS certificates or
// the endpoint do not allow that.
func baseURL(name, region, endpoint, style string) (*url.URL, error) {
	path := style == "true" || endpoint != "" && style != "false" || strings.ContainsAny(name, "._") || name != strings.ToLower(name)
	if endpoint == "" {
		endpoint = "https://s3." + region + "." + aws.Domain(region)
	}
	u, err := guard.CheckURL(endpoint)
	if err != nil || u.RawQuery != "" {
		return nil, errors.New("the endpoint in --evidence must be a URL such as https://minio.example.com")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.Host = strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	if path {
		u.Path += "/" + name
	} else {
		u.Host = name + "." + u.Host
	}
	return u, nil
}

func (b *bucket) put(ctx context.Context, key string, body *upload) error {
	if body.size == 0 { // net/http would send a body of unknown length
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
	}
	r, err := b.do(ctx, http.MethodPut, key, nil, body)
	if err != nil {
		return err
	}
	return drain(r)
}

func (b *bucket) get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, err := b.do(ctx, http.MethodGet, key, nil, nil)
	if err != nil {
		return nil, 0, err
	}
	if r.ContentLength < 0 {
		return nil, 0, errors.Join(errors.New("the server does not return the size of the file"), r.Body.Close())
	}
	return r.Body, r.ContentLength, nil
}

// listing is a page of ListObjectsV2.
type listing struct {
	XMLName   xml.Name `xml:"ListBucketResult"`
	Keys      []string `xml:"Contents>Key"`
	Truncated bool     `xml:"IsTruncated"`
	Next      string   `xml:"NextContinuationToken"`
}

func (b *bucket) removeAll(ctx context.Context, dir string) error {
	q := url.Values{"list-type": {"2"}, "prefix": {b.prefix + dir + "/"}}
	for {
		r, err := b.do(ctx, http.MethodGet, "", q, nil)
		if err != nil {
			return err
		}
		var page listing
		err = xml.NewDecoder(guard.LimitBody(r.Body, maxListingBytes)).Decode(&page)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return fmt.Errorf("reading the list of keys: %w", err)
		}
		for _, key := range page.Keys {
			key, ok := strings.CutPrefix(key, b.prefix)
			if !ok || !strings.HasPrefix(key, dir+"/") {
				return fmt.Errorf("the server lists %q, which is not below %q", key, dir)
			}
			r, err := b.do(ctx, http.MethodDelete, key, nil, nil)
			if err == nil {
				err = drain(r)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		switch {
		case !page.Truncated:
			return nil
		case page.Next == "":
			return errors.New("the server lists only some of the keys; it does not support ListObjectsV2")
		}
		q.Set("continuation-token", page.Next)
	}
}

func (b *bucket) close() error {
	b.http.CloseIdleConnections()
	return nil
}

// do sends a request for a key, or for the bucket, and returns a response of
// success. Every request is idempotent; one whose body was read is not repeated.
func (b *bucket) do(ctx context.Context, method, key string, query url.Values, body *upload) (*http.Response, error) {
	k, err := b.credentials.Keys(ctx)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		r, err := b.attempt(ctx, k, method, key, query, body)
		if err == nil {
			return r, nil
		}
		var refused *serverError
		temporary := !errors.Is(err, guard.ErrBlocked)
		if errors.As(err, &refused) {
			temporary = refused.status == http.StatusTooManyRequests || refused.status >= 500
		}
		if !temporary || attempt == maxAttempts || body != nil && body.size > 0 && !body.unread() {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(attempt) * (100*time.Millisecond + rand.N(100*time.Millisecond))):
		}
	}
}

// attempt sends a request.
func (b *bucket) attempt(ctx context.Context, k aws.Keys, method, key string, query url.Values, body *upload) (*http.Response, error) {
	u := *b.base
	u.Path += "/"
	if key != "" {
		u.Path += b.prefix + key
	}
	u.RawPath, u.RawQuery = aws.EscapePath(u.Path), aws.EscapeQuery(query)
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	sum := aws.EmptySum
	if body != nil {
		sum = body.sum
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	k.Sign(r, "s3", b.region, sum, time.Now())
	if body != nil && body.size > 0 {
		r.Body, r.ContentLength = io.NopCloser(body), body.size
		// The server can refuse before the body is sent, and the request be repeated.
		r.Header.Set("Expect", "100-continue")
	}
	answer, err := b.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, newServerError(answer)
	}
	return answer, nil
}

// serverError is an error that the server answered with.
type serverError struct {
	status        int
	Code, Message string
	region        string
}

func newServerError(r *http.Response) error {
	e := &serverError{status: r.StatusCode, region: r.Header.Get("X-Amz-Bucket-Region")}
	_ = xml.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(e) // not every answer has it
	_ = r.Body.Close()
	return e
}

// Error implements error. What a server answers may hold a key's id, but no secret.
func (e *serverError) Error() string {
	text := fmt.Sprintf("the server answered %d", e.status)
	if e.Code != "" {
		text += fmt.Sprintf(" (%.100q: %.300q)", e.Code, e.Message)
	}
	switch {
	case e.status/100 == 3 && e.region != "":
		return text + fmt.Sprintf("; the bucket is in another region, set region=%.50q", e.region)
	case e.status == http.StatusForbidden:
		return text + "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the region, this machine's clock, and that s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket are allowed"
	case e.Code == "NoSuchBucket":
		return text + "; create the bucket or correct its name"
	}
	return text
}

// Is makes a missing key, but not a missing bucket, an [fs.ErrNotExist].
func (e *serverError) Is(target error) bool {
	return target == fs.ErrNotExist && e.status == http.StatusNotFound && e.Code != "NoSuchBucket"
}

// drain reads a short response to its end, so that its connection is used again.
func drain(r *http.Response) error {
	_, err := io.Copy(io.Discard, io.LimitReader(r.Body, 64<<10))
	return errors.Join(err, r.Body.Close())
}
