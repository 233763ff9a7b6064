package mcpserver

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"sallyport/internal/canonical"
)

const (
	// stateLife is how long a requestState is good after its round is over: for
	// as long a client that comes late still gets what became of its call.
	stateLife = 15 * time.Minute
	// maxState bounds one. Its keys are a source's, of any length.
	maxState = 256 << 10
)

// asked is what a requestState of the stateless era says: which call it is of,
// and what was asked. Clients only hand it back.
type asked struct {
	Principal  []byte   `json:"principal"`
	Call       []byte   `json:"call"` // see callDigest
	Invocation string   `json:"invocation"`
	Round      string   `json:"round"` // empty: what was asked is to open a page
	Keys       []string `json:"keys"`
	Until      int64    `json:"until"` // in Unix seconds
}

// states seals and opens them, so that any instance that has the key goes on
// with the calls of the others.
type states struct{ box cipher.AEAD }

// newStates derives a key of its own, so that no other use of the secret can
// make a state.
func newStates(secret []byte) (states, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "sallyport mcp request state", 32)
	if err != nil {
		return states{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return states{}, err
	}
	box, err := cipher.NewGCMWithRandomNonce(block)
	return states{box: box}, err
}

// seal returns the state as clients see it; false when it is one that open
// would not look at.
func (k states) seal(a *asked) (text string, ok bool) {
	plain, _ := json.Marshal(a) // strings, bytes and a number always encode
	text = stateEncoding().EncodeToString(k.box.Seal(nil, nil, plain, nil))
	return text, len(text) <= maxState
}

// open reads a state, if it is one of ours and still good. Nothing of it is
// looked at before it is opened.
func (k states) open(text string, now time.Time) (a asked, ok bool) {
	if len(text) > maxState {
		return a, false
	}
	sealed, err := stateEncoding().DecodeString(text)
	// The decoder skips line breaks; a state has one spelling.
	if err != nil || stateEncoding().EncodedLen(len(sealed)) != len(text) {
		return a, false
	}
	plain, err := k.box.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &a) != nil {
		return a, false
	}
	return a, now.Unix() < a.Until
}

func stateEncoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// callDigest is what makes two requests the same call: method, name and
// arguments, however the latter are written.
func callDigest(method, name string, arguments []byte) []byte {
	if c, err := canonical.JSON(arguments); err == nil {
		arguments = c
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(name), arguments} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}
