package files_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store/files"
)

func TestBaseURL(t *testing.T) {
	for address, want := range map[string]string{
		"b|eu-central-1||":                                 "https://b.s3.eu-central-1.amazonaws.com",
		"b|cn-north-1||":                                   "https://b.s3.cn-north-1.amazonaws.com.cn",
		"b|eu-central-1||true":                             "https://s3.eu-central-1.amazonaws.com/b",
		"my.b|eu-central-1||":                              "https://s3.eu-central-1.amazonaws.com/my.b",
		"b|us-east-1|https://minio.example.com|":           "https://minio.example.com/b",
		"b|us-east-1|https://minio.example.com:443/s3/|":   "https://minio.example.com/s3/b",
		"b|us-east-1|http://10.0.0.1:9000|true":            "http://10.0.0.1:9000/b",
		"b|us-east-1|https://r2.example.com:8443|false":    "https://b.r2.example.com:8443",
		"b|us-east-1|https://user:secret@minio.example|":   "",
		"b|us-east-1|https://minio.example.com/?x=secret|": "",
	} {
		f := strings.Split(address, "|")
		got, err := files.BaseURL(f[0], f[1], f[2], f[3])
		if got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
	}
}

// A server that is busy refuses a body before it is sent, or fails a read.
func TestRequestsAreRetried(t *testing.T) {
	var requests atomic.Int32
	stored := ""
	s := open(t, serve(t, signed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%3 != 0 {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
			return
		}
		if r.Method == http.MethodPut {
			b, _ := io.ReadAll(r.Body)
			stored = string(b)
			return
		}
		fmt.Fprint(w, stored)
	}))))
	if err := s.Put(t.Context(), "k", strings.NewReader("hello"), 5, sum([]byte("hello"))); err != nil || stored != "hello" {
		t.Errorf("%q is stored, %v", stored, err)
	}
	if got := there(t, s, "k"); got != "hello" || requests.Load() != 6 {
		t.Errorf("got %q after %d requests", got, requests.Load())
	}
}

// A body that was read is gone; its sender has to send it again.
func TestSentBodyIsNotRetried(t *testing.T) {
	var requests atomic.Int32
	s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInternalServerError)
	})))
	err := s.Put(t.Context(), "k", strings.NewReader("hello"), 5, sum([]byte("hello")))
	if !errors.Is(err, action.ErrUnavailable) || requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

// Only a file that was read to its end is stored, whatever the server says.
func TestSuccessBeforeBodyIsAnError(t *testing.T) {
	s := open(t, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	if err := s.Put(t.Context(), "k", strings.NewReader("hello"), 5, sum([]byte("hello"))); !errors.Is(err, action.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		says   string
	}{
		"no bucket":      {404, "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>", "create the bucket"},
		"bad key":        {403, "<Error><Code>SignatureDoesNotMatch</Code><Message>It does not match.</Message></Error>", "AWS_SECRET_ACCESS_KEY"},
		"another region": {301, "<Error><Code>PermanentRedirect</Code><Message>Use the endpoint.</Message></Error>", "set region=\"eu-west-3\""},
		"a proxy":        {502, "<html>bad gateway", "502"},
	} {
		s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-3")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})))
		_, _, err := s.Get(t.Context(), "k")
		if !errors.Is(err, action.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary-secret") {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.RemoveAll(t.Context(), "k/"); !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("%s: removing: %v", name, err)
		}
	}
}

// What is no list, or not all of it, removes nothing silently.
func TestInvalidListings(t *testing.T) {
	for name, body := range map[string]string{
		"a page":       "<html></html>",
		"cut off":      "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
		"another's":    "<ListBucketResult><Contents><Key>other/k</Key></Contents></ListBucketResult>",
		"without end":  "<ListBucketResult><Contents>" + strings.Repeat("<Key>k/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</Key>", 200_000),
		"nothing else": "",
	} {
		s := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })))
		if err := s.RemoveAll(t.Context(), "k/"); !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Roles give keys that end, from where each platform has them.
func TestRoleCredentials(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("identity\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string // URL stands for that of the platform
		want []string          // what the platform was asked
	}{
		"web identity": {
			map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": "URL/sts"},
			[]string{"POST /sts AssumeRoleWithWebIdentity arn:role identity"},
		},
		"container": {
			map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "URL/keys", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token},
			[]string{"GET /keys identity"},
		},
		"instance": {
			map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "URL"},
			[]string{"PUT /latest/api/token", "GET /latest/meta-data/iam/security-credentials/ session", "GET /latest/meta-data/iam/security-credentials/role session"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			lives := time.Hour
			platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, strings.TrimSpace(strings.Join([]string{
					r.Method, r.URL.Path, r.PostFormValue("Action"), r.PostFormValue("RoleArn"), r.PostFormValue("WebIdentityToken"), r.Header.Get("Authorization") + r.Header.Get("X-Aws-Ec2-Metadata-Token"),
				}, " ")))
				asked[len(asked)-1] = strings.Join(strings.Fields(asked[len(asked)-1]), " ")
				until := time.Now().Add(lives).UTC().Format(time.RFC3339)
				switch {
				case strings.HasSuffix(r.URL.Path, "/token"):
					fmt.Fprint(w, "session")
				case strings.HasSuffix(r.URL.Path, "-credentials/"):
					fmt.Fprint(w, "role\n")
				case r.URL.Path == "/sts":
					fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>test</AccessKeyId><SecretAccessKey>canary-secret</SecretAccessKey><SessionToken>session</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, until)
				default:
					fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"test","SecretAccessKey":"canary-secret","Token":"session","Expiration":%q}`, until)
				}
			}))
			t.Cleanup(platform.Close)
			at := serve(t, signed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>")
			})))
			for _, fixed := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
				t.Setenv(fixed, "")
			}
			for name, value := range c.env {
				t.Setenv(name, strings.ReplaceAll(value, "URL", platform.URL))
			}
			s := open(t, at)
			for range 2 { // the second is from memory
				if got := there(t, s, "k"); got != "nothing" {
					t.Errorf("k is %q", got)
				}
			}
			if got, want := strings.Join(asked, "\n"), strings.Join(c.want, "\n"); got != want {
				t.Errorf("the platform was asked\n%s\nwant\n%s", got, want)
			}
			// Keys that end soon are asked for each time; without the platform they
			// serve to their end.
			s, lives, asked = open(t, at), time.Minute, nil
			for range 2 {
				there(t, s, "k")
			}
			if len(asked) != 2*len(c.want) {
				t.Errorf("the platform was asked %d times", len(asked))
			}
			platform.Close()
			if got := there(t, s, "k"); got != "nothing" {
				t.Errorf("k is %q", got)
			}
			if _, _, err := open(t, at).Get(t.Context(), "k"); !errors.Is(err, action.ErrUnavailable) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
				t.Errorf("without the platform: %v", err)
			}
		})
	}
}

func TestInvalidCredentials(t *testing.T) {
	for _, fixed := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(fixed, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if _, err := files.Open(t.Context(), "s3://b?region=x"); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("without any: %v", err)
	}
	// The token of a container must not travel in the clear.
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys")
	if _, err := files.Open(t.Context(), "s3://b?region=x"); err == nil {
		t.Error("an agent elsewhere was taken")
	}
}
