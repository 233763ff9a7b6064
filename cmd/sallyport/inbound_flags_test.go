package main

import (
	"strings"
	"testing"
)

func TestWebhookSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"github=0123456789abcdef,github=0123456789abcdeg,linear=0123456789=bcdef": "",
		"github=0123456789abcde": "the secret of github has fewer than 16 characters",
		"github=":                "PROVIDER=SECRET",
		"0123456789abcdef":       "PROVIDER=SECRET",
	} {
		var s webhookSecrets
		err := s.UnmarshalText([]byte(text))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123")):
			t.Errorf("%s: %v", text, err)
		case want == "" && (err != nil || len(s.of["github"]) != 2 || s.of["linear"][0] != "0123456789=bcdef"):
			t.Errorf("%s: %v, %v", text, s.of, err)
		}
	}
}
