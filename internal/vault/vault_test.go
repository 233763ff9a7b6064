package vault_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/vault"
)

var _ action.Vault = (*vault.Vault)(nil)

var here = action.Ref{Organization: "o1", Table: "invocations", Row: "r1", Column: "params"}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, vault.KeySize) }

func open(t *testing.T, master []byte, older ...[]byte) *vault.Vault {
	t.Helper()
	v, err := vault.New(master, older...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func seal(t *testing.T, v *vault.Vault, ref action.Ref, plain string) []byte {
	t.Helper()
	sealed, err := v.Seal(ref, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestSealAndOpen(t *testing.T) {
	v := open(t, key(1))
	for _, plain := range []string{"", "x", `{"password":"hunter2"}`, strings.Repeat("long", 100_000)} {
		sealed := seal(t, v, here, plain)
		if plain != "" && len(plain) > 8 && bytes.Contains(sealed, []byte(plain)) {
			t.Error("the value can be read")
		}
		got, err := v.Open(here, sealed)
		if err != nil || string(got) != plain {
			t.Errorf("got %d bytes, %v; want %d bytes", len(got), err, len(plain))
		}
	}
}

func TestEqualValuesLookDifferent(t *testing.T) {
	v := open(t, key(1))
	if bytes.Equal(seal(t, v, here, "same"), seal(t, v, here, "same")) {
		t.Error("sealing the same value twice gave the same bytes")
	}
}

func TestMovedValuesDoNotOpen(t *testing.T) {
	v := open(t, key(1))
	sealed := seal(t, v, here, "secret")
	for name, ref := range map[string]action.Ref{
		"another organization":    {Organization: "o2", Table: "invocations", Row: "r1", Column: "params"},
		"another table":           {Organization: "o1", Table: "secrets", Row: "r1", Column: "params"},
		"another row":             {Organization: "o1", Table: "invocations", Row: "r2", Column: "params"},
		"another column":          {Organization: "o1", Table: "invocations", Row: "r1", Column: "result"},
		"parts divided elsewhere": {Organization: "o1invocations", Table: "", Row: "r1", Column: "params"},
		"a letter shifted":        {Organization: "o1i", Table: "nvocations", Row: "r1", Column: "params"},
		"nothing":                 {},
	} {
		if got, err := v.Open(ref, sealed); !errors.Is(err, vault.ErrSealed) {
			t.Errorf("%s: got %q, %v; want ErrSealed", name, got, err)
		}
	}
}

func TestAlteredValuesDoNotOpen(t *testing.T) {
	v := open(t, key(1))
	sealed := seal(t, v, here, "secret")
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if got, err := v.Open(here, broken); err == nil {
			t.Fatalf("with byte %d altered it opens as %q", i, got)
		}
		if _, err := v.Open(here, sealed[:i]); !errors.Is(err, vault.ErrSealed) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

func TestRotation(t *testing.T) {
	old := seal(t, open(t, key(1)), here, "secret")
	both := open(t, key(2), key(1))
	if got, err := both.Open(here, old); err != nil || string(got) != "secret" {
		t.Errorf("the older key does not open: %q, %v", got, err)
	}
	if got, err := open(t, key(2)).Open(here, seal(t, both, here, "new")); err != nil || string(got) != "new" {
		t.Errorf("the newest key did not seal: %q, %v", got, err)
	}
	if _, err := open(t, key(2)).Open(here, old); !errors.Is(err, vault.ErrKey) {
		t.Errorf("without the older key: %v; want ErrKey", err)
	}
	if both.Hash([]byte("x")) != open(t, key(2)).Hash([]byte("x")) {
		t.Error("the newest key does not hash")
	}
}

func TestHash(t *testing.T) {
	v := open(t, key(1))
	h := v.Hash([]byte("x"))
	if len(h) != 64 || strings.Trim(h, "0123456789abcdef") != "" {
		t.Errorf("got %q; want 64 hex digits", h)
	}
	if h != v.Hash([]byte("x")) || h == v.Hash([]byte("y")) || h == open(t, key(2)).Hash([]byte("x")) {
		t.Error("the hash does not depend on value and key alone")
	}
}

func TestWrongKeysAreRefused(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33, 64} {
		if _, err := vault.New(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes is taken", n)
		}
		if _, err := vault.New(key(1), make([]byte, n)); err == nil {
			t.Errorf("an older key of %d bytes is taken", n)
		}
	}
}

// What was sealed and hashed once is opened and hashed alike for ever.
const (
	sealedOnce = "0172cd6e8422c407fbe05045ae45222eb23a9d96428361aebcb84c713a314e141ce4971d3900eb59a3158bc8578875a92b6781052fbf2317e00595"
	hashedOnce = "33ed54df1bb40c127af2ba40c2a252db37a2e7fe2ea762ac002678ca2508821c"
)

func once(t testing.TB) []byte {
	t.Helper()
	sealed, err := hex.DecodeString(sealedOnce)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestTheFormatStays(t *testing.T) {
	v := open(t, key(1))
	if got, err := v.Open(here, once(t)); err != nil || string(got) != "secret" {
		t.Errorf("got %q, %v", got, err)
	}
	if got := v.Hash([]byte("x")); got != hashedOnce {
		t.Errorf("got %s", got)
	}
}

func FuzzOpen(f *testing.F) {
	v, err := vault.New(key(1))
	if err != nil {
		f.Fatal(err)
	}
	sealed := once(f)
	f.Add(sealed)
	f.Add(sealed[:30])
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := v.Open(here, b); err == nil && !bytes.Equal(b, sealed) {
			t.Fatalf("forged: %q", got)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	v, err := vault.New(key(1))
	if err != nil {
		b.Fatal(err)
	}
	plain := bytes.Repeat([]byte("x"), 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Seal(here, plain); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	v, err := vault.New(key(1))
	if err != nil {
		b.Fatal(err)
	}
	plain := bytes.Repeat([]byte("x"), 200)
	b.ReportAllocs()
	for b.Loop() {
		v.Hash(plain)
	}
}
