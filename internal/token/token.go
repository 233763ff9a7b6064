package token

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"

	"sallyport/action"
)

// The prefixes of credentials.
const (
	SessionPrefix = "sps_"
	APIKeyPrefix  = "spk_"
)

// Bearer returns the credential of an Authorization header with the scheme Bearer; empty
// for another scheme.
func Bearer(header string) string {
	scheme, credential, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(credential)
}

// KeySize is the length of a signing key in bytes.
const KeySize = 32

// A session token is, in base64: version, key id, MAC, session id.
const (
	version         = 1
	keyIDLen        = 4
	tokenHeaderSize = 1 + keyIDLen + sha256.Size
	maxTokenLength  = 512
)

// strictBase64 accepts exactly one encoding of each value, except for line
// breaks, which callers reject.
var strictBase64 = base64.RawURLEncoding.Strict()

// Signer issues and verifies session tokens.
type Signer struct {
	keys []signingKey // the first signs
}

type signingKey struct {
	id   [keyIDLen]byte
	macs *sync.Pool // of HMACs: a used one needs half the work of a new one
}

// NewSigner returns a signer that signs with key and also accepts signatures of
// older keys. Each has [KeySize] random bytes.
func NewSigner(key []byte, older ...[]byte) (*Signer, error) {
	s := &Signer{}
	for _, k := range slices.Concat([][]byte{key}, older) {
		if len(k) != KeySize {
			return nil, fmt.Errorf("a token key has %d bytes, not %d", KeySize, len(k))
		}
		key, err := hkdf.Key(sha256.New, k, nil, "sallyport session token", KeySize)
		if err != nil {
			return nil, fmt.Errorf("deriving the token key: %w", err)
		}
		sum := sha256.Sum256(k)
		s.keys = append(s.keys, signingKey{id: [keyIDLen]byte(sum[:]), macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}})
	}
	return s, nil
}

// Mint returns a token for a session.
func (s *Signer) Mint(sessionID string) string {
	key := &s.keys[0]
	raw := make([]byte, 0, tokenHeaderSize+len(sessionID))
	raw = append(raw, version)
	raw = append(raw, key.id[:]...)
	raw = append(raw, key.sign(sessionID)...)
	raw = append(raw, sessionID...)
	return SessionPrefix + strictBase64.EncodeToString(raw)
}

// Verify returns the ID of the session that a token was issued for. The error
// is an [action.Error] of kind ErrUnauthenticated.
func (s *Signer) Verify(token string) (sessionID string, err error) {
	text, ok := strings.CutPrefix(token, SessionPrefix)
	if !ok || len(token) > maxTokenLength || strings.ContainsAny(text, "\r\n") {
		return "", invalidToken("This is not a session token; those begin with " + SessionPrefix + ". Ask the person who runs the gateway for one.")
	}
	raw, err := strictBase64.DecodeString(text)
	if err != nil || len(raw) <= tokenHeaderSize || raw[0] != version {
		return "", invalidToken("This session token is incomplete or altered; copy it again, or ask for a new one.")
	}
	keyID, mac, id := raw[1:1+keyIDLen], raw[1+keyIDLen:tokenHeaderSize], string(raw[tokenHeaderSize:])
	for i := range s.keys {
		if key := &s.keys[i]; string(key.id[:]) == string(keyID) && hmac.Equal(mac, key.sign(id)) {
			return id, nil
		}
	}
	return "", invalidToken("This session token was not issued by this gateway, or its signing key has been replaced; ask for a new one.")
}

func (k *signingKey) sign(sessionID string) []byte {
	mac, _ := k.macs.Get().(hash.Hash) // it has nothing else
	defer k.macs.Put(mac)
	mac.Reset()
	mac.Write([]byte{version})
	mac.Write(k.id[:])
	mac.Write([]byte(sessionID))
	return mac.Sum(nil)
}

func invalidToken(message string) error {
	return action.Errorf(action.ErrUnauthenticated, "invalid_token", "%s", message)
}

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
	var b [16]byte
	rand.Read(b[:])         //nolint:errcheck // never returns an error: it aborts the process
	b[6] = b[6]&0x0f | 0x40 // a random UUID, version 4
	b[8] = b[8]&0x3f | 0x80
	digits := hex.EncodeToString(b[:])
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

func formatUUID(d string) string {
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

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
