package gitserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/gitpush"
)

// quarantine is a bare repository with nothing but the pack of one push, and later
// what the forge sent for the comparison. Its objects are hostile: only the git
// program reads them, in processes with bounded memory, time and output.
type quarantine struct {
	dir string
	git string // the program
	max int64  // bytes of a pack
	cpu int    // seconds of a git process
}

// Bounds of what the gateway reads of a pack.
const (
	maxPushes      = 4 // of a session that wait
	maxObjects     = 200_000
	maxCommits     = 20_000
	maxCommitBytes = 64 << 10
	maxMemory      = 2 << 20 // KiB of address space of a git process
	maxCPU         = 60      // seconds of a git process
	gitTimeout     = 2 * time.Minute
)

// newQuarantine creates an empty repository.
func (s *Server) newQuarantine(session string) (*quarantine, error) {
	if err := s.makeRoom(session); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of pushes: %w", err)
	}
	dir, err := os.MkdirTemp(s.Folder, session+".new-")
	if err != nil {
		return nil, fmt.Errorf("creating a quarantine: %w", err)
	}
	q := &quarantine{dir: dir, git: s.program, max: s.MaxPush, cpu: maxCPU}
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n", "objects/info/none": "", "objects/pack/none": "", "refs/none": "",
	} {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	if err != nil {
		q.remove()
		return nil, fmt.Errorf("creating a quarantine: %w", err)
	}
	return q, nil
}

// makeRoom removes pushes of the session that wait without a client, until there is
// room for one more.
func (s *Server) makeRoom(session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := filepath.Glob(filepath.Join(s.Folder, session+".*"))
	for _, dir := range all {
		if len(all) < maxPushes {
			break
		}
		if s.held[dir] == 0 {
			delete(s.open, dir)
			err = errors.Join(err, os.RemoveAll(dir))
			all = all[1:]
		}
	}
	if len(all) >= maxPushes {
		return action.NewError("too_many_pushes", maxPushes)
	}
	return err
}

func (q *quarantine) remove() { _ = os.RemoveAll(q.dir) } // what stays is removed by Clean

// quarantineFor returns the quarantine of the params of a session. There is one only
// for params that this server computed.
func (s *Server) quarantineFor(session string, p *gitpush.Params) (*quarantine, error) {
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(encoded)
	return &quarantine{dir: s.prefix(session, p) + hex.EncodeToString(sum[:16]), git: s.program, max: s.MaxPush, cpu: maxCPU}, nil
}

// prefix begins the folders of pushes of the session with the same refs and objects,
// which can be told from redacted params, too.
func (s *Server) prefix(session string, p *gitpush.Params) string {
	sum := sha256.New()
	fmt.Fprintln(sum, p.Repository, p.Pack)
	for _, r := range p.Refs {
		fmt.Fprintln(sum, r.Name, r.Old, r.New)
	}
	return filepath.Join(s.Folder, session+"."+hex.EncodeToString(sum.Sum(nil)[:16])+".")
}

// here reports whether the pack of a call waits on this instance.
func (s *Server) here(inv *action.Invocation) bool {
	p := &gitpush.Params{}
	if json.Unmarshal(inv.Params, p) != nil {
		return false
	}
	found, err := filepath.Glob(s.prefix(inv.Session, p) + "*")
	return err == nil && len(found) > 0
}

func (q *quarantine) exists() bool {
	_, err := os.Stat(q.dir)
	return err == nil
}

// Clean removes pushes that are older than any hold.
func (s *Server) Clean(before time.Time) error {
	entries, err := os.ReadDir(s.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no session pushed yet
	}
	for _, e := range entries {
		if info, infoErr := e.Info(); infoErr == nil && info.ModTime().Before(before) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Folder, e.Name())))
		}
	}
	return err
}

// run runs git with bounded memory, time and files. It reads no configuration but
// the repository's own, connects to nothing and runs no hooks. The output goes to
// read, which may stop early.
func (q *quarantine) run(ctx context.Context, in io.Reader, read func(io.Reader) error, args ...string) error {
	ctx, stop := context.WithTimeout(ctx, gitTimeout)
	defer stop()
	limits := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; ulimit -f %d; exec "$0" "$@"`, maxMemory, q.cpu, 2*q.max/512)
	args = append([]string{
		"-c", limits, q.git, "-c", "protocol.allow=never", "-c", "core.hooksPath=/dev/null", "-c", "core.bigFileThreshold=4m", "-c", "pack.threads=1",
		"-c", "core.deltaBaseCacheLimit=32m", "-c", "core.packedGitWindowSize=16m", "-c", "core.quotePath=false", "-c", "core.alternateRefsCommand=true",
	}, args...)
	cmd := exec.CommandContext(ctx, "sh", args...) //nolint:gosec // the arguments are the gateway's own, and object IDs
	cmd.Dir = q.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + q.dir, "LC_ALL=C", "GIT_DIR=" + q.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_ATTR_NOSYSTEM=1", "GIT_PAGER=cat",
	}
	cmd.Stdin, cmd.WaitDelay = in, time.Second
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting git: %w", err)
	}
	readErr := read(out)
	if readErr != nil {
		stop()
	}
	err = cmd.Wait()
	switch {
	case readErr != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return readErr
	case err != nil:
		return &gitError{args[len(args)-1], said.String(), err}
	}
	return nil
}

// gitError is a failed git process. Its text is foreign.
type gitError struct {
	command, text string
	err           error
}

func (e *gitError) Error() string { return fmt.Sprintf("git: %s (%v)", oneLine(e.text, 300), e.err) }

// tail keeps the start of what is written.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	_, _ = t.Buffer.Write(p[:min(len(p), max(0, 4096-t.Len()))]) // never fails
	return len(p), nil
}

// lines calls each for the records of the output, which end with the byte.
func lines(end byte, most int, each func(line string) error) func(io.Reader) error {
	return func(r io.Reader) error {
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, 1<<20)
		scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			if i := bytes.IndexByte(data, end); i >= 0 {
				return i + 1, data[:i], nil
			}
			if atEOF && len(data) > 0 {
				return len(data), data, nil
			}
			return 0, nil, nil
		})
		for n := 0; scanner.Scan(); n++ {
			if n == most {
				return fmt.Errorf("there are more than %d", most)
			}
			if err := each(scanner.Text()); err != nil {
				return err
			}
		}
		return scanner.Err()
	}
}

func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// errTooLarge says that a pack exceeds a bound.
var errTooLarge = errors.New("the pack is too large")

// store writes the pack of a push to a file, before git reads it: a slow client
// occupies no process.
func (q *quarantine) store(pack io.Reader) error {
	file, err := os.OpenFile(q.packPath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("storing a pack: %w", err)
	}
	_, err = io.Copy(file, &boundedReader{r: pack, left: q.max})
	return errors.Join(err, file.Close())
}

func (q *quarantine) packPath() string { return filepath.Join(q.dir, "pushed.pack") }

// index reads a pack of the forge into the quarantine. It fails if the pack is not
// complete in itself.
func (q *quarantine) index(ctx context.Context, pack io.Reader, most int64) error {
	counted := &boundedReader{r: pack, left: most}
	err := q.run(ctx, counted, discard, "index-pack", "--stdin", fmt.Sprintf("--max-input-size=%d", most))
	if counted.over {
		return errTooLarge
	}
	if counted.err != nil {
		return counted.err
	}
	return err
}

// boundedReader fails after a number of bytes.
type boundedReader struct {
	r    io.Reader
	left int64
	over bool
	err  error // of r
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, _ := io.ReadFull(b.r, make([]byte, 1)); n == 1 {
			b.over = true
			return 0, errTooLarge
		}
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// object is an object in the quarantine.
type object struct {
	id, kind string
	size     int64
}

// inventory returns the commits and tags of the pack, the number of its objects and
// the hash of their IDs.
func (q *quarantine) inventory(ctx context.Context) (found []object, n int, hash string, err error) {
	sum := sha256.New()
	err = q.run(ctx, nil, lines('\n', maxObjects, func(line string) error {
		o, err := parseObject(line)
		if err != nil {
			return err
		}
		n++
		fmt.Fprintln(sum, o.id) // sorted by git
		if o.kind == "commit" || o.kind == "tag" {
			found = append(found, o)
		}
		return nil
	}), "cat-file", "--batch-all-objects", "--batch-check")
	return found, n, hex.EncodeToString(sum.Sum(nil)), err
}

func parseObject(line string) (object, error) {
	parts := strings.Split(line, " ")
	if len(parts) == 2 && parts[1] == "missing" {
		return object{id: parts[0]}, nil
	}
	if len(parts) != 3 {
		return object{}, fmt.Errorf("git says %.100q of an object", line)
	}
	size, err := strconv.ParseInt(parts[2], 10, 64)
	return object{parts[0], parts[1], size}, err
}

// sizes returns the objects of the IDs that the quarantine has.
func (q *quarantine) sizes(ctx context.Context, ids []string) (map[string]object, error) {
	all := make(map[string]object, len(ids))
	err := q.run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), lines('\n', len(ids)+1, func(line string) error {
		o, err := parseObject(line)
		if err == nil && o.kind != "" {
			all[o.id] = o
		}
		return err
	}), "cat-file", "--batch-check")
	return all, err
}

// commit is a parsed commit, or a tag with its target as the only parent.
type commit struct {
	id, author, subject string
	parents             []string
	tag                 bool
}

// read parses commits and tags.
func (q *quarantine) read(ctx context.Context, objects []object) (map[string]*commit, error) {
	all := make(map[string]*commit, len(objects))
	var ids strings.Builder
	for _, o := range objects {
		if o.size > maxCommitBytes {
			return nil, fmt.Errorf("commit %s has %d bytes", o.id, o.size)
		}
		fmt.Fprintln(&ids, o.id)
	}
	err := q.run(ctx, strings.NewReader(ids.String()), func(r io.Reader) error {
		out := bufio.NewReader(r)
		for range objects {
			line, err := out.ReadString('\n')
			if err != nil {
				return err
			}
			o, err := parseObject(strings.TrimSuffix(line, "\n"))
			if err != nil || o.size > maxCommitBytes {
				return fmt.Errorf("git says %.100q of a commit", line)
			}
			text := make([]byte, o.size+1)
			if _, err := io.ReadFull(out, text); err != nil {
				return err
			}
			all[o.id] = parseCommit(o, string(text[:o.size]))
		}
		return nil
	}, "cat-file", "--batch")
	return all, err
}

func parseCommit(o object, text string) *commit {
	c := &commit{id: o.id, tag: o.kind == "tag"}
	head, message, _ := strings.Cut(text, "\n\n")
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case name == "parent" && !c.tag, name == "object" && c.tag:
			c.parents = append(c.parents, value)
		case name == "author", name == "tagger":
			value, _, _ = strings.Cut(value, "> ")
			c.author = oneLine(value+">", 120)
		}
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	c.subject = oneLine(subject, 160)
	return c
}

// oneLine returns foreign text as a line of at most n bytes.
func oneLine(text string, n int) string {
	return clip(strings.Join(strings.Fields(printable(text)), " "), n)
}

// printable replaces control characters but line breaks and tabs, and what is no
// text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r == 0x7f) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// packFile returns the pack that the client sent; nil: the push has none.
func (q *quarantine) packFile() (*os.File, error) {
	f, err := os.Open(q.packPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	return f, err
}
