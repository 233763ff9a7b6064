package platform_test

import (
	"testing"

	"sallyport/sources/platform"
)

func TestConfigIsComplete(t *testing.T) {
	if _, err := platform.Source(platform.Config{}); err == nil {
		t.Error("tools without rows")
	}
}
