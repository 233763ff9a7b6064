package conformance_test

import (
	"fmt"
	"strings"
	"testing"
)

// The instance where a caller waits is killed. The call stays held; its caller
// comes back to any other instance, joins it and gets the one execution.
func TestHolderKilledWhileHeld(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	holder, other, approver := c.gateways[0], c.gateways[1], c.gateways[2]
	lost := c.write(holder, 1)
	held := approver.held()
	holder.kill()
	<-lost.done

	back := c.write(other, 1)
	back.holds()
	if again := approver.held(); again.ID != held.ID {
		t.Errorf("the returning caller's call is %s, not %s", again.ID, held.ID)
	}
	approver.approve(held.ID)
	c.once(approver, "write 1", back.wait())
}

// Nobody waits any more when a call is approved: another instance runs it
// after the grace, and the caller gets the result from whichever he asks.
func TestApprovedWithoutHolder(t *testing.T) {
	t.Parallel()
	for name, hints := range map[string]withValkey{"with Valkey": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3, hints)
			holder, other, approver := c.gateways[0], c.gateways[1], c.gateways[2]
			lost := c.write(holder, 1)
			held := approver.held()
			holder.kill()
			<-lost.done
			approver.approve(held.ID)
			other.ends(held.ID, "completed")
			c.once(other, "write 1", c.write(other, 1).wait())
		})
	}
}

// The holder stands still when a call is approved, so that it cannot claim it,
// and is killed so: another instance runs the call. One that only stood still
// finds out, runs nothing and answers its caller.
func TestHolderGoneBeforeItClaims(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	holder, other, approver := c.gateways[0], c.gateways[1], c.gateways[2]
	waiting := c.write(holder, 1)
	held := approver.held()
	holder.pause()
	approver.approve(held.ID)
	other.ends(held.ID, "completed")
	holder.resume()
	c.once(other, "write 1", waiting.wait())

	lost := c.write(holder, 2)
	held = approver.held()
	holder.pause()
	approver.approve(held.ID)
	holder.kill()
	<-lost.done
	other.ends(held.ID, "completed")
	c.once(approver, "write 2", c.write(approver, 2).wait())
}

// Who approved is killed as soon as its answer is out: the approval is in the
// row. The holder finds it, and when that is gone too, another instance does.
func TestApproverKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	holder, other, approver := c.gateways[0], c.gateways[1], c.gateways[2]
	waiting := c.write(holder, 1)
	held := approver.held()
	approver.approve(held.ID)
	approver.kill()
	c.once(other, "write 1", waiting.wait())

	approver.start()
	lost := c.write(holder, 2)
	held = approver.held()
	holder.pause()
	approver.approve(held.ID)
	approver.kill()
	holder.kill()
	<-lost.done
	other.ends(held.ID, "completed")
	c.once(other, "write 2", c.write(other, 2).wait())
}

// An instance dies while it executes: one call that it held, one that it took
// over from a dead holder, and one that policy allows. Nobody knows what became
// of them: that is what the rows say once the leases are over, and what
// everybody is told who waits, wherever he does. Nothing runs again.
func TestExecutorKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true, "--call-timeout", "8s", "--check-timeout", "5s", "--lease-margin", "500ms")
	holder, executor, other := c.gateways[0], c.gateways[1], c.gateways[2]
	begun, release := c.upstream.block("write")
	defer release()

	taken := c.write(holder, 1)
	id := other.held().ID
	holder.kill()
	other.pause() // so that it is the executor who takes over
	executor.approve(id)
	<-begun
	other.resume()
	own := c.write(executor, 2)
	other.approve(other.held().ID)
	<-begun
	other.mode(c.source+":write", "allow")
	allowed := c.write(executor, 3)
	<-begun
	if rows := other.invocations("status=executing"); len(rows) != 3 {
		t.Fatalf("%d calls are executing, not 3", len(rows))
	}
	executor.kill()
	for _, lost := range []*calling{taken, own, allowed} {
		<-lost.done
	}

	holder.start()
	var here, there []*calling
	for n := 1; n <= 3; n++ {
		here, there = append(here, c.write(holder, n)), append(there, c.write(other, n))
	}
	c.waits(holder, 3)
	c.waits(other, 3)
	for n := 3; n >= 1; n-- { // the shortest lease first
		c.unknown(holder, n, here[n-1].wait())
		c.unknown(other, n, there[n-1].wait())
	}
	if rows := other.invocations(""); len(rows) != 3 || c.upstream.total() != 3 {
		t.Errorf("%d effects have the rows %+v", c.upstream.total(), rows)
	}
}

// unknown checks what is known of a write whose executor is gone.
func (c *cluster) unknown(g *gateway, n int, got answer) {
	c.t.Helper()
	if !got.Result.IsError || !strings.Contains(got.text(), "outcome is unknown") {
		c.t.Errorf("the caller of write %d was answered with %+v, error %+v", n, got, got.Error)
	}
	effect := fmt.Sprintf("write %d", n)
	if i := c.find(g, effect, "failed"); i.code() != "outcome_unknown" || !strings.Contains(i.Error.Message, "lost track") {
		c.t.Errorf("the row of %q is %+v, error %+v", effect, i, i.Error)
	}
	c.effects(effect, 1)
}

// An executor that stood still for longer than its lease comes back with a
// result. It was given up: the row stays as it is, and its own caller is told
// the same as all others.
func TestExecutorComesBackTooLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, true, "--call-timeout", "3s", "--check-timeout", "5s", "--lease-margin", "500ms")
	executor, other := c.gateways[0], c.gateways[1]
	other.mode(c.source+":write", "allow")
	begun, release := c.upstream.block("write")
	defer release()
	first := c.write(executor, 1)
	<-begun
	executor.pause()
	release()
	joined := c.write(other, 1).wait()
	for strings.Contains(joined.text(), "so it was not started") { // the database was too busy for a moment
		joined = c.write(other, 1).wait()
	}
	c.unknown(other, 1, joined)
	executor.resume()
	c.unknown(other, 1, first.wait())
}
