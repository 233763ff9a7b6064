package server

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"sallyport/cmd/sallyport/command"
)

// movedTo is the database as it will be found at another address.
func movedTo(t *testing.T, database, host string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}

// starts begins a gateway on a database that is waited for so long, and ends it
// when it has started.
func starts(t *testing.T, database string, wait time.Duration) (log *tape, ended chan error) {
	t.Helper()
	log, ended = &tape{}, make(chan error, 1)
	o := Options{Listen: "127.0.0.1:0", Data: t.TempDir(), DatabaseURL: database, DatabaseWait: wait}
	go func() {
		g, _, err := startGateway(t.Context(), o, &command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: log}, (*Gateway).openInbound)
		if err == nil {
			g.Close()
		}
		ended <- err
	}()
	return log, ended
}

func TestDatabaseThatComesLaterIsWaitedFor(t *testing.T) {
	t.Parallel()
	database := postgresTables(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	closed, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := closed.Addr().String()
	closed.Close()
	log, ended := starts(t, movedTo(t, database, at), time.Hour)
	for end := time.Now().Add(waitAtMost); !strings.Contains(log.String(), "waiting for the database"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not wait: %s", log)
		}
	}
	door, err := lc.Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	go forward(t.Context(), door, u.Host)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(waitAtMost):
		t.Error("it did not start when the database came")
	}
}

// forward hands every connection on to a server.
func forward(ctx context.Context, door net.Listener, to string) {
	var dialer net.Dialer
	for {
		in, err := door.Accept()
		if err != nil {
			return
		}
		out, err := dialer.DialContext(ctx, "tcp", to)
		if err != nil {
			in.Close()
			return
		}
		go func() { _, _ = io.Copy(out, in); out.Close() }()
		go func() { _, _ = io.Copy(in, out); in.Close() }()
	}
}

func TestWhatIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	database := postgresTables(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nowhere"
	for name, c := range map[string]struct {
		database, says string
		wait           time.Duration
	}{
		"nothing is waited for": {movedTo(t, database, "127.0.0.1:1"), "cannot be reached; check that it is running", 0},
		"no such database":      {u.String(), "does not exist (SQLSTATE 3D000); create it first (createdb", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			log, ended := starts(t, c.database, c.wait)
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(waitAtMost):
				t.Fatalf("it waits: %s", log)
			}
		})
	}
}
