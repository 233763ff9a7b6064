package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// memory is what a gateway says that it uses, in bytes.
type memory struct {
	Resident float64 // of the process, for the system
	Heap     float64 // of Go: what lives, and what is not collected yet
	Stacks   float64 // of Go's goroutines
}

// watch looks at the gateway's memory once a second. It returns the most that
// was resident, and the least that was in the heap and in stacks: soon after a
// collection that is what lives. To see both it has to watch for longer than
// there is between two collections.
func (g *gateway) watch(ctx context.Context, within time.Duration) (memory, error) {
	seen, err := g.memory(ctx)
	for end := time.Now().Add(within); err == nil && time.Now().Before(end); {
		time.Sleep(time.Second)
		var now memory
		now, err = g.memory(ctx)
		seen = memory{max(seen.Resident, now.Resident), min(seen.Heap, now.Heap), min(seen.Stacks, now.Stacks)}
	}
	return seen, err
}

func (g *gateway) memory(ctx context.Context) (memory, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/metrics", nil)
	if err != nil {
		return memory{}, err
	}
	response, err := g.client.Do(request)
	if err != nil {
		return memory{}, err
	}
	defer response.Body.Close()
	return parseMemory(response.Body)
}

func parseMemory(r io.Reader) (m memory, err error) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "process_resident_memory_bytes":
			m.Resident, err = strconv.ParseFloat(value, 64)
		case "go_memstats_heap_inuse_bytes":
			m.Heap, err = strconv.ParseFloat(value, 64)
		case "go_memstats_stack_inuse_bytes":
			m.Stacks, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return m, err
		}
	}
	if m.Resident == 0 || m.Heap == 0 || m.Stacks == 0 {
		return m, fmt.Errorf("the gateway's /metrics do not tell its memory")
	}
	return m, nil
}

// raiseFiles lets this process, and those that it starts, have so many
// connections.
func raiseFiles(connections int) error {
	want := uint64(connections) + 2000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur, limit.Max = max(limit.Cur, want), max(limit.Max, want)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d connections need a limit of %d open files (ulimit -n), or fewer with -held-sessions: %w", connections, want, err)
	}
	return nil
}
