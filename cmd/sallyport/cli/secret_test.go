package cli

import (
	"strings"
	"testing"

	"sallyport/api"
)

func TestRotationText(t *testing.T) {
	for want, done := range map[string]api.Rotated{
		"is active; 3 values were sealed again": {KeyID: "72cd6e8422c407fb", Resealed: 3},
		"1 are still sealed with another key":   {KeyID: "72cd6e8422c407fb", Resealed: 3, Left: 1},
	} {
		if got := rotationText(&done); !strings.Contains(got, want) || done.Left > 0 && strings.Contains(got, "everything") {
			t.Errorf("got %q; want %q in it", got, want)
		}
	}
}
