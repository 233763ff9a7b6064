package cloudlogs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sallyport/sources/cloudlogs"
)

func TestTimes(t *testing.T) {
	at := time.Date(2026, 3, 1, 11, 59, 58, 123_000_000, time.UTC)
	for s, want := range map[string]time.Time{
		"2026-03-01T11:59:58.123Z": at, "2026-03-01T12:59:58.123+01:00": at, "2026-03-01 11:59:58.123Z": at, "2026-03-01T12:59:58.123+0100": at,
		fmt.Sprint(at.Unix()): at.Truncate(time.Second), fmt.Sprint(at.UnixMilli()): at, fmt.Sprint(at.UnixMicro()): at, fmt.Sprint(at.UnixNano()): at,
		fmt.Sprintf("%d.123", at.Unix()): at, fmt.Sprintf("%d.0", at.UnixMilli()): at,
		"": {}, "0": {}, "-5": {}, "NaN": {}, "1e300": {}, "now": {}, "9999-01-01T00:00:00Z": {}, "99999999999999999999": {},
	} {
		if got := cloudlogs.ParseTime(s); !got.Equal(want) {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

func TestLevels(t *testing.T) {
	for raw, want := range map[string]string{
		`{"level":"WARN"}`: "warning", `{"severity":"Error"}`: "error", `{"level":"fatal"}`: "critical", `{"level":"loud"}`: "", `{}`: "",
		`{"level":30}`: "info", `{"level":60}`: "critical", `{"level":10}`: "trace", `{"level":70}`: "", `{"level":-10}`: "", `{"level":3}`: "",
		`{"PRIORITY":"3"}`: "error", `{"PRIORITY":"0"}`: "critical", `{"PRIORITY":7}`: "debug", `{"PRIORITY":"8"}`: "",
		`{"severity":500}`: "error", `{"severity":300}`: "notice", `{"severity":900}`: "",
	} {
		if got := cloudlogs.LevelOf(raw + "\n"); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}

// binaryField writes a field as the journal does that may hold anything.
func binaryField(name string, content []byte) string {
	size := binary.LittleEndian.AppendUint64(nil, uint64(len(content)))
	return name + "\n" + string(size) + string(content) + "\n"
}

func TestExportedJournals(t *testing.T) {
	d := newDesk(t)
	entry := func(ago time.Duration, rest string) string {
		return fmt.Sprintf("__CURSOR=s=1;i=%d\n__REALTIME_TIMESTAMP=%d\n%s\n", ago, noon.Add(-ago).UnixMicro(), rest)
	}
	d.write("journal", []byte(
		entry(4*time.Minute, "PRIORITY=6\nMESSAGE=plain=text\n_SYSTEMD_UNIT=a.service\n")+
			entry(3*time.Minute, "PRIORITY=3\n"+binaryField("MESSAGE", []byte("two\n\nlines\nMESSAGE=fake\n\n")))+"\n\n"+
			entry(2*time.Minute, "_X=1\n_X=2\n_X=3\n"+binaryField("BLOB", []byte{0xff, 0, '\n', '\n'})+"MESSAGE=blob\n")+
			entry(time.Minute, "MESSAGE=last\n")+
			strings.TrimSuffix(entry(0, "MESSAGE=not whole\n"), "\n")), noon)
	d.write("journal.json", []byte(fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"%d","PRIORITY":"4","MESSAGE":"as json","X":null,"Y":["1","2"],"Z":[255,0]}`+"\n",
		noon.Add(-30*time.Second).UnixMicro())), noon)
	if got := d.messages(`{"service":"journal"}`); got != "as json last blob two\n\nlines\nMESSAGE=fake\n\n plain=text" {
		t.Errorf("got %q", got)
	}
	if got := d.messages(`{"service":"journal","level":"warning"}`); got != "as json two\n\nlines\nMESSAGE=fake\n\n" {
		t.Errorf("got %q", got)
	}
	if got := d.messages(`{"service":"journal","fields":{"_SYSTEMD_UNIT":"a.service"}}`); got != "plain=text" {
		t.Errorf("got %q", got)
	}
	blob := d.query(`{"service":"journal","text":"blob"}`).Entries[0]
	var fields map[string]any
	if err := json.Unmarshal(blob.Fields, &fields); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]any{"1", "2", "3"}, fields["_X"]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]any{"base64": "/wAKCg=="}, fields["BLOB"]); d != "" {
		t.Error(d)
	}
	var again cloudlogs.Entry
	if err := d.run("get_log_entry", fmt.Sprintf(`{"id":%q}`, blob.ID), &again); err != nil || again.Message != "blob" {
		t.Errorf("%+v, %v", again, err)
	}
}

// A huge field neither fills the memory nor hides the entries behind it.
func TestHugeFieldsOfJournals(t *testing.T) {
	huge := bytes.Repeat([]byte("x\n\n"), cloudlogs.MaxRecord)
	list, export, _ := cloudlogs.Forward([]byte("A=1\n" + binaryField("HUGE", huge) + "B=2\n\nA=2\nMESSAGE=next\n\n"))
	if !export || len(list) != 2 || !list[0].Cut || len(list[0].Raw) != cloudlogs.MaxRecord || list[1].Message != "next" {
		t.Errorf("%d records", len(list))
	}
	for _, broken := range []string{
		"A\n\xff\xff\xff\xff\xff\xff\xff\xff", "A\n\x05", "A\n\x05\x00\x00\x00\x00\x00\x00\x00abc",
		"A\n\xff\xff\xff\xff\xff\xff\xff\xff\nB=1\n\n",
		"A=1\nB\n\xff\xff\xff\xff\xff\xff\xff\x7fabc\n\n",
	} {
		if list, _, _ := cloudlogs.Forward([]byte(broken)); len(list) != 0 {
			t.Errorf("%q: %+v", broken, list)
		}
	}
}

// virtual is a file of lines of 100 bytes, one each millisecond.
type virtual struct {
	size int64
	read int64
}

func (v *virtual) ReadAt(p []byte, at int64) (int, error) {
	n := 0
	for n < len(p) && at < v.size {
		text := fmt.Sprintf(`{"ts":%d,"msg":"`, noon.UnixMilli()+at/100)
		text += strings.Repeat("x", 97-len(text)) + "\"}\n"
		k := copy(p[n:], text[at%100:])
		n, at = n+k, at+int64(k)
	}
	v.read += int64(n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// A time in the middle of a huge file is found without reading it.
func TestHugeFilesAreNotRead(t *testing.T) {
	v := &virtual{size: 100 << 30}
	want := v.size / 300
	got := cloudlogs.After(v, v.size, noon.Add(time.Duration(want)*time.Millisecond))
	if got <= want*100 || got > want*100+2<<20 || got%100 != 0 || v.read > 8<<20 {
		t.Errorf("found %d for %d after %d bytes", got, want*100, v.read)
	}
	if got := cloudlogs.After(v, v.size, noon.AddDate(100, 0, 0)); got != v.size {
		t.Errorf("found %d, not the end", got)
	}
}

// Read forward or backward, the lines are the same.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n\nx\n{\"b\":\"\xff\"}"), 1)
	f.Add([]byte("x"), 30000)
	f.Fuzz(func(t *testing.T, content []byte, times int) {
		content = bytes.Repeat(content, 1+max(0, min(times, 40000, 700_000/(len(content)+1))))
		forward, export, fields := cloudlogs.Forward(content)
		for i, raw := range fields {
			if raw != nil && !json.Valid(raw) || !utf8.ValidString(forward[i].Message) && !export {
				t.Fatalf("%q has %q", forward[i].Raw, raw)
			}
			if !strings.HasPrefix(string(content[forward[i].Offset:]), forward[i].Raw) {
				t.Fatalf("%+v is not at its offset", forward[i])
			}
		}
		if export {
			return
		}
		backward := cloudlogs.Backward(content)
		slices.Reverse(backward)
		if d := cmp.Diff(forward, backward); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzExport(f *testing.F) {
	f.Add([]byte("A=1\n" + binaryField("B", []byte("x\n\n")) + "\nA=2\n\n"))
	f.Add([]byte("A\n\xff\xff\xff\xff\xff\xff\xff\xff\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, _, fields := cloudlogs.Forward(append([]byte("A=1\n"), content...))
		for i, raw := range fields {
			if raw != nil && !json.Valid(raw) {
				t.Fatalf("%q has %q", list[i].Raw, raw)
			}
		}
	})
}

func FuzzHandedOut(f *testing.F) {
	f.Add("AQ")
	f.Add(strings.Repeat("A", 40))
	f.Fuzz(func(t *testing.T, s string) {
		if again, ok := cloudlogs.ParseID(s); ok && again != s {
			t.Errorf("%q is read as %q", s, again)
		}
		if again, ok := cloudlogs.ParseCursor(s); ok && again != s {
			t.Errorf("%q is read as %q", s, again)
		}
		if at := cloudlogs.ParseTime(s); !at.IsZero() && (at.Year() < 1971 || at.Year() > 2200) {
			t.Errorf("%q is %v", s, at)
		}
	})
}
