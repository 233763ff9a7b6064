package defaults_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/defaults"
)

type Inner struct {
	Every time.Duration `default:"2.5s"`
}

type config struct {
	Inner
	Flags Inner `embed:""`
	Other Inner
	Wait  time.Duration `default:"5m"`
	Limit int           `default:"262144"`
	Kept  int           `default:"10"`
	Unset int
}

func TestSet(t *testing.T) {
	c := config{Kept: 3}
	defaults.Set(&c)
	if diff := cmp.Diff(config{Inner: Inner{2500 * time.Millisecond}, Flags: Inner{2500 * time.Millisecond}, Wait: 5 * time.Minute, Limit: 262144, Kept: 3}, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSetClockAndLog(t *testing.T) {
	var c struct {
		Now func() time.Time `default:"time.Now"`
		Log *slog.Logger     `default:"discard"`
	}
	defaults.Set(&c)
	if age := time.Since(c.Now()); age < 0 || age > time.Minute || c.Log.Enabled(t.Context(), slog.LevelError) {
		t.Errorf("the clock is %v off, or the log does not discard", age)
	}
}

func TestSetRefusesBadTags(t *testing.T) {
	for name, c := range map[string]any{
		"duration": &struct {
			Wait time.Duration `default:"soon"`
		}{},
		"number": &struct {
			Limit int `default:"5m"`
		}{},
		"text": &struct {
			Name string `default:"x"`
		}{},
		"clock": &struct {
			Now func() time.Time `default:"now"`
		}{},
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "default of") {
					t.Errorf("%s: recovered %q, want a panic that names the field", name, said)
				}
			}()
			defaults.Set(c)
		}()
	}
}
