package action

import "time"

// Observer is told of calls while they go their way, for what operators watch.
// Many goroutines call it at once, and calls wait for it: it must be quick, block
// for nothing, change nothing that it is given, and keep none of it.
type Observer interface {
	// Decided is told what policy said of a call, and how long it took to find
	// and check the action and to decide. A call that lost a race is decided
	// again, and told again.
	Decided(a *Action, d *Decision, took time.Duration)
	// Refused is told why a call got no row.
	Refused(err error)
	// Changed is told of an invocation with a new status which this instance
	// wrote down; of an execution that nobody approved only its end.
	Changed(inv *Invocation)
	// Ran is told of an execution by this instance: how it ended, and how long
	// the source took.
	Ran(inv *Invocation, ended Status, took time.Duration)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Decided(*Action, *Decision, time.Duration) {}
func (nobody) Refused(error)                             {}
func (nobody) Changed(*Invocation)                       {}
func (nobody) Ran(*Invocation, Status, time.Duration)    {}
