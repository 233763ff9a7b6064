package mcpserver_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/mcpserver"
)

// told is how many ends are noted and how many signals were posted.
type told struct{ noted, ends, cancels int }

func (p *peers) told() told {
	p.mu.Lock()
	noted := len(p.ended)
	p.mu.Unlock()
	return told{noted, p.posted(mcpserver.SignalEnd), p.posted(mcpserver.SignalCancel)}
}

// What an agent has told to other instances is bounded, however many MCP
// sessions it opens, and costs no other agent anything.
func TestSignalRateLimit(t *testing.T) {
	var log bytes.Buffer
	var later atomic.Int64
	p := &peers{ended: map[string]time.Time{}}
	t.Cleanup(p.carried.Wait)
	start := func() *mcpserver.Server {
		s := newServer(t, newGate(read()), &hints{}, func(c *mcpserver.Config) {
			c.Peers, c.SessionKey = p, clusterKey
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		end(t, s)
		return s
	}
	here, there := start(), start()
	goodbye := func(token string) (id string) {
		id = begin(t, here, token)
		r := rpc(token, id, "")
		r.Method = http.MethodDelete
		if w := serve(here, r); w.Code != 204 {
			t.Fatal("DELETE:", w.Code, w.Body)
		}
		if w := serve(here, rpc(token, id, pingBody)); w.Code != 404 {
			t.Error("after the goodbye:", w.Code)
		}
		return id
	}
	check := func(when string, want told) {
		t.Helper()
		if got := p.told(); got != want {
			t.Errorf("%s peers are told %+v, want %+v", when, got, want)
		}
	}
	warned := func(want int) {
		t.Helper()
		if n := strings.Count(log.String(), "level=WARN"); n != want {
			t.Errorf("%d warnings, want %d:\n%s", n, want, &log)
		}
	}

	for range 119 {
		goodbye("token-a")
	}
	last := goodbye("token-a")
	check("of a minute's ends", told{120, 120, 0})
	warned(0)
	var beyond string
	for range 3 {
		beyond = goodbye("token-a")
	}
	check("of ends beyond", told{120, 120, 0})
	warned(1)
	for id, want := range map[string]int{last: 404, beyond: 200} {
		if w := serve(there, rpc("token-a", id, pingBody)); w.Code != want {
			t.Error("elsewhere:", w.Code, "want", want)
		}
	}
	goodbye("token-b")
	check("of another's end", told{121, 121, 0})

	for range 3 {
		id := begin(t, here, "token-a")
		for i := range 50 {
			if w := serve(here, rpc("token-a", id, cancelBody(fmt.Sprint(i), "stop"))); w.Code != 202 {
				t.Fatal("a cancel:", w.Code, w.Body)
			}
		}
	}
	check("of cancels", told{121, 121, 120})
	warned(2)

	here.Expire()
	if n := here.RateWindows(); n != 3 {
		t.Error("allowances in use:", n)
	}
	later.Store(int64(time.Minute))
	goodbye("token-a")
	check("a minute later", told{122, 122, 120})
	here.Expire()
	if n := here.RateWindows(); n != 1 {
		t.Error("allowances a minute later:", n)
	}
	warned(2)
}
