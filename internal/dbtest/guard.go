package dbtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// guardScript is the shell script between a test and its server. It makes the
// folder, prepares the data, starts the server and tells its process id; then
// it waits for a line "SIGNAL keep", or for the end of its input, which also
// comes when the test was killed. It repeats the signal, because a server that
// has not set up its handlers yet ignores it; one that does not react is
// killed. Two signals must not end it: PIPE, when nobody is left to hear the
// process id, and HUP, which the kernel sends when the test dies in a pause
// (with a CONT, so that the server can end).
const guardScript = `
dir=$1 default=$2
if ! [ -d "$dir" ]; then mkdir -m 700 "$dir" && chown "$3" "$dir" || exit 1; fi
cd "$dir" || exit 1
{ %s ; } >>log 2>&1 </dev/null || exit 1
%s >>log 2>&1 </dev/null &
server=$!
trap '' PIPE HUP
echo "$server"
exec >/dev/null 2>&1
read -r signal keep || signal=$default
n=0
while kill -s "$signal" "$server"; do
  n=$((n + 1))
  if [ "$n" -gt 750 ]; then signal=KILL; fi
  sleep 0.02
done
wait "$server"
if [ "$keep" != keep ]; then cd / && rm -rf "$dir"; fi
`

// guard is the shell that supervises one run of a server.
type guard struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	server int // process id
}

// startGuard runs prepare, then the server, and returns once the server was
// started, before it is ready. owner owns the folder; end is the signal that
// stops the server when the test process is gone.
func startGuard(dir, end, owner string, prepare, server []string) (*guard, error) {
	script := fmt.Sprintf(guardScript, shellQuote(prepare), shellQuote(server))
	cmd := exec.Command("sh", "-c", script, "sh", dir, end, owner) //nolint:noctx // it ends with its input, not with a context
	// Its own process group: a Ctrl-C is meant for the tests, whose end the
	// shell then notices.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &guard{cmd: cmd, stdin: orders}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if g.server, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		g.stop("")
		return nil, fmt.Errorf("its data could not be prepared: %s", logTail(dir))
	}
	return g, nil
}

// stop sends an order and waits for the shell; an empty order stops the server
// and removes its folder.
func (g *guard) stop(order string) {
	if order != "" {
		_, _ = io.WriteString(g.stdin, order+"\n") // a shell that is gone has done its work
	}
	_ = g.stdin.Close()
	_ = g.cmd.Wait() // its status is that of the server, which was killed
}

// shellQuote returns words as one shell command; none become a no-op.
func shellQuote(words []string) string {
	if len(words) == 0 {
		return ":"
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// logTail returns the end of a server's log.
func logTail(dir string) string {
	text, err := os.ReadFile(dir + "/log")
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}
