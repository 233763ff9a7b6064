package command

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// Names in a data folder and in a backup.
const (
	DatabaseFile   = "sallyport.db"
	TokenFile      = "token.key"
	MasterFile     = "master.key"
	EvidenceFolder = "evidence"
)

// EvidenceURL returns the URL of the evidence store in a data folder.
func EvidenceURL(data string) (string, error) {
	folder, err := filepath.Abs(filepath.Join(data, EvidenceFolder))
	if err != nil {
		return "", fmt.Errorf("finding the folder of evidence: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(folder)}).String(), nil
}

// Database is the flags of commands that open a database without a server.
type Database struct {
	Data        string `help:"Data folder (default: ${data})." placeholder:"DIR" type:"folder"`
	DatabaseURL string `help:"PostgreSQL URL: postgres://user:password@host/name." placeholder:"URL"`
	JSON        bool   `name:"json" help:"Print JSON."`
}

// DataFolder returns the default data folder.
func DataFolder() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sallyport")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ".sallyport"
	}
	return filepath.Join(home, ".local", "share", "sallyport")
}

// Fingerprint identifies a key without revealing it.
func Fingerprint(name string, key []byte) string {
	return hex.EncodeToString(Derive(key, "key check "+name))[:32]
}

// Derive derives a key for one purpose from another key, so that no key has two uses
// (HMAC-SHA256 as in HKDF's expansion, RFC 5869, for one block).
func Derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sallyport " + purpose + "\x01"))
	return mac.Sum(nil)
}

// Endpoint is the content of endpoint.json, which a running server keeps in its data
// folder so that commands on the same machine find it.
type Endpoint struct {
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

// EndpointPath returns the path of endpoint.json in a data folder.
func EndpointPath(data string) string { return filepath.Join(data, "endpoint.json") }

// Write replaces endpoint.json atomically. Only its owner can read it.
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

// LockFolder takes an exclusive lock on the data folder, which the kernel releases when
// the process ends. A SQLite database has a lock of its own. With PostgreSQL, only this
// lock keeps two instances from overwriting each other's endpoint.json.
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

// ReadEndpoint returns the endpoint of the server that runs on a data folder.
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
