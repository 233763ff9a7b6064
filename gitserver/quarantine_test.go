package gitserver

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // Git's hash
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"testing"

	"sallyport/action"
)

// Types of objects in a pack.
const (
	packCommit = 1
	packTree   = 2
	packBlob   = 3
	packDelta  = 7
)

// packWriter writes packs that git would not.
type packWriter struct {
	bytes.Buffer
	t       *testing.T
	objects uint32
}

func newPack(t *testing.T) *packWriter {
	t.Helper()
	p := &packWriter{t: t}
	p.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	return p
}

// add adds an object, whose data is a delta if base is not nil.
func (p *packWriter) add(kind byte, base, data []byte) {
	p.t.Helper()
	p.objects++
	size := len(data)
	head := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	p.Write(head)
	p.Write(base)
	z := zlib.NewWriter(p)
	_, err := z.Write(data)
	if err := errors.Join(err, z.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// object adds an object and returns its ID.
func (p *packWriter) object(kind byte, data []byte) []byte {
	p.t.Helper()
	p.add(kind, nil, data)
	h := header(map[byte]string{packCommit: "commit", packTree: "tree", packBlob: "blob"}[kind], len(data))
	h.Write(data)
	return h.Sum(nil)
}

func header(kind string, size int) hash.Hash {
	h := sha1.New() //nolint:gosec // Git's hash
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

func (p *packWriter) finish() []byte {
	raw := p.Bytes()
	binary.BigEndian.PutUint32(raw[8:], p.objects)
	sum := sha1.Sum(raw) //nolint:gosec // Git's hash
	return append(raw, sum[:]...)
}

// copies is a delta that repeats the start of its base: n times a block of 8 MiB.
func copies(base, n int) []byte {
	const block = 8 << 20
	delta := binary.AppendUvarint(nil, uint64(base))
	delta = binary.AppendUvarint(delta, uint64(n*block))
	for range n {
		delta = append(delta, 0x80|0x40, block>>16) // from 0, with the third byte of the size alone
	}
	return delta
}

// quarantineOf stores a pack as a push would.
func quarantineOf(t *testing.T, pack []byte) (*Server, *quarantine) {
	t.Helper()
	s, err := newServer(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.newQuarantine("s1")
	if err != nil {
		t.Fatal(err)
	}
	q.cpu = 2
	if err := q.store(bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
	return s, q
}

// TestPackBombs indexes small packs that are large when they are unpacked: in memory,
// and in time.
func TestPackBombs(t *testing.T) {
	t.Parallel()
	const block = 8 << 20
	zeros := make([]byte, block)
	for name, bomb := range map[string]func(p *packWriter){
		"memory": func(p *packWriter) { p.add(packDelta, p.object(packBlob, zeros), copies(block, 400)) },
		"time": func(p *packWriter) {
			base := p.object(packBlob, zeros)
			for n := range 30 {
				p.add(packDelta, base, copies(block, 40+n))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPack(t)
			bomb(p)
			pack := p.finish()
			if len(pack) > 200<<10 {
				t.Fatalf("the bomb has %d bytes", len(pack))
			}
			s, q := quarantineOf(t, pack)
			err := s.indexPush(t.Context(), q)
			var refused *gitError
			if !errors.As(err, &refused) {
				t.Fatalf("indexed with %v", err)
			}
			if e := action.Public(s.explainPack(err)); e.Code != "pack_refused" || strings.Contains(e.Message, ": .") {
				t.Errorf("refused as %s: %s", e.Code, e.Message)
			}
		})
	}
}

// TestHostileContent indexes packs with content that is an attack on those who check
// it out.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	const gitmodules = "[submodule \"a\"]\n\tpath = a\n\turl = "
	entry := func(mode, name string, id []byte) []byte {
		return append([]byte(mode+" "+name+"\x00"), id...)
	}
	for name, c := range map[string]struct{ mode, file, text, says string }{
		"harmless":                {"100644", ".gitmodules", gitmodules + "https://example.com/a.git\n", ""},
		"an option as a URL":      {"100644", ".gitmodules", gitmodules + "--upload-pack=touch x\n", "gitmodulesUrl"},
		"a URL of two lines":      {"100644", ".gitmodules", gitmodules + "https://example.com/%0ahost=evil\n", "gitmodulesUrl"},
		"a submodule outside":     {"100644", ".gitmodules", "[submodule \"../../hooks\"]\n\tpath = a\n\turl = https://example.com/a.git\n", "gitmodulesName"},
		"an option as a path":     {"100644", ".gitmodules", "[submodule \"a\"]\n\tpath = -u\n\turl = https://example.com/a.git\n", "gitmodulesPath"},
		"a command as an update":  {"100644", ".gitmodules", gitmodules + "https://example.com/a.git\n\tupdate = !touch x\n", "gitmodulesUpdate"},
		"a link to other modules": {"120000", ".gitmodules", "elsewhere", "gitmodulesSymlink"},
		"the folder of git":       {"100644", ".git", "x", "hasDotgit"},
		"a disguised folder":      {"100644", ".g\u200cit", "x", "hasDotgit"},
		"a short name of DOS":     {"100644", "GIT~1", "x", "hasDotgit"},
		"a parent folder":         {"100644", "..", "x", "hasDotdot"},
		"a path":                  {"100644", "a/b", "x", "fullPathname"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPack(t)
			tree := p.object(packTree, entry(c.mode, c.file, p.object(packBlob, []byte(c.text))))
			p.object(packCommit, []byte("tree "+hex.EncodeToString(tree)+"\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nA\n"))
			s, q := quarantineOf(t, p.finish())
			err := s.indexPush(t.Context(), q)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("indexed with %v, want %q", err, c.says)
			}
		})
	}
}
