package doctor

import (
	"testing"

	"sallyport/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
