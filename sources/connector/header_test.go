package connector_test

import (
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestRefusedHeaders are named by their fields.
func TestRefusedHeaders(t *testing.T) {
	along := func(name, value string) connector.Config {
		return connector.Config{Headers: map[string]string{"X-Fine": "1", name: value}}
	}
	for _, test := range []struct {
		config connector.Config
		field  string // empty: it is taken
	}{
		{connector.Config{Header: "X-Key", Prefix: "Key "}, ""},
		{along("X-Region", "eu, us"), ""},
		{along("X!#$%&'*+-.^_`|~9", "~"), ""},
		{connector.Config{Header: "content-length"}, "/header"},
		{connector.Config{Header: "mcp-session-id"}, "/header"},
		{connector.Config{Header: "Idempotency-Key"}, "/header"},
		{connector.Config{Header: "Cookie"}, "/header"},
		{connector.Config{Header: "X: y\r\nZ"}, "/header"},
		{connector.Config{Header: strings.Repeat("x", 101)}, "/header"},
		{connector.Config{Prefix: "Bearer\n"}, "/prefix"},
		{along("", "x"), "/headers/"},
		{along("X Y", "x"), "/headers/X Y"},
		{along("X-É", "x"), "/headers/X-É"},
		{along("Mcp-Session-Id", "x"), "/headers/Mcp-Session-Id"},
		{along("proxy-authorization", "x"), "/headers/proxy-authorization"},
		{along("User-Agent", "x"), "/headers/User-Agent"},
		{along("authorization", "x"), "/headers/authorization"},
		{connector.Config{Header: "X-Key", Headers: map[string]string{"x-key": "x"}}, "/headers/x-key"},
		{along("x-fine", "2"), "/headers/x-fine"},
		{along("X-A", "b\r\nC: d"), "/headers/X-A"},
		{along("X~A", "é"), "/headers/X~0A"},
		{along("X-A", ""), "/headers/X-A"},
		{along("X-A", " x"), "/headers/X-A"},
		{along("X-A", strings.Repeat("x", 1025)), "/headers/X-A"},
	} {
		c := test.config
		c.ID, c.URL = "x", "http://example.com"
		s, err := connector.New(c)
		if test.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", test.config, err)
			} else if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		var e *action.Error
		if !errors.As(err, &e) || e.Field != test.field || e.Code != sources.FaultConfig || !errors.Is(err, action.ErrInvalid) || e.Message == "" {
			t.Errorf("%+v: got %v, want an error with field %s", test.config, err, test.field)
		}
	}
}
