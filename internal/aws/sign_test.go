package aws_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"sallyport/internal/aws"
)

// The examples, and the keys in them, are Amazon's own:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
func TestSignatureExamples(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, c := range map[string]struct {
		method, path, query, sum, signed, signature string
		header                                      http.Header
	}{
		"GET object": {
			method: "GET", path: "/test.txt", sum: empty, header: http.Header{"Range": {"bytes=0-9"}},
			signed:    "host;range;x-amz-content-sha256;x-amz-date",
			signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
		},
		"PUT object": {
			method: "PUT", path: "/test%24file.text", sum: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			header:    http.Header{"Date": {"Fri, 24 May 2013 00:00:00 GMT"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}},
			signed:    "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		"GET bucket lifecycle": {
			method: "GET", path: "/", query: "lifecycle=", sum: empty, header: http.Header{},
			signed:    "host;x-amz-content-sha256;x-amz-date",
			signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		},
		"GET bucket (list objects)": {
			method: "GET", path: "/", query: "max-keys=2&prefix=J", sum: empty, header: http.Header{},
			signed:    "host;x-amz-content-sha256;x-amz-date",
			signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
		},
	} {
		u, err := url.Parse("https://examplebucket.s3.amazonaws.com" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		u.RawPath, u.RawQuery = c.path, c.query
		r := &http.Request{Method: c.method, URL: u, Header: c.header}
		aws.Keys{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}.Sign(r, "s3", "us-east-1", c.sum, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
		want := "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=" + c.signed + ",Signature=" + c.signature
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

func TestEscapes(t *testing.T) {
	if got, want := aws.EscapePath("/a b+c/~-._$ü"), "/a%20b%2Bc/~-._%24%C3%BC"; got != want {
		t.Errorf("the path is %s, want %s", got, want)
	}
	if got, want := aws.EscapeQuery(url.Values{"prefix": {"a b+c/"}, "list-type": {"2"}}), "list-type=2&prefix=a%20b%2Bc%2F"; got != want {
		t.Errorf("the query is %s, want %s", got, want)
	}
}
