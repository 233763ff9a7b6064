package store_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/store"
)

// crashPath tells the test binary to be the process that is killed.
const crashPath = "SALLYPORT_TEST_CRASH_PATH"

// crashIfTold makes this process the one that is killed.
func crashIfTold() {
	path := os.Getenv(crashPath)
	if path == "" {
		return
	}
	if err := work(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// work calls without end and prints each acknowledgement once it has it.
func work(path string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Config{Path: path})
	if err != nil {
		return err
	}
	s, err := db.CreateSession(ctx, action.Session{Organization: store.DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		return err
	}
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	for worker := range 8 {
		go func() {
			for i := 0; ; i++ {
				d := crashDraft(s, fmt.Sprintf(`{"worker":%d,"i":%d}`, worker, i))
				read := i%2 == 0
				d.Snapshot, d.Joins = read, !read
				if _, err := db.Begin(ctx, d); err != nil {
					say("error %v", err)
					return
				}
				if read {
					say("queued %d %s", worker, d.ID)
				} else {
					say("began %s", d.ID)
				}
				if i%3 == 0 {
					continue // never ends
				}
				_, recorded, err := db.Finish(ctx, &action.Finish{
					Organization: d.Organization, ID: d.ID, Executor: d.Executor, Status: action.StatusCompleted, Now: time.Now(),
				})
				if err != nil || !recorded {
					say("error %v", err)
					return
				}
				say("ended %s", d.ID)
			}
		}()
	}
	select {}
}

func crashDraft(s action.Session, params string) *action.Draft {
	now := time.Now()
	return &action.Draft{
		Invocation: action.Invocation{
			ID: uuid.Must(uuid.NewV7()).String(), Organization: s.Organization, Session: s.ID, Source: "linear", SourceName: "Linear", Action: "x",
			Risk: action.RiskWrite, Mode: action.ModeAllow, ModeSource: action.LayerOrganization, Status: action.StatusExecuting,
			Params: json.RawMessage(params), ParamsHash: params, CreatedAt: now,
		},
		PolicyVersion: 1, Executor: "e", LeaseUntil: now.Add(time.Minute),
	}
}

// TestKilledProcess kills a process in the middle of its writes. All that it
// was told to be durable must be there; of what was queued, nothing may be there
// without its end whose predecessor is not: reads that have ended pass those that
// are still under way.
func TestKilledProcess(t *testing.T) {
	for round := range 3 {
		path := filepath.Join(t.TempDir(), "s.db")
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashPath+"="+path)
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for in := bufio.NewScanner(pipe); in.Scan(); {
			lines = append(lines, in.Text())
			if len(lines) == 500*(round+1) {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		checkCrash(t, path, lines)
	}
}

func checkCrash(t *testing.T, path string, lines []string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	load := func(id string) (action.Status, bool) {
		rec, err := db.Load(t.Context(), store.DefaultOrganization, id)
		return rec.Status, err == nil
	}
	queued := map[string][]string{}
	counts := map[string]int{}
	for i, line := range lines {
		what, rest, ok := strings.Cut(line, " ")
		if i == len(lines)-1 && len(rest) < 36 {
			continue // cut off by the kill
		}
		counts[what]++
		status, there := load(rest)
		switch {
		case !ok || what == "error":
			t.Fatalf("the process said %q", line)
		case what == "queued":
			worker, id, _ := strings.Cut(rest, " ")
			queued[worker] = append(queued[worker], id)
		case !there:
			t.Fatalf("%s is lost", line)
		case what == "ended" && status != action.StatusCompleted:
			t.Fatalf("%s is %s", line, status)
		}
	}
	for worker, ids := range queued {
		lost := ""
		for _, id := range ids {
			if status, there := load(id); !there {
				lost = id
			} else if lost != "" && status == action.StatusExecuting {
				t.Fatalf("worker %s: %s is there, and %s before it is lost", worker, id, lost)
			}
		}
	}
	if counts["ended"] < 50 || counts["queued"] < 50 {
		t.Fatalf("too little happened: %v", counts)
	}
	alone := action.SweepRules{Now: time.Now(), SoleInstance: "the next one", Limit: 500}
	for {
		done, err := db.Sweep(t.Context(), alone)
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Ended) == 0 {
			return
		}
		for _, inv := range done.Ended {
			if inv.Error == nil || inv.Error.Code != action.FailedUnknown {
				t.Fatalf("swept %+v", inv)
			}
		}
	}
}
