package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// endpoint is what a running server leaves in its data folder, so that
// commands on the same machine find it.
type endpoint struct {
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

func endpointPath(data string) string { return filepath.Join(data, "endpoint.json") }

// write puts the file in place whole, readable by its owner alone.
func (e endpoint) write(data string) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(data, "endpoint-*.json") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(append(b, '\n')); err == nil {
		err = tmp.Close()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", endpointPath(data), err)
	}
	return os.Rename(tmp.Name(), endpointPath(data))
}

// readEndpoint finds the server that runs on a data folder.
func readEndpoint(data string) (endpoint, error) {
	var e endpoint
	b, err := os.ReadFile(endpointPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("no server runs on %s: start one with `sallyport serve`, or say where it is with --data DIR, or with SALLYPORT_URL and SALLYPORT_API_KEY", data)
	}
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("%s is damaged (%w): restart the server", endpointPath(data), err)
	}
	return e, nil
}
