package sources

import (
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of one metered check.
const (
	maxSteps = 300_000    // schemas visited; it bounds the memory of the error too
	maxWork  = 50_000_000 // bytes matched, times the size of the pattern
)

// meter counts the work of one check and ends it by a panic when it is too
// much, which is the only way out of the validator from the inside. So no
// check outlives its call, and none needs a goroutine.
type meter struct {
	steps    int
	work     int
	deadline time.Time
}

// overrun is the panic's value.
type overrun struct{}

func (m *meter) reset(budget time.Duration) { *m = meter{deadline: time.Now().Add(budget)} }

// spend counts one step and the work that it is about to do.
func (m *meter) spend(work int) {
	m.steps++
	m.work += work
	if m.steps > maxSteps || m.work > maxWork || (work > 0 || m.steps%16 == 0) && time.Now().After(m.deadline) {
		panic(overrun{})
	}
}

// Validate counts one visit of a schema. It makes the meter an extension of
// every schema that it is attached to.
func (m *meter) Validate(*jsonschema.ValidatorContext, any) { m.spend(0) }
