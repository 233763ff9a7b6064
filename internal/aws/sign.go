// Package aws signs requests to Amazon's APIs, and to servers that speak them, with the
// credentials of the environment.
package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// EmptySum is the SHA-256 of no bytes.
const EmptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Keys are credentials for AWS's APIs. Token is empty unless they are temporary.
type Keys struct{ ID, Secret, Token string }

// Sign adds an AWS Signature Version 4 for a service, such as s3 or logs, over the host,
// the path, the query and every header that is set, for a body with the hex SHA-256 sum.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
func (k Keys) Sign(r *http.Request, service, region, sum string, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", sum)
	if k.Token != "" {
		r.Header.Set("X-Amz-Security-Token", k.Token)
	}
	headers := map[string]string{"host": r.URL.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.TrimSpace(values[0])
	}
	names := slices.Sorted(maps.Keys(headers))
	var canonical strings.Builder
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery} {
		canonical.WriteString(part + "\n")
	}
	for _, name := range names {
		canonical.WriteString(name + ":" + headers[name] + "\n")
	}
	signed := strings.Join(names, ";")
	canonical.WriteString("\n" + signed + "\n" + sum)

	date, scope := stamp[:8], stamp[:8]+"/"+region+"/"+service+"/aws4_request"
	hashed := sha256.Sum256([]byte(canonical.String()))
	key := []byte("AWS4" + k.Secret)
	for _, part := range []string{date, region, service, "aws4_request"} {
		key = mac(key, part)
	}
	signature := mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(hashed[:]))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.ID+"/"+scope+",SignedHeaders="+signed+",Signature="+hex.EncodeToString(signature))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// EscapePath escapes a path as Signature Version 4 does: all but letters, digits and
// -._~ between its slashes.
func EscapePath(key string) string {
	segments := strings.Split(key, "/")
	for i, segment := range segments {
		segments[i] = strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
	}
	return strings.Join(segments, "/")
}

// EscapeQuery returns the canonical query string: sorted, with %20 for a space.
func EscapeQuery(q url.Values) string { return strings.ReplaceAll(q.Encode(), "+", "%20") }
