package cloudlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// journal reads the journal of systemd with journalctl, which alone knows the format of
// its files.
type journal struct {
	service, unit, directory string
}

var validUnit = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:_.\\@*-]*$`)

const maxUnit = 256

func openJournal(name, unit string, q url.Values) (backend, error) {
	if err := checkOptions(name, q, "directory"); err != nil {
		return nil, err
	}
	if len(unit) > maxUnit || unit != "" && !validUnit.MatchString(unit) {
		return nil, fmt.Errorf("the service %q has the unit %q; write journald:NAME.service, or journald: for the whole journal", name, unit)
	}
	if _, err := exec.LookPath("journalctl"); err != nil {
		return nil, fmt.Errorf("the service %q needs the program journalctl (Debian: apt-get install systemd): %w", name, err)
	}
	return &journal{name, unit, q.Get("directory")}, nil
}

func (b *journal) describe() Service { return Service{Name: b.service, Kind: "journald"} }

func (b *journal) query(ctx context.Context, q *Query, r *result) error {
	args := []string{
		"--reverse",
		"--since=@" + strconv.FormatInt(q.Since.Unix(), 10),
		"--until=@" + strconv.FormatInt(r.latest(q).Unix()+1, 10), // offer compares exactly
	}
	if q.Level > 0 {
		args = append(args, "--priority=0.."+strconv.Itoa(syslogPriority(q.Level)))
	}
	return b.read(ctx, args, func(cursor string, rec record, d parsedRecord) bool {
		return r.offer(q, cursor, rec.raw, d, rec.cut)
	})
}

// syslogPriority returns the largest priority of syslog that has at least the level.
func syslogPriority(l Level) int { return []int{7, 7, 6, 5, 4, 3, 2}[l-1] }

// validCursor are the cursors that journalctl prints: sequence, its number, boot,
// monotonic time, real time and a hash.
var validCursor = regexp.MustCompile(`^s=[0-9a-f]{32};i=[0-9a-f]+;b=[0-9a-f]{32};m=[0-9a-f]+;t=[0-9a-f]+;x=[0-9a-f]+$`)

func (b *journal) entry(ctx context.Context, text string) (found Entry, err error) {
	id, ok := parseRemoteID(text)
	if !ok || !validCursor.MatchString(id.key) {
		return found, unknownEntry()
	}
	// journalctl seeks to the nearest entry if there is none at the cursor.
	err = b.read(ctx, []string{"--cursor=" + id.key, "--lines=1"}, func(cursor string, rec record, d parsedRecord) bool {
		if cursor == id.key {
			found = remoteEntry(b.service, cursor, d, rec.cut)
		}
		return false
	})
	if err == nil && found.ID == "" {
		err = unknownEntry()
	}
	return found, err
}

// read passes entries to each until it returns false.
func (b *journal) read(caller context.Context, args []string, each func(cursor string, rec record, d parsedRecord) bool) error {
	ctx, stop := context.WithCancel(caller)
	defer stop()
	args = append([]string{"--no-pager", "--quiet", "--output=export", "--all"}, args...)
	if b.unit != "" {
		args = append(args, "--unit="+b.unit)
	}
	if b.directory != "" {
		args = append(args, "--directory="+b.directory)
	}
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.WaitDelay = time.Second
	var problems bytes.Buffer
	cmd.Stderr = &limitedBuffer{&problems, 4 << 10}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return journalUnavailable(err)
	}
	s, enough := newRecordReader(journalExport, newReader(out), 0), false
	for !enough && err == nil {
		var rec record
		if rec, err = s.next(); err == nil {
			d := journalExport.parse(rec.raw)
			_, cursor := firstField(d.fields, "__CURSOR")
			enough = !each(cursor, rec, d)
		}
	}
	if enough {
		stop()
	}
	ended := cmd.Wait()
	switch {
	case caller.Err() != nil:
		return caller.Err()
	case enough:
		return nil
	case !errors.Is(err, io.EOF):
		return journalUnavailable(err)
	case ended != nil:
		return journalUnavailable(fmt.Errorf("%w: %s", ended, strings.TrimSpace(problems.String())))
	}
	return nil
}

func journalUnavailable(err error) error {
	return action.Errorf(action.ErrUnavailable, sources.FaultFailed,
		"The journal cannot be read. Tell the user that the gateway's operator must check that journalctl works for the gateway's user (group systemd-journal).").WithCause(err)
}

// limitedBuffer keeps the first bytes that are written.
type limitedBuffer struct {
	*bytes.Buffer
	left int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}
