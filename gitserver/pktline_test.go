package gitserver

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestReadPacket(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0009hello": "hello", "0004": "", "0000": "flush", "0001": "delimiter", "0003": "malformed", "+009hello": "malformed", "0_09hello": "malformed",
		"zzzz": "malformed", "fff1": "malformed", "0009hel": "unexpected EOF", "00": "unexpected EOF", "": "EOF", "0021" + strings.Repeat("x", 29): "malformed",
	} {
		kind, data, err := readPacket(strings.NewReader(in), 32)
		got := string(data)
		switch {
		case err != nil:
			got = err.Error()
		case kind == flushPacket:
			got = "flush"
		case kind == delimiterPacket:
			got = "delimiter"
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q is read as %q, want %q", in, got, want)
		}
	}
}

// TestRefScanner feeds answers to it in parts of every size.
func TestRefScanner(t *testing.T) {
	t.Parallel()
	long := string(packet(idA + " HEAD\x00" + strings.Repeat("capability ", 200)))
	answer := string(packet("# service=git-upload-pack\n")) + flushLine + long +
		string(packet(idA+" HEAD symref-target:refs/heads/main\n")) + string(packet(idA+" refs/heads/main\n")) +
		string(packet(idB+" refs/tags/v1\n")) + string(packet(idA+" refs/tags/v1^{}\n")) + string(packet("nothing\n")) + flushLine
	want := map[string]string{idA: "refs/heads/main", idB: "refs/tags/v1"}
	for size := 1; size < 200; size++ {
		s := &refScanner{left: 10}
		for rest := []byte(answer); len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = s.Write(rest[:n])
			rest = rest[n:]
		}
		if d := cmp.Diff(want, s.refs); d != "" {
			t.Fatalf("in parts of %d bytes (-want +got):\n%s", size, d)
		}
	}
}

// FuzzPackets reads hostile bytes with every reader of pkt-lines.
func FuzzPackets(f *testing.F) {
	f.Add([]byte(flushLine))
	f.Add(packet(idA + " refs/heads/main\x00side-band-64k"))
	f.Add([]byte("fff0"))
	f.Add(append(packet("# service=git-receive-pack\n"), flushLine...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &refScanner{left: 3}
		_, _ = s.Write(raw)
		if len(s.refs) > 3 || len(s.line) > maxRefLine {
			t.Errorf("%d refs and a line of %d bytes are kept", len(s.refs), len(s.line))
		}
		_ = advertisedRefs(bytes.NewReader(raw), func(id, _ string) {
			if id != "shallow" && !isObjectID(id) {
				t.Errorf("a ref has the ID %q", id)
			}
		})
		if p, _, err := readCommands(bytes.NewReader(raw)); err == nil {
			for _, r := range p.Refs {
				if !validRef(r.Name) || !isSHA1(r.Old) || !isSHA1(r.New) {
					t.Errorf("a command for %q", r.Name)
				}
			}
		}
		_, _ = reviewable(bytes.NewReader(raw))
		_, _ = io.Copy(io.Discard, &bandReader{r: bytes.NewReader(raw)})
	})
}
