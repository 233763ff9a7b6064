package delivery

import (
	"bytes"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/vault"
)

// Rows do not reveal a body to a reader without the key.
func TestKeyedHashes(t *testing.T) {
	newVault := func() *vault.Vault {
		v, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	one, other := newVault(), newVault()
	other.UseHash([]byte("another"))
	body := []byte("pin 1234")
	for name, hash := range map[string]func(v action.Vault) string{
		"body":  func(v action.Vault) string { return BodyHash(v, body) },
		"id":    func(v action.Vault) string { return Key(v, "d1", body, time.Time{}) },
		"no id": func(v action.Vault) string { return Key(v, "", body, time.Time{}) },
	} {
		if hash(one) == hash(other) || hash(one) == one.Hash(body) {
			t.Errorf("%s: %s, %s", name, hash(one), hash(other))
		}
	}
}
