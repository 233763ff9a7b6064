package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// skewed builds the command once with a clock that can be set wrong.
var skewed = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "sallyport-skewed")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-tags", "skewedclock", "-o", path, "../cmd/sallyport")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command with a skewed clock: %w\n%s", err, out)
	}
	return path, nil
})

// The clocks of three gateways are two minutes fast, right and two minutes
// slow. On whichever a call is held, and on whichever it is approved, it
// expires when it should, is not withdrawn while its caller waits, and no
// execution is given up as lost. All three sweep: there is no Valkey to choose
// one.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	path, err := skewed()
	if err != nil {
		t.Fatal(err)
	}
	c := newServers(t, false)
	for _, skew := range []string{"2m", "0s", "-2m"} {
		g := c.prepare("gateway", "--abandon-after", "20s", "--seen-every", "500ms", "--call-timeout", "30s", "--clock-every", "1s")
		g.path, g.env = path, append(g.env, "SALLYPORT_CLOCK_SKEW="+skew)
	}
	c.skews(path)
	c.begin()

	begun, release := c.upstream.block("write")
	defer release()
	var calls []*calling
	for n := range 9 {
		calls = append(calls, c.write(c.gateways[n/3], n))
	}
	c.stays("pending")
	for n := range 9 {
		i := c.find(c.gateways[n%3], fmt.Sprintf("write %d", n), "pending")
		if age := time.Since(i.CreatedAt).Abs(); age > time.Minute {
			t.Errorf("held by %d: created_at is %v off", n/3, age)
		}
		if left := time.Until(i.ExpiresAt); left < 4*time.Minute || left > 6*time.Minute {
			t.Errorf("held by %d: it expires in %v, not in about five minutes", n/3, left)
		}
		c.gateways[n%3].approve(i.ID)
		<-begun
	}
	c.stays("executing")
	release()
	for n, call := range calls {
		c.once(c.gateways[n%3], fmt.Sprintf("write %d", n), call.wait())
	}
}

// skews makes sure that the clock of the command is wrong at all, by what says
// its own time: a migration of a file.
func (c *cluster) skews(path string) {
	c.t.Helper()
	env, data := []string{"SALLYPORT_CLOCK_SKEW=2m"}, c.t.TempDir()
	for _, args := range [][]string{{"migrate"}, {"migrate", "status", "--json"}} {
		ran := command(c.t, path, env, append(args, "--data", data)...)
		if ran.code != 0 {
			c.t.Fatalf("%v: %+v", args, ran)
		}
		if len(args) == 1 {
			continue
		}
		var list struct {
			Items []struct {
				AppliedAt time.Time `json:"applied_at"`
			} `json:"items"`
		}
		if err := json.Unmarshal([]byte(ran.out), &list); err != nil || len(list.Items) == 0 {
			c.t.Fatalf("%v: %v: %s", args, err, ran.out)
		}
		if ahead := time.Until(list.Items[0].AppliedAt); ahead < time.Minute {
			c.t.Fatalf("the clock is %v ahead, not two minutes: nothing is shown by this test", ahead)
		}
	}
}

// stays checks that all nine calls come to have the status, and keep it for
// several rounds of every gateway's sweep and of the notes that callers wait.
func (c *cluster) stays(status string) {
	c.t.Helper()
	count := func() int { return len(c.gateways[1].invocations("status=" + status)) }
	await(c.t, "all calls to be "+status, func() bool { return count() == 9 })
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if n := count(); n != 9 {
			c.t.Fatalf("%d calls are %s, not 9: %+v", n, status, c.gateways[1].invocations(""))
		}
	}
}
