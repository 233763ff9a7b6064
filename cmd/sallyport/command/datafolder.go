package command

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// Names in a data folder; a backup has the same ones.
const (
	DatabaseFile   = "sallyport.db"
	TokenFile      = "token.key"
	MasterFile     = "master.key"
	EvidenceFolder = "evidence"
)

// EvidenceURL is where a data folder keeps evidence.
func EvidenceURL(data string) (string, error) {
	folder, err := filepath.Abs(filepath.Join(data, EvidenceFolder))
	if err != nil {
		return "", fmt.Errorf("finding the folder of evidence: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(folder)}).String(), nil
}

// Database says which database a migration is about.
type Database struct {
	Data        string `help:"Data folder (default: ${data})." placeholder:"DIR" type:"folder"`
	DatabaseURL string `help:"PostgreSQL URL: postgres://user:password@host/name." placeholder:"URL"`
	JSON        bool   `name:"json" help:"Print JSON."`
}

// DataFolder is where data lies when nothing is said.
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

// Fingerprint tells a key from others, and nothing of it.
func Fingerprint(name string, key []byte) string {
	return hex.EncodeToString(Derive(key, "key check "+name))[:32]
}

// Derive makes a key for one purpose out of another, so that none serves two
// (HMAC-SHA256 as in HKDF's expansion, RFC 5869, for one block).
func Derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sallyport " + purpose + "\x01"))
	return mac.Sum(nil)
}
