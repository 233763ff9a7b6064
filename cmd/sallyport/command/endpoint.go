package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Endpoint is what a running server leaves in its data folder, so that
// commands on the same machine find it.
type Endpoint struct {
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

func EndpointPath(data string) string { return filepath.Join(data, "endpoint.json") }

// Write puts the file in place whole, readable by its owner alone.
func (e Endpoint) Write(data string) error {
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
		return fmt.Errorf("writing %s: %w", EndpointPath(data), err)
	}
	return os.Rename(tmp.Name(), EndpointPath(data))
}

// LockFolder makes this process the only one whose endpoint.json may be in the
// folder. The kernel ends the claim with the process. The file of the rows has a
// lock of its own; where rows are in PostgreSQL this is all that keeps two
// instances from telling commands of each other.
func LockFolder(data string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(data, "endpoint.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claiming the data folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		by := "another process"
		if e, err := ReadEndpoint(data); err == nil {
			by = fmt.Sprintf("process %d", e.PID)
		}
		err = fmt.Errorf("the data folder %s is that of %s, whose endpoint.json is in it; give each instance on a machine its own with --data", data, by)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadEndpoint finds the server that runs on a data folder.
func ReadEndpoint(data string) (Endpoint, error) {
	var e Endpoint
	b, err := os.ReadFile(EndpointPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("no server runs on %s: start one with `sallyport serve`, or say where it is with --data DIR, or with SALLYPORT_URL and SALLYPORT_API_KEY", data)
	}
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("%s is damaged (%w): restart the server", EndpointPath(data), err)
	}
	return e, nil
}
