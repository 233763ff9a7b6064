package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/guard"
)

const (
	// credentialsTimeout bounds one attempt to obtain credentials. A machine outside
	// of AWS has no metadata service, and its address may not answer at all.
	credentialsTimeout = 5 * time.Second
	// refreshBefore is how long before their end credentials are replaced.
	refreshBefore = 5 * time.Minute
)

// Credentials are those of the environment, found in the order of Amazon's SDKs:
// fixed keys, a web identity (EKS), a container's role (ECS, EKS Pod Identity) or
// the role of the EC2 instance.
type Credentials struct {
	fetch func(ctx context.Context) (temporary, error)

	mu      sync.Mutex
	current temporary
}

// temporary are keys that end, unless the end is zero.
type temporary struct {
	Keys
	until time.Time
}

// NewCredentials returns the credentials for services in a region. It only looks at the
// environment; the first use fetches keys.
func NewCredentials(region string) (*Credentials, error) {
	env := os.Getenv
	fixed := Keys{env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN")}
	container := env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		container = "http://169.254.170.2" + path
	}
	switch {
	case fixed.ID != "" && fixed.Secret != "":
		return &Credentials{fetch: func(context.Context) (temporary, error) { return temporary{Keys: fixed}, nil }}, nil
	case env("AWS_WEB_IDENTITY_TOKEN_FILE") != "" && env("AWS_ROLE_ARN") != "":
		return webIdentity(region)
	case container != "":
		return containerRole(container)
	case !strings.EqualFold(env("AWS_EC2_METADATA_DISABLED"), "true"):
		return instanceRole()
	}
	return nil, errors.New("there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
}

// Keys returns keys that are valid now. Those that end soon serve on while there
// are no new ones.
func (c *Credentials) Keys(ctx context.Context) (Keys, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.ID != "" && (c.current.until.IsZero() || time.Until(c.current.until) > refreshBefore) {
		return c.current.Keys, nil
	}
	ctx, stop := context.WithTimeout(ctx, credentialsTimeout)
	defer stop()
	next, err := c.fetch(ctx)
	switch {
	case err == nil && next.ID != "" && next.Secret != "":
		c.current = next
	case time.Until(c.current.until) > 0:
	case err == nil:
		return Keys{}, errors.New("the role of this machine has no AWS credentials")
	default:
		return Keys{}, fmt.Errorf("obtaining AWS credentials (or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY): %w", err)
	}
	return c.current.Keys, nil
}

// webIdentity exchanges a token, which is a file that its issuer renews, for the
// keys of a role, at AWS's Security Token Service.
func webIdentity(region string) (*Credentials, error) {
	u, err := guard.CheckURL(cmp.Or(os.Getenv("AWS_ENDPOINT_URL_STS"), "https://sts."+region+"."+Domain(region)+"/"))
	if err != nil {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL_STS: %w", err)
	}
	at, sts := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), guard.OperatorClient(u)
	return &Credentials{fetch: func(ctx context.Context) (t temporary, err error) {
		token, err := os.ReadFile(at)
		if err != nil {
			return t, err
		}
		form := url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {os.Getenv("AWS_ROLE_ARN")},
			"RoleSessionName": {cmp.Or(os.Getenv("AWS_ROLE_SESSION_NAME"), "sallyport")}, "WebIdentityToken": {strings.TrimSpace(string(token))},
		}
		body, err := fetch(ctx, sts, http.MethodPost, u.String(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, strings.NewReader(form.Encode()))
		if err != nil {
			return t, err
		}
		var answer struct {
			Keys issuedKeys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
		}
		if xml.Unmarshal(body, &answer) != nil {
			return t, errors.New("the answer of AWS's Security Token Service cannot be read")
		}
		return answer.Keys.temporary(), nil
	}}, nil
}

// containerRole asks the agent of a container platform. What goes there may be a
// token, so that the address is the platform's, the machine's own, or has TLS.
func containerRole(address string) (*Credentials, error) {
	u, err := guard.CheckURL(address)
	if err != nil {
		return nil, fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI: %w", err)
	}
	platform := []string{"169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::23/128"}
	inside := func(prefix string) bool { return strings.HasPrefix(prefix, u.Hostname()+"/") }
	if u.Scheme != "https" && !guard.Loopback(u) && !slices.ContainsFunc(platform, inside) {
		return nil, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, unless it leads to this machine or a container platform")
	}
	agent := guard.OperatorClient(u, platform...)
	return &Credentials{fetch: func(ctx context.Context) (t temporary, err error) {
		token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		if at := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); at != "" {
			b, err := os.ReadFile(at)
			if err != nil {
				return t, err
			}
			token = strings.TrimSpace(string(b))
		}
		header := http.Header{}
		if token != "" {
			header.Set("Authorization", token)
		}
		return fetchKeys(ctx, agent, u.String(), header)
	}}, nil
}

// instanceRole asks EC2's instance metadata service, version 2.
func instanceRole() (*Credentials, error) {
	u, err := guard.CheckURL(cmp.Or(os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254"))
	if err != nil {
		return nil, fmt.Errorf("AWS_EC2_METADATA_SERVICE_ENDPOINT: %w", err)
	}
	base, service := strings.TrimSuffix(u.String(), "/")+"/latest/", guard.OperatorClient(u, "169.254.169.254/32", "fd00:ec2::254/128")
	return &Credentials{fetch: func(ctx context.Context) (t temporary, err error) {
		token, err := fetch(ctx, service, http.MethodPut, base+"api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"300"}}, nil)
		if err != nil {
			return t, err
		}
		header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
		roles := base + "meta-data/iam/security-credentials/"
		role, err := fetch(ctx, service, http.MethodGet, roles, header, nil)
		if err != nil {
			return t, err
		}
		name, _, _ := strings.Cut(strings.TrimSpace(string(role)), "\n")
		return fetchKeys(ctx, service, roles+url.PathEscape(name), header)
	}}, nil
}

// issuedKeys are keys as each of these services writes them.
type issuedKeys struct {
	AccessKeyID     string `json:"AccessKeyId" xml:"AccessKeyId"`
	SecretAccessKey string
	Token           string    `xml:"SessionToken"`
	Expiration      time.Time `xml:"Expiration"`
}

func (k *issuedKeys) temporary() temporary {
	return temporary{Keys{k.AccessKeyID, k.SecretAccessKey, k.Token}, k.Expiration}
}

func fetchKeys(ctx context.Context, c *http.Client, at string, header http.Header) (t temporary, err error) {
	body, err := fetch(ctx, c, http.MethodGet, at, header, nil)
	if err != nil {
		return t, err
	}
	var k issuedKeys
	if json.Unmarshal(body, &k) != nil { // the error may quote the keys
		return t, errors.New("the answer with the credentials of this machine's role cannot be read")
	}
	return k.temporary(), nil
}

// fetch returns a short response of success. Others are not quoted.
func fetch(ctx context.Context, c *http.Client, method, at string, header http.Header, body io.Reader) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	r.Header = header
	answer, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(guard.LimitBody(answer.Body, 64<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d", answer.Request.URL.Host, answer.StatusCode)
	}
	return b, err
}

// Domain returns the domain of AWS's endpoints in a region.
func Domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}
