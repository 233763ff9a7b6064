package token

import (
	"crypto/rand"
	"crypto/sha256"
)

// NewSecret returns the prefix and n random bytes in URL-safe base64.
func NewSecret(prefix string, n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // never fails: it ends the process instead
	return prefix + strictBase64.EncodeToString(b)
}

// HashSecret returns what is stored of a random secret: its SHA-256. No slow
// hash is needed, because what is hashed has 32 random bytes, which nobody can
// guess; never use it for what a person chose.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
