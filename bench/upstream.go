package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// upstream is an MCP server with as little in it as the protocol allows, so
// that it does not dominate what is measured. It counts the writes it did.
type upstream struct {
	writes atomic.Int64
	lists  sync.Map // of int: the answer with so many tools
}

// many is the answer with so many tools. It is made once.
func (u *upstream) many(n int) string {
	if list, ok := u.lists.Load(n); ok {
		return list.(string)
	}
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"read_%d","description":"Reads the records of kind %d, newest first, and says which there are.","inputSchema":%s,"annotations":{"readOnlyHint":true}}`, i, i, toolSchema)
	}
	b.WriteString("]}")
	u.lists.Store(n, b.String())
	return b.String()
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

const (
	initializeResult = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`
	toolsResult      = `{"tools":[` +
		`{"name":"read","description":"Reads.","inputSchema":` + toolSchema + `,"annotations":{"readOnlyHint":true}},` +
		`{"name":"write","description":"Writes.","inputSchema":` + toolSchema + `,"annotations":{"readOnlyHint":false,"destructiveHint":false}}]}`
	toolSchema = `{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["n"]}`
)

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/writes" {
		fmt.Fprint(w, u.writes.Load())
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var req request
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &req) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	tools, _ := strconv.Atoi(path.Base(r.URL.Path))
	answer, found := u.answer(&req, tools)
	if !found {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, req.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, answer)
}

// answer is of a server with so many tools; zero: with one that reads and one
// that writes.
func (u *upstream) answer(req *request, tools int) (result string, found bool) {
	switch req.Method {
	case "initialize":
		return initializeResult, true
	case "ping":
		return `{}`, true
	case "tools/list":
		if tools > 0 {
			return u.many(tools), true
		}
		return toolsResult, true
	case "tools/call":
		if req.Params.Name == "write" {
			u.writes.Add(1)
		}
		return `{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum ", 20) + `"}],"structuredContent":{"ok":true,"name":"` + req.Params.Name + `"}}`, true
	}
	return "", false
}
