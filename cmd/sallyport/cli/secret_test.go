package cli

import (
	"strings"
	"testing"

	"sallyport/api"
)

func TestRotationText(t *testing.T) {
	for want, done := range map[string]api.Rotated{
		"seals everything now": {KeyID: "72cd6e8422c407fb", Resealed: 3},
		"and 1 still are":      {KeyID: "72cd6e8422c407fb", Resealed: 3, Left: 1},
	} {
		if got := rotationText(&done); !strings.Contains(got, want) || done.Left > 0 && strings.Contains(got, "everything") {
			t.Errorf("got %q; want %q in it", got, want)
		}
	}
}
