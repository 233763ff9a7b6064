package files

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob"
)

// Open opens the store that an address names: file:///a/folder, which is made
// when it is not there, or
// s3://bucket?region=eu-central-1&endpoint=https://minio.example.com&path_style=true,
// of which region and the others may be left out. Credentials for a bucket come
// from where the AWS SDK looks for them: AWS_ACCESS_KEY_ID and the like.
func Open(ctx context.Context, address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the store of evidence is no URL; want file:///folder or s3://bucket")
	}
	switch u.Scheme {
	case "file":
		return openFolder(u)
	case "s3":
		return openBucket(ctx, u)
	}
	return nil, fmt.Errorf("the store of evidence is file:///folder or s3://bucket, not %q", u.Scheme+"://")
}

func openFolder(u *url.URL) (*Store, error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, errors.New("the folder of evidence is an absolute path: file:///var/lib/sallyport/evidence")
	}
	dir := filepath.FromSlash(u.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of evidence: %w", err)
	}
	// Temporary files lie beside what they become, since a rename cannot cross
	// file systems.
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, DirFileMode: 0o700, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("opening the folder of evidence: %w", err)
	}
	return &Store{b}, nil
}

func openBucket(ctx context.Context, u *url.URL) (*Store, error) {
	q := u.Query()
	for name := range q {
		if name != "region" && name != "endpoint" && name != "path_style" && name != "prefix" {
			return nil, fmt.Errorf("the bucket of evidence has region, endpoint, path_style and prefix, not %q", name)
		}
	}
	if u.Host == "" || u.User != nil || u.Path != "" {
		return nil, errors.New("the bucket of evidence is s3://bucket?region=…; credentials are in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)")
	}
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(direct())}
	if region := q.Get("region"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of the bucket of evidence: %w", err)
	}
	// Servers that are not Amazon's know no checksums of their kind.
	c.RequestChecksumCalculation, c.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenRequired, aws.ResponseChecksumValidationWhenRequired
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		if at := q.Get("endpoint"); at != "" {
			o.BaseEndpoint, o.UsePathStyle = aws.String(at), q.Get("path_style") != "false"
		} else {
			o.UsePathStyle = q.Get("path_style") == "true"
		}
	})
	b, err := s3blob.OpenBucket(ctx, client, u.Host, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of evidence: %w", err)
	}
	if prefix := q.Get("prefix"); prefix != "" {
		b = blob.PrefixedBucket(b, prefix)
	}
	return &Store{b}, nil
}

// direct is a client that takes no proxy from the environment, as nothing here
// does.
func direct() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = nil })
}
