package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// asAdmin asks a server on this machine over HTTP.
func asAdmin(ts *testscript.TestScript, data, method, path, body string) (status int, head http.Header, raw []byte) {
	e, err := readEndpoint(ts.MkAbs(data))
	ts.Check(err)
	request, err := http.NewRequestWithContext(context.Background(), method, e.URL+path, strings.NewReader(body))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+e.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	raw, err = io.ReadAll(response.Body)
	ts.Check(err)
	return response.StatusCode, response.Header, raw
}

// decides DIR VERB BODY answers or refuses the newest request for variables.
func decides(ts *testscript.TestScript, _ bool, args []string) {
	_, _, raw := asAdmin(ts, args[0], "GET", "/api/v1/env-requests?status=pending&limit=1", "")
	var list struct{ Items []struct{ ID string } }
	ts.Check(json.Unmarshal(raw, &list))
	if len(list.Items) == 0 {
		ts.Fatalf("nothing is asked for: %s", raw)
	}
	if status, _, raw := asAdmin(ts, args[0], "POST", "/api/v1/env-requests/"+list.Items[0].ID+"/"+args[1], args[2]); status != http.StatusOK {
		ts.Fatalf("%d: %s", status, raw)
	}
}

// fetches DIR PATH writes what a person fetches, with its headers, to the file
// answer.
func fetches(ts *testscript.TestScript, _ bool, args []string) {
	_, headers, raw := asAdmin(ts, args[0], "GET", args[1], "")
	var head bytes.Buffer
	ts.Check(headers.Write(&head))
	ts.Check(os.WriteFile(ts.MkAbs("answer"), append(append(head.Bytes(), '\n'), raw...), 0o600))
}

// nowhere TEXT PATH... fails when a file below one of the paths has the text.
func nowhere(ts *testscript.TestScript, _ bool, args []string) {
	files := 0
	for _, root := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if files++; bytes.Contains(raw, []byte(args[0])) {
				ts.Fatalf("%s has it", path)
			}
			return err
		}))
	}
	if files == 0 {
		ts.Fatalf("there was no file to look into")
	}
}
