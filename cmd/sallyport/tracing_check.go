package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// checkEndpoint refuses what leads to no collector. It does not repeat it: there
// may be a password in it.
func checkEndpoint(variable, endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%s must be the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; or leave it out for no traces", variable)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s must be a scheme, a host and a path; what proves who sends goes into OTEL_EXPORTER_OTLP_HEADERS", variable)
	}
	return nil
}

// checkExporter refuses settings with which spans would not be sent as they say.
func (env environment) checkExporter() error {
	if variable, protocol := env.otlp("PROTOCOL"); protocol != "" && protocol != "http/protobuf" && protocol != "http/json" {
		return fmt.Errorf("%s must be http/protobuf or http/json; over gRPC nothing is sent (collectors take HTTP at port 4318)", variable)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		value := env(name)
		if _, ok := parseHeaders(value); value != "" && !ok {
			return fmt.Errorf("%s must be name=value,name=value, with values as in a URL (%%20 is a space)", name)
		}
	}
	for _, kind := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		variable, file := env.otlp(kind)
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil {
			return fmt.Errorf("%s must name a file in PEM: %w", variable, err)
		}
	}
	if variable, value := env.otlp("TIMEOUT"); value != "" {
		if ms, err := strconv.Atoi(value); err != nil || ms <= 0 {
			return fmt.Errorf("%s must be a number of milliseconds above 0", variable)
		}
	}
	return nil
}

// parseHeaders parses name=value,name=value with percent-encoded values ([Exporter],
// Specifying headers via environment variables). It reports whether the list is valid.
func parseHeaders(list string) (headers map[string]string, ok bool) {
	headers = map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(value)
		if err != nil || !found || name == "" || strings.ContainsFunc(name, notInToken) {
			return nil, false
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, true
}

// notInToken finds what no name of a header has.
func notInToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// checkSampler refuses a sampler that there is not.
func (env environment) checkSampler() error {
	switch strings.ToLower(strings.TrimSpace(env("OTEL_TRACES_SAMPLER"))) {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
		arg := strings.TrimSpace(env("OTEL_TRACES_SAMPLER_ARG"))
		if share, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || !(share >= 0 && share <= 1)) {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG must be the share of traces to keep, from 0 to 1")
		}
		return nil
	}
	return fmt.Errorf("OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, or one of these after parentbased_")
}

// tracesURL returns the URL that spans are posted to. [Exporter], Endpoint URLs for
// OTLP/HTTP: the URL for traces is used as it is, with / for an empty path; v1/traces
// is appended to the base URL.
func (env environment) tracesURL() (*url.URL, error) {
	variable, endpoint := env.otlp("ENDPOINT")
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, checkEndpoint(variable, endpoint)
	}
	target := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	switch {
	case variable == "OTEL_EXPORTER_OTLP_ENDPOINT":
		target.Path = path.Join("/", u.Path, "v1/traces")
	case u.Path == "":
		target.Path = "/"
	}
	// [Exporter] defines this variable for gRPC only, but otlptracehttp lets it
	// override the scheme, and so does the program.
	if _, insecure := env.otlp("INSECURE"); strings.EqualFold(insecure, "true") {
		target.Scheme = "http"
	} else if insecure != "" {
		target.Scheme = "https"
	}
	return target, nil
}

// collectorTimeout is the specification's default.
const collectorTimeout = 10 * time.Second

// client speaks to the collector alone: it follows no redirect, which would take
// spans and headers elsewhere, and uses no proxy, as all that the gateway sends.
func (env environment) client() (*http.Client, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if variable, file := env.otlp("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		settings.RootCAs = x509.NewCertPool()
		if err != nil || !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s must name a file with certificates in PEM", variable)
		}
	}
	certificate, file := env.otlp("CLIENT_CERTIFICATE")
	_, key := env.otlp("CLIENT_KEY")
	if (file == "") != (key == "") {
		return nil, errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY go together: set both, or none")
	}
	if file != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("%s and its key: %w", certificate, err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	timeout := collectorTimeout
	if _, value := env.otlp("TIMEOUT"); value != "" {
		if ms, err := strconv.Atoi(value); err == nil {
			timeout = time.Duration(ms) * time.Millisecond
		}
	}
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
