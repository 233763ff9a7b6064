package token

import (
	"crypto/rand"
	"crypto/sha256"
)

// NewSecret returns the prefix and n random bytes in URL-safe base64.
func NewSecret(prefix string, n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // never returns an error: it aborts the process
	return prefix + strictBase64.EncodeToString(b)
}

// HashSecret returns the SHA-256 of a random secret, for storage. A slow hash
// is not needed for 32 random bytes; never use it for a password.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
