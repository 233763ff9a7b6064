package page

import (
	"testing"

	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

// Pages are parsed on first use, so a broken template would not fail the start.
func TestTemplatesParse(t *testing.T) {
	p, err := newPages(view.NewReader(&dashboard.Server{}))
	if err != nil {
		t.Fatal(err)
	}
	for name, parse := range p.templates {
		if _, err := parse(); err != nil {
			t.Errorf("the page %s: %v", name, err)
		}
	}
}
