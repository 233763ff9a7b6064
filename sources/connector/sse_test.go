package connector_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"sallyport/sources/connector"
)

func events(t *testing.T, r io.Reader) (list []string) {
	t.Helper()
	if err := connector.ReadEvents(r, func(data, id string) bool { list = append(list, id+"|"+data); return true }); err != nil {
		t.Error(err)
	}
	return list
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"one", "data: a\n\n", []string{"|a"}},
		{"no space", "data:a\n\n", []string{"|a"}},
		{"one space is taken", "data:  a \n\n", []string{"| a "}},
		{"lines are joined", "data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb"}},
		{"line ends of all kinds", "data: a\r\n\r\ndata: b\r\rdata: c\n\r\ndata: d\n\n", []string{"|a", "|b", "|c", "|d"}},
		{"a mark at the start", "\ufeffdata: a\n\n", []string{"|a"}},
		{"comments and other fields", ": x\nevent: message\nwhat\ndata: a\n\n: y\n\n", []string{"|a"}},
		{"ids stay", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{"1|a", "1|b", "|c"}},
		{"an id with NUL is none", "id: 1\x00\ndata: a\n\n", []string{"|a"}},
		{"empty data", "data\n\ndata:\n\n", []string{"|", "|"}},
		{"no end", "data: a\n\ndata: b", []string{"|a", "|b"}},
		{"longer than the buffer", "data: " + long + "\n\ndata: b\n\n", []string{"|" + long, "|b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, events(t, strings.NewReader(test.text))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.want, events(t, iotest.OneByteReader(strings.NewReader(test.text)))); diff != "" {
				t.Errorf("byte by byte: %s", diff)
			}
		})
	}
}

func TestEventsEnd(t *testing.T) {
	var n int
	stop := func(string, string) bool { n++; return false }
	if err := connector.ReadEvents(strings.NewReader("data: a\n\ndata: b\n\n"), stop); err != nil || n != 1 {
		t.Errorf("%d events, %v", n, err)
	}
	boom := errors.New("boom")
	r := io.MultiReader(strings.NewReader(": x\n"), iotest.ErrReader(boom))
	if err := connector.ReadEvents(r, stop); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "data: a\r\n\r\ndata: b\r\r", "\ufeffid: 1\nretry: 10\ndata: {}\n\n", ": c\n\ndata", "data:\n\ndata\n\n", "id: \x00\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		whole := events(t, strings.NewReader(text))
		if diff := cmp.Diff(whole, events(t, iotest.OneByteReader(strings.NewReader(text)))); diff != "" {
			t.Errorf("it matters how the text arrives: %s", diff)
		}
		size := 0
		for _, e := range whole {
			size += len(e)
		}
		if size > (len(text)+1)*(len(text)+1) {
			t.Errorf("%d bytes of events from %d", size, len(text))
		}
	})
}
