package main

import (
	"log/slog"
	"strings"
	"testing"
)

// What the variables must not say is refused at the start, by name and without what
// may be secret.
func TestTracingRefusesWhatCannotWork(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	good := "http://127.0.0.1:4318"
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // in the error
	}{
		{"no URL", map[string]string{endpoint: "127.0.0.1:4318"}, endpoint},
		{"no host", map[string]string{endpoint: "http://"}, endpoint},
		{"another scheme", map[string]string{endpoint: "grpc://collector:4317"}, endpoint},
		{"not to be read", map[string]string{endpoint: "http://canary\x7f:1"}, endpoint},
		{"a password", map[string]string{endpoint: "https://me:canary@collector"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector", endpoint: good}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"exporter", map[string]string{endpoint: good, "OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"},
		{"protocol", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"headers", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_HEADERS": "Bearer canary"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"headers of traces", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b,key:canary=1"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{"certificate", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"timeout", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"sampler", map[string]string{endpoint: good, "OTEL_TRACES_SAMPLER": "sometimes"}, "OTEL_TRACES_SAMPLER"},
		{"share", map[string]string{endpoint: good, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"}, "OTEL_TRACES_SAMPLER_ARG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := envOf(c.env).traces()
			if err == nil {
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), c.want+" ") && !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("it says %q", err)
			}
		})
	}
	for name, env := range map[string]map[string]string{
		"nothing":  {"OTEL_TRACES_SAMPLER": "sometimes", "OTEL_SERVICE_NAME": "gate"},
		"blank":    {endpoint: " "},
		"disabled": {endpoint: good, "OTEL_SDK_DISABLED": "TRUE"},
		"none":     {endpoint: "nonsense", "OTEL_TRACES_EXPORTER": "none"},
	} {
		if on, err := envOf(env).traces(); on || err != nil {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	for name, env := range map[string]map[string]string{
		"plain":      {endpoint: good},
		"of traces":  {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector.example/otlp"},
		"everything": {endpoint: good, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, x-team=gate", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
	} {
		if on, err := envOf(env).traces(); !on || err != nil {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	// A gateway says it at its start.
	t.Setenv(endpoint, "collector:4318")
	o := options{Data: t.TempDir(), Listen: "127.0.0.1:0"}
	if g, err := openGateway(t.Context(), o, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), endpoint) {
		t.Errorf("the gateway opens: %v, %v", g, err)
	}
	t.Setenv(endpoint, "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", good)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "canary")
	if _, err := newTracing(t.Context(), "here", slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("attributes that are none: %v", err)
	}
}

func envOf(values map[string]string) environment {
	return func(name string) string { return values[name] }
}
