package token

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"sallyport/action"
)

// An API key is the prefix, the row's id as 32 hex digits, and 32 random
// bytes as 43 characters of base64.
const (
	idDigits     = 32
	secretBytes  = 32
	secretDigits = 43
)

// NewAPIKey returns a new key, the ID (a UUID) of its row and the hash to
// store.
func NewAPIKey() (id, key string, hash []byte) {
	digits := newID()
	key = NewSecret(APIKeyPrefix+digits, secretBytes)
	return formatUUID(digits), key, HashSecret(key)
}

// ParseAPIKey returns the ID of the key's row and the hash to compare with the
// row's, using [crypto/hmac.Equal]. The error is an [action.Error] of kind
// ErrUnauthenticated.
func ParseAPIKey(key string) (id string, hash []byte, err error) {
	text, ok := strings.CutPrefix(key, APIKeyPrefix)
	if !ok || len(text) != idDigits+secretDigits || strings.Trim(text[:idDigits], "0123456789abcdef") != "" {
		return "", nil, action.NewError("invalid_api_key", APIKeyPrefix, len(APIKeyPrefix)+idDigits+secretDigits)
	}
	return formatUUID(text[:idDigits]), HashSecret(key), nil
}

// newID returns the hex digits of a random UUID (version 4).
func newID() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // never returns an error: it aborts the process
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return hex.EncodeToString(b[:])
}

func formatUUID(d string) string {
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}
