package interop_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"sallyport/action"
	"sallyport/store/files"
)

// onBoth runs a test on a folder, and on a server that speaks S3.
func onBoth(t *testing.T, test func(t *testing.T, s *files.Store)) {
	t.Run("folder", func(t *testing.T) { test(t, open(t, "file://"+filepath.Join(t.TempDir(), "new", "evidence"))) })
	t.Run("S3", func(t *testing.T) { test(t, open(t, bucket(t))) })
}

// bucket is a real server with an empty bucket.
func bucket(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("evidence"); err != nil {
		t.Fatal(err)
	}
	return serve(t, signed(gofakes3.New(backend).Server())) + "&prefix=gate/"
}

// serve starts a server and returns the address of a bucket there, with fixed
// credentials in the environment.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	return "s3://evidence?region=eu-central-1&endpoint=" + server.URL
}

// signed refuses requests whose signature is not that which Amazon's own library
// gives them as they arrived.
func signed(next http.Handler) http.Handler {
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // as for S3
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claimed := r.Header.Get("Authorization")
		_, rest, _ := strings.Cut(claimed, "SignedHeaders=")
		names, _, _ := strings.Cut(rest, ",")
		again := &http.Request{Method: r.Method, Header: http.Header{}, URL: &url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}}
		for name := range strings.SplitSeq(names, ";") {
			if name != "host" {
				again.Header.Set(name, r.Header.Get(name))
			}
		}
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err == nil {
			keys := aws.Credentials{AccessKeyID: "test", SecretAccessKey: "canary-secret", SessionToken: "session"}
			err = signer.SignHTTP(r.Context(), keys, again, r.Header.Get("X-Amz-Content-Sha256"), "s3", "eu-central-1", at)
		}
		// The library writes a space after each comma.
		if err != nil || strings.ReplaceAll(again.Header.Get("Authorization"), ", ", ",") != claimed || r.Header.Get("X-Amz-Security-Token") != "session" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match.</Message></Error>`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func open(t *testing.T, url string) *files.Store {
	t.Helper()
	s, err := files.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func there(t *testing.T, s *files.Store, key string) string {
	t.Helper()
	r, size, err := s.Get(t.Context(), key)
	if errors.Is(err, action.ErrNotFound) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != size {
		t.Fatalf("%d of %d bytes, %v", len(b), size, err)
	}
	return string(b)
}

func TestWhatIsPutIsThere(t *testing.T) {
	onBoth(t, func(t *testing.T, s *files.Store) {
		big := bytes.Repeat([]byte("0123456789abcdef"), 700_000)
		for key, b := range map[string][]byte{"o/s/u/empty": {}, "o/s/u/small": []byte("hello"), "o/s/u/big": big, "o/s/u/a +%&ü": big[:1]} {
			if err := s.Put(t.Context(), key, bytes.NewReader(b), int64(len(b)), sum(b)); err != nil {
				t.Fatal(err)
			}
			if got := there(t, s, key); got != string(b) {
				t.Errorf("%s has %d bytes", key, len(got))
			}
		}
		if got := there(t, s, "o/s/u/none"); got != "nothing" {
			t.Errorf("what was not put is %q", got)
		}
	})
}

func TestWhatIsNotAsAnnouncedIsNotKept(t *testing.T) {
	onBoth(t, func(t *testing.T, s *files.Store) {
		good, broken := []byte("hello"), errors.New("gone")
		for name, put := range map[string]struct {
			r    io.Reader
			size int64
			sum  string
			want error
		}{
			"too short":       {bytes.NewReader(good[:4]), 5, sum(good), action.ErrInvalid},
			"too long":        {bytes.NewReader(append(good, '!')), 5, sum(good), action.ErrInvalid},
			"without an end":  {neverEnds{}, 5, sum(good), action.ErrInvalid},
			"others":          {strings.NewReader("HELLO"), 5, sum(good), action.ErrInvalid},
			"sender is gone":  {io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)), 5, sum(good), broken},
			"gone at the end": {io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)), 5, sum(good), broken},
		} {
			if err := s.Put(t.Context(), "k/"+name, put.r, put.size, put.sum); !errors.Is(err, put.want) {
				t.Errorf("%s: %v", name, err)
			}
			if got := there(t, s, "k/"+name); got != "nothing" {
				t.Errorf("%s left %q", name, got)
			}
		}
	})
}

// A refused file takes nothing away from what was there.
func TestARefusedFileReplacesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *files.Store) {
		b := []byte("first")
		if err := s.Put(t.Context(), "k", bytes.NewReader(b), 5, sum(b)); err != nil {
			t.Fatal(err)
		}
		_ = s.Put(t.Context(), "k", strings.NewReader("other"), 5, sum(b))
		if got := there(t, s, "k"); got != "first" {
			t.Errorf("now it is %q", got)
		}
	})
}

func TestRemoveAllRemovesThePrefixAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *files.Store) {
		b := []byte("x")
		for _, key := range []string{"o/s/u1/a", "o/s/u1/b", "o/s/u10/a", "o/s2/u1/a"} {
			if err := s.Put(t.Context(), key, bytes.NewReader(b), 1, sum(b)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.RemoveAll(t.Context(), "o/s/u1/"); err != nil {
				t.Fatal(err)
			}
		}
		for key, want := range map[string]string{"o/s/u1/a": "nothing", "o/s/u1/b": "nothing", "o/s/u10/a": "x", "o/s2/u1/a": "x"} {
			if got := there(t, s, key); got != want {
				t.Errorf("%s is %q", key, got)
			}
		}
	})
}

// A list has pages, each of at most 1,000 keys.
func TestRemoveAllOfManyKeys(t *testing.T) {
	s, x := open(t, bucket(t)), sum([]byte("x"))
	for i := range 1003 {
		if err := s.Put(t.Context(), "o/s/u/"+strconv.Itoa(i), strings.NewReader("x"), 1, x); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveAll(t.Context(), "o/s/u/"); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 999, 1002} {
		if got := there(t, s, "o/s/u/"+strconv.Itoa(i)); got != "nothing" {
			t.Errorf("%d is %q", i, got)
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *files.Store) {
		for _, key := range []string{"", ".", "/k", "k/", "a//b", "a/../b", "a\\b", "a\x00b"} {
			if err := s.Put(t.Context(), key, strings.NewReader("x"), 1, sum([]byte("x"))); err == nil {
				t.Errorf("%q was stored", key)
			}
		}
		for _, prefix := range []string{"", "/", "a", "../"} {
			if err := s.RemoveAll(t.Context(), prefix); err == nil {
				t.Errorf("%q was removed", prefix)
			}
		}
	})
}

// neverEnds is a sender who does not stop.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) { return len(p), nil }
