package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"sallyport/action"
)

// KeySize is the length of a master key in bytes.
const KeySize = 32

var (
	// ErrKey is a value sealed with a master key that the vault does not have.
	ErrKey = errors.New("sealed with another master key; give the old one too")
	// ErrSealed is a value that was altered, cut, or moved from another place.
	ErrSealed = errors.New("the sealed value was altered or is not of this place")
)

// The layout of sealed bytes: format, key id, salt, then what AES-GCM makes
// of the value, its nonce first. A key derived with the salt seals one value
// only, so that random nonces never run out.
const (
	format   = 1
	keyIDLen = 8
	saltLen  = 16
	header   = 1 + keyIDLen + saltLen
)

// Vault seals, opens and hashes. It is an [action.Vault], safe for use by
// several goroutines.
type Vault struct {
	keys []subkeys // the first seals
}

// subkeys is what is derived of one master key.
type subkeys struct {
	id   [keyIDLen]byte
	seal []byte
	hash []byte
}

// New returns a vault that seals and hashes with the master key and can also
// open what older ones sealed. Each has [KeySize] random bytes.
func New(master []byte, older ...[]byte) (*Vault, error) {
	v := &Vault{}
	for _, key := range slices.Concat([][]byte{master}, older) {
		s, err := derive(key)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, s)
	}
	return v, nil
}

func derive(master []byte) (s subkeys, err error) {
	if len(master) != KeySize {
		return s, fmt.Errorf("a master key has %d bytes, not %d", KeySize, len(master))
	}
	sum := sha256.Sum256(master)
	copy(s.id[:], sum[:])
	if s.seal, err = hkdf.Key(sha256.New, master, nil, "sallyport vault seal", KeySize); err != nil {
		return s, fmt.Errorf("deriving the sealing key: %w", err)
	}
	if s.hash, err = hkdf.Key(sha256.New, master, nil, "sallyport vault hash", KeySize); err != nil {
		return s, fmt.Errorf("deriving the hashing key: %w", err)
	}
	return s, nil
}

// Hash returns the keyed hash of canonical bytes: HMAC-SHA-256 in hex.
func (v *Vault) Hash(canonical []byte) string {
	mac := hmac.New(sha256.New, v.keys[0].hash)
	mac.Write(canonical)
	return hex.EncodeToString(mac.Sum(nil))
}

// Seal encrypts plain for the place that ref names.
func (v *Vault) Seal(ref action.Ref, plain []byte) ([]byte, error) {
	key := &v.keys[0]
	sealed := make([]byte, header, header+12+len(plain)+16)
	sealed[0] = format
	copy(sealed[1:], key.id[:])
	rand.Read(sealed[1+keyIDLen : header]) //nolint:errcheck // never fails: it ends the process instead
	aead, err := key.aead(sealed[:header])
	if err != nil {
		return nil, fmt.Errorf("sealing %s.%s: %w", ref.Table, ref.Column, err)
	}
	return aead.Seal(sealed, nil, plain, place(sealed[:header], ref)), nil
}

// Open decrypts what Seal made for the same place. Errors: [ErrKey],
// [ErrSealed].
func (v *Vault) Open(ref action.Ref, sealed []byte) ([]byte, error) {
	plain, err := v.open(ref, sealed)
	if err != nil {
		return nil, fmt.Errorf("opening %s.%s of row %q: %w", ref.Table, ref.Column, ref.Row, err)
	}
	return plain, nil
}

func (v *Vault) open(ref action.Ref, sealed []byte) ([]byte, error) {
	if len(sealed) < header || sealed[0] != format {
		return nil, ErrSealed
	}
	i := slices.IndexFunc(v.keys, func(k subkeys) bool { return string(k.id[:]) == string(sealed[1:1+keyIDLen]) })
	if i < 0 {
		return nil, ErrKey
	}
	aead, err := v.keys[i].aead(sealed[:header])
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, sealed[header:], place(sealed[:header], ref))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// aead returns the cipher for the one value that has this head.
func (s *subkeys) aead(head []byte) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, s.seal)
	mac.Write(head)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// place is the associated data: the head, which names format and key, and the
// place, each part behind its length so that no two places read alike.
func place(head []byte, ref action.Ref) []byte {
	data := slices.Clone(head)
	for _, part := range [...]string{ref.Organization, ref.Table, ref.Row, ref.Column} {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}
