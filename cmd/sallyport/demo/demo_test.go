package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/cmd/sallyport/server"
)

// What the demo advises is the program that was called.
func TestCalled(t *testing.T) {
	here, err := filepath.Abs("bin/sally port")
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"sallyport":                                   "sallyport",
		"/usr/bin/sallyport-1.2":                      "/usr/bin/sallyport-1.2",
		"./bin/sally port":                            "'" + here + "'",
		"/tmp/go-build1178/b001/exe/sallyport":        fromSource,
		"/home/a/.cache/go-build/ab/ab12-d/sallyport": fromSource,
		"/srv/go-builder/sallyport":                   "/srv/go-builder/sallyport",
		"/srv/go-build/bin/sallyport":                 "/srv/go-build/bin/sallyport",
	} {
		if got := called(program); got != want {
			t.Errorf("%s is called as %s, want %s", program, got, want)
		}
	}
	var text strings.Builder
	d := demo{gateway: &server.Gateway{URL: "http://here"}, data: "/tmp/a b"}
	d.explain(&text)
	if strings.Contains(text.String(), "%!") || !strings.Contains(text.String(), " "+called(os.Args[0])+" approve ID --data '/tmp/a b'\n") {
		t.Error(text.String())
	}
}
