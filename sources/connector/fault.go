package connector

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// errSessionGone reports that the server rejected a request because it no
// longer knows the session or supports the protocol version.
var errSessionGone = errors.New("the server does not know the session")

// Conditions of the server, in addition to a fault's code.
var (
	errConnectionLost = errors.New("the connection was lost")
	errContact        = errors.New("the server is alive") // it asked something before time was up
)

// protocolError reports an invalid answer. The call can have been executed.
func protocolError(format string, args ...any) *action.Error {
	return action.Errorf(action.ErrOutcomeUnknown, sources.FaultProtocol, format, args...)
}

// transportError converts an error on the wire. The kind is ErrUnavailable if
// the server cannot have received the request, otherwise ErrOutcomeUnknown.
func (s *Source) transportError(ctx context.Context, kind, err error) error {
	var shown *action.Error
	if errors.As(err, &shown) {
		switch shown.Code { // errors of the gateway's own packages
		case "address_blocked":
			return &action.Error{Kind: action.ErrUnavailable, Code: sources.FaultBlocked, Message: shown.Message, Err: shown.Err}
		case "redirect_refused":
			return &action.Error{Kind: shown.Kind, Code: sources.FaultRefused, Message: shown.Message, Err: shown.Err}
		case "body_too_large":
			return s.tooLarge(kind)
		}
		return shown
	}
	e := &action.Error{Kind: kind, Err: s.redactError(err)}
	var (
		dns    *net.DNSError
		record tls.RecordHeaderError
		alert  tls.AlertError
		cert   *tls.CertificateVerificationError
		name   x509.HostnameError
		issuer x509.UnknownAuthorityError
		netErr net.Error
	)
	switch {
	case errors.Is(err, errEventTooLarge):
		return s.tooLarge(kind)
	case ctx.Err() != nil:
		return interrupted(ctx, kind)
	case errors.As(err, &dns):
		e.Code, e.Message = sources.FaultDNS, fmt.Sprintf("The name %s does not resolve. Check the connector's URL.", s.url.Hostname())
	case errors.As(err, &record), errors.As(err, &alert), errors.As(err, &cert), errors.As(err, &name), errors.As(err, &issuer),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		e.Code, e.Message = sources.FaultTLS, "A secure connection to the server cannot be made: "+tlsMessage(err)
	case errors.As(err, &netErr) && netErr.Timeout(), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message = sources.FaultTimeout, "The server did not answer in time."
	case errors.Is(kind, action.ErrUnavailable) && connectionClosed(err):
		e.Code, e.Message = sources.FaultUnreachable, fmt.Sprintf("%s closed the connection without an answer. Check the URL's port, and whether it should be https.", guard.Host(s.url))
	case errors.Is(kind, action.ErrUnavailable):
		e.Code, e.Message = sources.FaultUnreachable, fmt.Sprintf("The connection to %s failed. Check that the server is running, and check the connector's URL.", guard.Host(s.url))
	default:
		e.Code, e.Message = sources.FaultProtocol, "The server closed the connection before it had answered."
		e.Err = fmt.Errorf("%w: %w", errConnectionLost, e.Err)
	}
	return e
}

// connectionClosed reports whether the other side closed an established
// connection.
func connectionClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "malformed HTTP response") || strings.Contains(err.Error(), "server closed idle connection")
}

// tlsMessage says why the TLS connection failed.
func tlsMessage(err error) string {
	var (
		name    x509.HostnameError
		issuer  x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name):
		return "its certificate is for another name. Check the URL's host, or install a certificate for it on the server."
	case errors.As(err, &issuer):
		return "its certificate is issued by an unknown authority. Install the authority on the gateway's machine, or a public certificate on the server."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet. Renew it on the server."
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it does not speak TLS on this port. Check the port, and whether the URL should be http."
	}
	return "check its certificate and the URL's scheme."
}

func (s *Source) tooLarge(kind error) error {
	return action.Errorf(kind, sources.FaultTooLarge, "The server's answer is larger than %d KiB.", s.cfg.MaxAnswer>>10)
}

// interrupted reports that the context of a request ended.
func interrupted(ctx context.Context, kind error) error {
	cause := context.Cause(ctx)
	e := &action.Error{Kind: kind, Code: sources.FaultTimeout, Err: cause, Message: "The server did not answer in time."}
	if !errors.Is(cause, context.DeadlineExceeded) {
		e.Code, e.Message = "interrupted", "The request was canceled before the server answered."
	}
	return e
}

// statusFault converts an error status; nil: not an error. A 4xx status means
// that the request was not executed; others leave that open.
func (s *Source) statusFault(status int, h http.Header) *action.Error {
	text := strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	refused := func(code, format string, args ...any) *action.Error {
		return action.Errorf(action.ErrUnavailable, code, format, args...)
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		switch {
		case s.cfg.Secret == nil && strings.Contains(h.Get("Www-Authenticate"), "resource_metadata"):
			return refused(sources.FaultAuth, "The server requires a sign-in (%s). Enable OAuth for the connector, and sign in.", text)
		case s.cfg.Secret == nil:
			return refused(sources.FaultAuth, "The server requires a credential (%s). Set the connector's secret, or enable OAuth and sign in.", text)
		}
		return refused(sources.FaultAuth, "The server refused the credential (%s). Set the connector's secret again, or check its header and prefix.", text)
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return refused(sources.FaultTransport, "There is no MCP server at this URL (%s). Check the URL; it often ends in /mcp.", text)
	case http.StatusTooManyRequests:
		return refused(sources.FaultRateLimited, "The server's rate limit was reached (%s). Retry later.", text)
	}
	switch {
	case status >= 500, status == http.StatusRequestTimeout: // a proxy may say so of a request that it passed on
		return action.Errorf(action.ErrOutcomeUnknown, sources.FaultFailed, "The server failed (%s).", text)
	case status >= 400:
		return refused(sources.FaultRefused, "The server refused the request (%s).", text)
	case status >= 300:
		return refused(sources.FaultRefused, "The server redirects to another URL (%s)%s. Set the connector's URL to that.", text, s.redirectTarget(h))
	}
	return nil
}

// redirectTarget returns the target of a redirect without its query, which is
// untrusted.
func (s *Source) redirectTarget(h http.Header) string {
	u, err := s.url.Parse(h.Get("Location"))
	if err != nil || u.Host == "" || h.Get("Location") == "" {
		return ""
	}
	return ", to " + sources.Printable(u.Scheme+"://"+u.Host+u.EscapedPath(), 200)
}

// retryAfter reads the Retry-After header: seconds or a date.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = time.Until(date)
	}
	return min(max(wait, 0), time.Hour)
}

// redactError returns an error for the log without the secret and the URL's
// query, which can contain one.
func (s *Source) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var u *url.Error
	if errors.As(err, &u) {
		text = strings.ReplaceAll(text, u.URL, s.url.Host+s.url.Path)
	}
	if q := s.url.RawQuery; q != "" {
		text = strings.ReplaceAll(text, q, "…")
	}
	return &redactedError{text: s.cleaner.Load().text(text), err: err}
}

// redactedError is an error with another text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }
