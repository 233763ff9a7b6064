package cloudlogs_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/sources/cloudlogs"
)

// Files of all kinds that overlap in time, lines out of order by a little, and
// pages of any size: everything is told once, the newest first.
func TestPagesTellEverythingOnce(t *testing.T) {
	d := newDesk(t)
	random := rand.New(rand.NewPCG(1, 2))
	var all int
	for f, name := range []string{"api.log", "api.log.1", "api.log.2.gz", "api.log.3.gz", "api.log-export"} {
		var b bytes.Buffer
		for i := range 40 {
			ago := time.Duration(f)*7*time.Minute + time.Duration(40-i)*15*time.Second + time.Duration(random.IntN(4000))*time.Millisecond
			if name == "api.log-export" {
				fmt.Fprintf(&b, "__REALTIME_TIMESTAMP=%d\nPRIORITY=6\nMESSAGE=%s-%d\n\n", noon.Add(-ago).UnixMicro(), name, i)
			} else {
				b.WriteString(line(ago.Truncate(time.Second), "info", fmt.Sprintf("%s-%d", name, i)))
			}
			all++
		}
		d.write(name, b.Bytes(), noon.Add(-time.Duration(f)*7*time.Minute))
	}
	for _, limit := range []int{3, 7, 100} {
		seen := map[string]bool{}
		var last time.Time
		cursor := ""
		for range 1000 {
			p := d.query(fmt.Sprintf(`{"service":"api","since":"2h","limit":%d,"cursor":%q}`, limit, cursor))
			for _, e := range p.Entries {
				if seen[e.ID] || !last.IsZero() && e.Time.After(last) {
					t.Fatalf("limit %d: %s at %v after %v, seen %v", limit, e.Message, e.Time, last, seen[e.ID])
				}
				seen[e.ID], last = true, e.Time
			}
			if cursor = p.Cursor; cursor == "" {
				break
			}
		}
		if len(seen) != all {
			t.Errorf("limit %d: %d of %d entries", limit, len(seen), all)
		}
	}
}

// An id leads to its entry, also when the file was renamed or compressed or has
// grown, and to nothing else.
func TestIDs(t *testing.T) {
	d := newDesk(t)
	content := line(30*time.Minute, "info", "a") + "Traceback\n" + line(20*time.Minute, "info", "b") + "not json\n" + line(10*time.Minute, "info", "c")
	d.write("api.log", []byte(content), noon)
	d.write("worker.log", []byte(line(time.Minute, "info", "other")+strings.Repeat("x", len(content))), noon)
	entries := d.query(`{"service":"api"}`).Entries
	if len(entries) != 5 {
		t.Fatalf("got %d", len(entries))
	}
	same := func(when string) {
		t.Helper()
		for _, want := range entries {
			var got cloudlogs.Entry
			if err := d.run("get_log_entry", fmt.Sprintf(`{"id":%q}`, want.ID), &got); err != nil {
				t.Errorf("%s: %q: %v", when, want.Message, err)
			} else if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
				t.Errorf("%s: got %s, want %s", when, a, b)
			}
		}
	}
	same("at once")
	d.write("api.log", []byte(content+line(0, "info", "d")), noon)
	same("when it has grown")
	if err := os.Rename(filepath.Join(d.dir, "api.log"), filepath.Join(d.dir, "api.log.1")); err != nil {
		t.Fatal(err)
	}
	d.write("api.log", []byte(line(0, "info", "new")), noon)
	same("when it was renamed")
	_ = os.Remove(filepath.Join(d.dir, "api.log.1"))
	d.write("api.log.2.gz", []byte(content), noon)
	same("when it was compressed")

	raw, _ := base64.RawURLEncoding.DecodeString(entries[1].ID)
	for i := range raw {
		bad := slices.Clone(raw)
		bad[i]++
		d.refused("get_log_entry", fmt.Sprintf(`{"id":%q}`, base64.RawURLEncoding.EncodeToString(bad)), "unknown_entry", "ids")
	}
	moved := append(slices.Clone(raw[:len(raw)-len("api")]), "worker"...)
	d.refused("get_log_entry", fmt.Sprintf(`{"id":%q}`, base64.RawURLEncoding.EncodeToString(moved)), "unknown_entry", "ids")
	d.write("api.log.2.gz", []byte(strings.Replace(content, `"b"`, `"B"`, 1)), noon)
	d.refused("get_log_entry", fmt.Sprintf(`{"id":%q}`, entries[2].ID), "unknown_entry", "ids")
}

// Whoever knows what a part of a line says cannot get an entry from within.
func TestIDsWithinALine(t *testing.T) {
	d := newDesk(t)
	first := line(time.Minute, "info", "a")
	d.write("api.log", []byte(first), noon)
	d.write("journal", fmt.Appendf(nil, "__REALTIME_TIMESTAMP=%d\nMESSAGE=b\n\n", noon.UnixMicro()), noon)
	for service, rest := range map[string]string{"api": first[1 : len(first)-1], "journal": fmt.Sprintf("_REALTIME_TIMESTAMP=%d\nMESSAGE=b\n", noon.UnixMicro())} {
		at := d.query(fmt.Sprintf(`{"service":%q}`, service)).Entries[0]
		d.refused("get_log_entry", fmt.Sprintf(`{"id":%q}`, cloudlogs.ForgeID(at.ID, 1, rest)), "unknown_entry", "ids")
		var same cloudlogs.Entry
		if service == "api" {
			rest = "{" + rest
		} else {
			rest = "_" + rest
		}
		if err := d.run("get_log_entry", fmt.Sprintf(`{"id":%q}`, cloudlogs.ForgeID(at.ID, 0, rest)), &same); err != nil {
			t.Errorf("%s: the forged id of the whole entry does not work: %v", service, err)
		}
	}
}

// Lines without a time have that of the line before; where there is none, they
// are counted.
func TestLinesWithoutATime(t *testing.T) {
	d := newDesk(t)
	d.write("api.log", []byte("banner\n\n"+line(30*time.Minute, "error", "boom")+"  at x\n  at y\n"+line(10*time.Minute, "info", "fine")), noon)
	if got := d.messages(`{"service":"api"}`); got != "fine   at y   at x boom" {
		t.Errorf("got %q", got)
	}
	p := d.query(`{"service":"api"}`)
	if p.Untimed != 1 || !p.Entries[1].Time.Equal(noon.Add(-30*time.Minute)) || p.Entries[1].Fields != nil {
		t.Errorf("got %+v", p)
	}
	if got := d.messages(`{"service":"api","since":"20m"}`); got != "fine" {
		t.Errorf("got %q", got)
	}
}

// A line that is being written is left out, unless it only lacks its end.
func TestLinesThatAreBeingWritten(t *testing.T) {
	d := newDesk(t)
	whole := line(time.Minute, "info", "whole")
	d.write("api.log", []byte(line(2*time.Minute, "info", "first")+whole[:len(whole)-5]), noon)
	if got := d.messages(`{"service":"api"}`); got != "first" {
		t.Errorf("got %q", got)
	}
	d.write("api.log", []byte(line(2*time.Minute, "info", "first")+whole[:len(whole)-1]), noon)
	if got := d.messages(`{"service":"api"}`); got != "whole first" {
		t.Errorf("got %q", got)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	d := newDesk(t)
	long := `{"time":"` + noon.Add(-time.Minute).Format(time.RFC3339) + `","level":"error","msg":"start","huge":"` + strings.Repeat("x", 700_000) + `","tail":"end"}` + "\n"
	content := []byte(line(2*time.Minute, "info", "before") + long + line(0, "info", "after"))
	d.write("api.log", content, noon)
	d.write("api.log.1.gz", append([]byte(line(3*time.Minute, "info", "zipped")), long...), noon)
	p := d.query(`{"service":"api"}`)
	var got []string
	for _, e := range append(p.Entries, d.query(fmt.Sprintf(`{"service":"api","cursor":%q}`, p.Cursor)).Entries...) {
		got = append(got, fmt.Sprint(e.Message, e.Cut, e.Level))
		var again cloudlogs.Entry
		if err := d.run("get_log_entry", fmt.Sprintf(`{"id":%q}`, e.ID), &again); err != nil || again.Message != e.Message || again.Cut != e.Cut {
			t.Errorf("%s again: %+v, %v", e.Message, again, err)
		}
	}
	if want := "[afterfalseinfo starttrueerror starttrueerror beforefalseinfo zippedfalseinfo]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A page has a size, too.
func TestPagesAreBounded(t *testing.T) {
	d := newDesk(t)
	var b bytes.Buffer
	for i := range 12 {
		pad := strings.Repeat("x", []int{10, 180_000, 200_000}[i%3])
		b.WriteString(line(time.Duration(20-i)*time.Minute, "info", fmt.Sprint(i), `,"pad":"`+pad+`"`))
	}
	d.write("api.log", b.Bytes(), noon)
	n, cursor := 0, ""
	for {
		p := d.query(fmt.Sprintf(`{"service":"api","limit":100,"cursor":%q}`, cursor))
		raw, _ := json.Marshal(p)
		if len(raw) > 600<<10 || len(p.Entries) == 0 {
			t.Fatalf("%d entries in %d bytes", len(p.Entries), len(raw))
		}
		n += len(p.Entries)
		if cursor = p.Cursor; cursor == "" {
			break
		}
	}
	if n != 12 {
		t.Errorf("%d entries", n)
	}
}
