package token_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/token"
)

const session = "0198b1b0-7d5e-7c3a-9d1e-5a2f6c7b8d90"

func key(b byte) []byte { return bytes.Repeat([]byte{b}, token.KeySize) }

func signer(t testing.TB, k []byte, older ...[]byte) *token.Signer {
	t.Helper()
	s, err := token.NewSigner(k, older...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMintAndVerify(t *testing.T) {
	s := signer(t, key(1))
	for _, id := range []string{session, "s1", strings.Repeat("x", 200)} {
		minted := s.Mint(id)
		if got, err := s.Verify(minted); err != nil || got != id {
			t.Errorf("got %q, %v; want %q", got, err, id)
		}
		if !strings.HasPrefix(minted, "sps_") || strings.Trim(minted, letters) != "" {
			t.Errorf("%q cannot stand in a URL", minted)
		}
	}
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

func TestForgedTokensAreRefused(t *testing.T) {
	s := signer(t, key(1))
	good := s.Mint(session)
	forged := map[string]string{
		"nothing":              "",
		"the prefix alone":     "sps_",
		"no prefix":            good[4:],
		"an API key":           "spk_" + good[4:],
		"another key's":        signer(t, key(2)).Mint(session),
		"a line break in it":   good[:20] + "\n" + good[20:],
		"padding":              good + "=",
		"a longer id":          good + "AAAA",
		"no session":           s.Mint(""),
		"far too long":         good + strings.Repeat("A", 1<<20),
		"no base64":            "sps_????",
		"another version":      "sps_Ag" + good[6:],
		"an unsigned session":  unsigned(good),
		"white space after it": good + " ",
	}
	for i := 4; i < len(good); i++ {
		for _, c := range []byte(letters) {
			if c != good[i] {
				forged["with character altered"] = good[:i] + string(c) + good[i+1:]
				refuses(t, s, "with one character altered", forged["with character altered"])
			}
		}
		refuses(t, s, "cut", good[:i])
	}
	for name, text := range forged {
		refuses(t, s, name, text)
	}
}

// unsigned names another session and keeps the signature.
func unsigned(good string) string {
	raw, _ := base64.RawURLEncoding.DecodeString(good[4:])
	raw[len(raw)-1] ^= 1
	return "sps_" + base64.RawURLEncoding.EncodeToString(raw)
}

func refuses(t *testing.T, s *token.Signer, name, text string) {
	t.Helper()
	id, err := s.Verify(text)
	var e *action.Error
	if id != "" || !errors.As(err, &e) || !errors.Is(err, action.ErrUnauthenticated) || e.Code != "invalid_token" {
		t.Errorf("%s: got %q, %v", name, id, err)
	} else if len(text) > 8 && strings.Contains(err.Error(), text[:8]) {
		t.Errorf("%s: the error holds some of the token: %v", name, err)
	}
}

func TestKeysCanBeReplaced(t *testing.T) {
	old := signer(t, key(1)).Mint(session)
	both := signer(t, key(2), key(1))
	if id, err := both.Verify(old); err != nil || id != session {
		t.Errorf("the older key does not verify: %q, %v", id, err)
	}
	refuses(t, signer(t, key(2)), "after the older key is gone", old)
	if _, err := signer(t, key(2)).Verify(both.Mint(session)); err != nil {
		t.Errorf("the newest key did not sign: %v", err)
	}
}

func TestWrongKeysAreRefused(t *testing.T) {
	if _, err := token.NewSigner(nil); err == nil {
		t.Error("no key is taken")
	}
	if _, err := token.NewSigner(key(1), make([]byte, 16)); err == nil {
		t.Error("a short older key is taken")
	}
}

func TestAPIKey(t *testing.T) {
	id, k, hash := token.NewAPIKey()
	gotID, gotHash, err := token.ParseAPIKey(k)
	if err != nil || gotID != id || !bytes.Equal(gotHash, hash) {
		t.Errorf("got %q, %x, %v; want %q, %x", gotID, gotHash, err, id, hash)
	}
	if len(id) != 36 || id[14] != '4' || !strings.Contains(k, strings.ReplaceAll(id, "-", "")) {
		t.Errorf("id %q, key %q", id, k)
	}
	if id2, k2, _ := token.NewAPIKey(); id2 == id || k2 == k {
		t.Error("two keys are the same")
	}
	altered := k[:len(k)-2] + "AA"
	if altered != k {
		if _, h, err := token.ParseAPIKey(altered); err == nil && bytes.Equal(h, hash) {
			t.Error("an altered key has the same hash")
		}
	}
	for _, text := range []string{"", "spk_", k[:len(k)-1], k + "A", "sps_" + k[4:], strings.ToUpper(k), "spk_" + strings.Repeat("g", 75)} {
		if _, _, err := token.ParseAPIKey(text); !errors.Is(err, action.ErrUnauthenticated) {
			t.Errorf("ParseAPIKey(%q): %v; want it refused", text, err)
		} else if len(text) > 8 && strings.Contains(err.Error(), text[:8]) {
			t.Errorf("the error holds some of the key: %v", err)
		}
	}
}

func TestNewSecret(t *testing.T) {
	a, b := token.NewSecret("x_", 32), token.NewSecret("x_", 32)
	if a == b || len(a) != 2+43 || strings.Trim(a, letters) != "" {
		t.Errorf("got %q and %q", a, b)
	}
	if bytes.Equal(token.HashSecret(a), token.HashSecret(b)) || len(token.HashSecret(a)) != 32 {
		t.Error("the hash is wrong")
	}
}

func FuzzVerify(f *testing.F) {
	s := signer(f, key(1))
	good := s.Mint(session)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add("sps_AQ")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := s.Verify(text); err == nil && text != good {
			t.Fatalf("forged: %q for %q", text, id)
		}
	})
}

func FuzzParseAPIKey(f *testing.F) {
	_, k, _ := token.NewAPIKey()
	f.Add(k)
	f.Fuzz(func(t *testing.T, text string) {
		id, hash, err := token.ParseAPIKey(text)
		if err == nil && (len(id) != 36 || len(hash) != 32) {
			t.Fatalf("got %q, %x", id, hash)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	s := signer(b, key(1))
	good := s.Mint(session)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Verify(good); err != nil {
			b.Fatal(err)
		}
	}
}
