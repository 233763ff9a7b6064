package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Bounds of what the gateway fetches for a comparison.
const (
	maxFetched = 64 << 20 // bytes of a pack
	maxRefs    = 64 << 20 // bytes of an advertisement
)

// objectRequest is a fetch of objects for a comparison.
type objectRequest struct {
	wants, haves []string
	filter       string
	shallow      bool // only the commits themselves, without their history
}

// readRefs reads the refs of a repository: the ID of each name, and those of the IDs
// that a branch or HEAD has.
func (r *Remote) readRefs(ctx context.Context, names []string, ids map[string]bool) (refs map[string]string, tips map[string]bool, err error) {
	resp, err := r.send(ctx, &forgeRequest{method: http.MethodGet, service: "info/refs?service=git-upload-pack"}) //nolint:bodyclose // idleReader closes it
	if err != nil {
		return nil, nil, err
	}
	body := newIdleReader(resp.Body)
	defer body.Close() //nolint:errcheck // read or given up
	refs, tips, wanted := map[string]string{}, map[string]bool{}, map[string]bool{"HEAD": true}
	for _, name := range names {
		wanted[name] = true
	}
	err = advertisedRefs(io.LimitReader(body, maxRefs), func(id, name string) {
		if wanted[name] {
			refs[name] = id
		}
		if ids[id] && (name == "HEAD" || strings.HasPrefix(name, "refs/heads/")) {
			tips[id] = true
		}
	})
	return refs, tips, err
}

// DefaultBranch reads the repository and returns its default branch; empty if it has
// no commit, or does not say.
func (r *Remote) DefaultBranch(ctx context.Context) (string, error) {
	resp, err := r.send(ctx, &forgeRequest{method: http.MethodGet, service: "info/refs?service=git-upload-pack"}) //nolint:bodyclose // idleReader closes it
	if err != nil {
		return "", err
	}
	body := newIdleReader(resp.Body)
	defer body.Close() //nolint:errcheck // given up after the first refs
	for range 3 {      // the name of the service, a flush, and the first ref with the capabilities
		_, line, err := readPacket(body, maxPacket)
		if err != nil {
			return "", fmt.Errorf("reading the refs of the forge: %w", err)
		}
		_, capabilities, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\x00")
		if !ok {
			continue
		}
		for _, c := range strings.Fields(capabilities) {
			if branch, ok := strings.CutPrefix(c, "symref=HEAD:refs/heads/"); ok {
				return branch, nil
			}
		}
		return "", nil
	}
	return "", &forgeError{"no refs"}
}

// fetchObjects fetches objects into the quarantine, by protocol 2.
func (q *quarantine) fetchObjects(ctx context.Context, r *Remote, o *objectRequest) error {
	err := q.fetchOnce(ctx, r, o)
	var refused *forgeError
	if o.filter != "" && errors.As(err, &refused) { // the forge does not support filters
		plain := *o
		plain.filter = ""
		err = q.fetchOnce(ctx, r, &plain)
	}
	return err
}

// forgeError is an error that the forge reports within the protocol.
type forgeError struct{ text string }

func (e *forgeError) Error() string { return "the forge says: " + oneLine(e.text, 200) }

func (q *quarantine) fetchOnce(ctx context.Context, r *Remote, o *objectRequest) error {
	var b bytes.Buffer
	add := func(format string, args ...any) { b.Write(packet(fmt.Sprintf(format, args...))) }
	add("command=fetch")
	add("agent=git/sallyport")
	b.WriteString(delimiterLine)
	add("no-progress")
	add("ofs-delta")
	if o.filter != "" {
		add("filter %s", o.filter)
	}
	if o.shallow {
		add("deepen 1")
	}
	for _, id := range o.wants {
		add("want %s", id)
	}
	for _, id := range o.haves {
		add("have %s", id)
	}
	add("done")
	b.WriteString(flushLine)
	resp, err := r.send(ctx, &forgeRequest{ //nolint:bodyclose // idleReader closes it
		method: http.MethodPost, service: "git-upload-pack", body: &b, length: int64(b.Len()),
		header: http.Header{"Content-Type": {"application/x-git-upload-pack-request"}, "Git-Protocol": {"version=2"}},
	})
	if err != nil {
		return err
	}
	body := newIdleReader(resp.Body)
	defer body.Close() //nolint:errcheck // read or given up
	for {
		kind, line, err := readPacket(body, maxPacket)
		text := strings.TrimSuffix(string(line), "\n")
		switch {
		case err != nil:
			return fmt.Errorf("reading the answer of the forge: %w", err)
		case kind == flushPacket:
			return &forgeError{"no pack"}
		case strings.HasPrefix(text, "ERR "):
			return &forgeError{text[4:]}
		case text == "packfile":
			return q.index(ctx, &bandReader{r: body}, maxFetched)
		}
	}
}

// bandReader reads the data of an answer with side bands, up to the flush. It passes
// progress to a function.
type bandReader struct {
	r        io.Reader
	progress func(text []byte) // nil: nobody
	rest     []byte
	over     bool
}

func (b *bandReader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.over {
			return 0, io.EOF
		}
		kind, data, err := readPacket(b.r, maxPacket)
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case kind != dataPacket:
			b.over = true
		case len(data) == 0:
			return 0, errPacket
		case data[0] == bandData:
			b.rest = data[1:]
		case data[0] == bandProgress:
			if b.progress != nil {
				b.progress(data[1:])
			}
		default:
			return 0, &forgeError{string(data[1:])}
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
