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
	"hash"
	"slices"
	"sync"
	"sync/atomic"

	"sallyport/action"
)

// KeySize is the length of a master key in bytes.
const KeySize = 32

var (
	// ErrKey reports a value sealed with an unknown master key.
	ErrKey = errors.New("sealed with another master key; give the old one too")
	// ErrSealed reports a value that was altered, truncated or moved from
	// another place.
	ErrSealed = errors.New("the sealed value was altered or is not of this place")
)

// Layout of sealed bytes: format, key ID, salt, then the AES-GCM nonce and
// ciphertext. The salt derives a key for one value only, so that random nonces
// cannot collide.
const (
	format   = 1
	keyIDLen = 8
	saltLen  = 16
	header   = 1 + keyIDLen + saltLen
)

// Vault seals, opens and hashes. It is an [action.Vault] and safe for
// concurrent use.
type Vault struct {
	ring atomic.Pointer[[]subkeys] // the first key seals
	hash atomic.Pointer[sync.Pool] // of HMACs: a used one needs half the work of a new one
}

// subkeys are derived from one master key.
type subkeys struct {
	id   [keyIDLen]byte
	seal []byte
}

// New returns a vault that seals with the master key and also opens what older
// ones sealed. Each key has [KeySize] random bytes. The hash key is derived
// from the first one until UseHash sets another.
func New(master []byte, older ...[]byte) (*Vault, error) {
	v := &Vault{}
	if err := v.Use(master, older...); err != nil {
		return nil, err
	}
	hash, err := HashKey(master)
	if err != nil {
		return nil, err
	}
	v.UseHash(hash)
	return v, nil
}

// Use makes the vault seal with another master key, and open what that one and
// the older ones sealed. The hash key stays the same. Operations in progress
// finish with the previous keys.
func (v *Vault) Use(master []byte, older ...[]byte) error {
	ring := make([]subkeys, 0, 1+len(older))
	for _, key := range slices.Concat([][]byte{master}, older) {
		seal, err := subkey(key, "sallyport vault seal")
		if err != nil {
			return err
		}
		ring = append(ring, subkeys{[keyIDLen]byte(KeyID(key)), seal})
	}
	v.ring.Store(&ring)
	return nil
}

// UseHash sets the hash key, which [HashKey] derived from an earlier master
// key.
func (v *Vault) UseHash(key []byte) {
	v.hash.Store(&sync.Pool{New: func() any { return hmac.New(sha256.New, key) }})
}

// HashKey derives the hash key from a master key. It outlives that key: hashes
// in rows are compared with new ones.
func HashKey(master []byte) ([]byte, error) { return subkey(master, "sallyport vault hash") }

func subkey(master []byte, purpose string) ([]byte, error) {
	if len(master) != KeySize {
		return nil, fmt.Errorf("a master key has %d bytes, not %d", KeySize, len(master))
	}
	key, err := hkdf.Key(sha256.New, master, nil, purpose, KeySize)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	return key, nil
}

// KeyID returns the ID of a master key, which discloses nothing about it. It
// follows the first byte of everything that the key sealed.
func KeyID(master []byte) []byte {
	sum := sha256.Sum256(master)
	return sum[:keyIDLen]
}

// Hash returns the keyed hash of canonical bytes: HMAC-SHA-256 in hex.
func (v *Vault) Hash(canonical []byte) string {
	macs := v.hash.Load()
	mac, _ := macs.Get().(hash.Hash) // it has nothing else
	defer macs.Put(mac)
	mac.Reset()
	mac.Write(canonical)
	return hex.EncodeToString(mac.Sum(nil))
}

// Seal encrypts plain for the place that ref names.
func (v *Vault) Seal(ref action.Ref, plain []byte) ([]byte, error) {
	key := &(*v.ring.Load())[0]
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

// Open decrypts a value that Seal encrypted for the same place. Errors:
// [ErrKey], [ErrSealed].
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
	ring := *v.ring.Load()
	i := slices.IndexFunc(ring, func(k subkeys) bool { return string(k.id[:]) == string(sealed[1:1+keyIDLen]) })
	if i < 0 {
		return nil, ErrKey
	}
	aead, err := ring[i].aead(sealed[:header])
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, sealed[header:], place(sealed[:header], ref))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// aead returns the cipher for the one value with this header.
func (s *subkeys) aead(head []byte) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, s.seal)
	mac.Write(head)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// place is the associated data: the header, which contains format and key, and
// the place. Each part is preceded by its length, so that places are
// unambiguous.
func place(head []byte, ref action.Ref) []byte {
	data := slices.Clone(head)
	for _, part := range [...]string{ref.Organization, ref.Table, ref.Row, ref.Column} {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}
