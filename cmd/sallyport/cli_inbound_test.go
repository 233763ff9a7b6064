package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/ingest/event"
)

// post URL SECRET ID BODY posts what a sender would, signed as Standard Webhooks
// says, and prints the status that it is answered with.
func post(ts *testscript.TestScript, _ bool, args []string) {
	now, body := time.Now(), []byte(args[3])
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, args[0], strings.NewReader(args[3]))
	ts.Check(err)
	request.Header.Set("Webhook-Id", args[2])
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", event.SignStandard(args[2], now, body, []byte(args[1])))
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write([]byte(strconv.Itoa(response.StatusCode) + "\n"))
	ts.Check(err)
}

// eventually COMMAND ARGS… runs a command that prints a table until there is a
// row in it.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	prints := func() bool {
		ts.Check(ts.Exec(args[0], args[1:]...))
		return strings.Count(ts.ReadFile("stdout"), "\n") > 1
	}
	if !comes(prints) {
		ts.Fatalf("%s printed no row within %v", strings.Join(args, " "), waitAtMost)
	}
}
