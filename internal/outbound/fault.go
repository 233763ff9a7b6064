package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/redact"
)

// Error codes, the same as those of connectors.
const (
	codeDNS         = "upstream_dns"
	codeUnreachable = "upstream_unreachable"
	codeTLS         = "upstream_tls"
	codeBlocked     = "upstream_blocked"
	codeTimeout     = "upstream_timeout"
	codeTooLarge    = "upstream_too_large"
	codeRateLimited = "upstream_rate_limited"
	codeRefused     = "upstream_refused"
	codeCredential  = "upstream_credential"
	codeFailed      = "upstream_failed"
	codeInterrupted = "interrupted"
)

// transportError converts a network error. sent means that the service may have
// received the request.
func (c *Client) transportError(ctx context.Context, err error, sent bool) error {
	kind := action.ErrUnavailable
	if sent {
		kind = action.ErrOutcomeUnknown
	}
	e := &action.Error{Kind: kind, Err: c.redactError(err)}
	var (
		known  *action.Error
		dns    *net.DNSError
		netErr net.Error
	)
	host := c.base.Hostname()
	switch {
	case errors.As(err, &known):
		c.applyGuardError(e, known)
	case context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		e.Code, e.Message = codeInterrupted, fmt.Sprintf("The request to %s was cancelled before a response arrived.", host)
	case errors.As(err, &dns) && !dns.IsTimeout:
		e.Code, e.Message = codeDNS, fmt.Sprintf("The name %s does not resolve. Check the integration's base URL, or try again later.", host)
	case isTLSError(err):
		e.Code, e.Message = codeTLS, fmt.Sprintf("The TLS connection to %s failed. Check its certificate, and the scheme and port of the base URL.", host)
	case ctx.Err() != nil, errors.As(err, &netErr) && netErr.Timeout():
		e.Code, e.Message = codeTimeout, fmt.Sprintf("%s did not answer in time. %s", host, retryHint(sent))
	case !sent:
		e.Code, e.Message = codeUnreachable, fmt.Sprintf("%s cannot be reached. Check the integration's base URL, or try again later.", host)
	default:
		e.Code, e.Message = codeFailed, fmt.Sprintf("The connection to %s was lost before it answered. %s", host, retryHint(sent))
	}
	e.Message = c.redact(e.Message)
	return e
}

func retryHint(sent bool) string {
	if sent {
		return "Check whether the request had an effect before you try again."
	}
	return "Nothing was sent. Try again later."
}

// applyGuardError converts an error of package guard.
func (c *Client) applyGuardError(e, known *action.Error) {
	e.Message = known.Message
	switch known.Code {
	case "address_blocked":
		e.Code = codeBlocked
	case "redirect_refused":
		e.Code, e.Kind = codeRefused, known.Kind
	case "body_too_large":
		e.Code, e.Message = codeTooLarge, fmt.Sprintf("The response of %s is larger than %d KiB. Request less data.", c.base.Hostname(), max(c.pool.MaxBody>>10, 1))
	default:
		e.Code = known.Code
	}
}

func isTLSError(err error) bool {
	var (
		record tls.RecordHeaderError
		alert  tls.AlertError
		cert   *tls.CertificateVerificationError
		name   x509.HostnameError
		issuer x509.UnknownAuthorityError
	)
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &cert) || errors.As(err, &name) || errors.As(err, &issuer) ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// rateLimited is the error of a request that the service rate limited.
func (c *Client) rateLimited(wait time.Duration) error {
	e := action.Errorf(action.ErrUnavailable, codeRateLimited, "%s limits the rate of requests and did nothing. Try again in %d seconds.",
		c.base.Hostname(), int(math.Ceil(wait.Seconds())))
	e.RetryAfter = wait
	return e
}

// overloaded is the error of a request that got no slot in time.
func (c *Client) overloaded(ctx context.Context) error {
	e := action.Errorf(action.ErrUnavailable, codeTimeout, "Too many requests to %s are in progress, so this one was not sent. Try again later.", c.base.Hostname())
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		e.Code, e.Message = codeInterrupted, "The request was cancelled before it was sent."
	}
	e.Err = context.Cause(ctx)
	return e
}

// encodingError is the error of a request that cannot be encoded.
func (c *Client) encodingError(err error) error {
	return action.Errorf(action.ErrUnavailable, codeCredential,
		"The request to %s cannot be encoded. Connect the integration again with a credential without line breaks.", c.base.Hostname()).WithCause(c.redactError(err))
}

// redactedError is an error for the log without credentials and without the
// URL, whose query may contain one. errors.Is sees the original error,
// errors.As does not.
type redactedError struct {
	text string
	err  error
}

func (c *Client) redactError(err error) error {
	text := err.Error()
	var u *url.Error
	if errors.As(err, &u) {
		text = u.Err.Error()
	}
	return &redactedError{text: c.redact(text), err: err}
}

func (c *redactedError) Error() string        { return c.text }
func (c *redactedError) Is(target error) bool { return errors.Is(c.err, target) }

func (c *Client) redact(text string) string {
	return string(redact.NewReplacer(c.secrets...).Replace([]byte(text)))
}
