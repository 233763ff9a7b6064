package delivery_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/internal/vault"
)

func TestSealedDelivery(t *testing.T) {
	v, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*event.Delivery{
		"empty":  {Header: http.Header{}, Body: []byte{}},
		"config": {Header: http.Header{}, Body: []byte{}, Config: json.RawMessage(`{}`)},
		"whole": {
			Header: http.Header{"X-A": {"1", "", "2"}, "Webhook-Id": {"m\xff"}},
			Body:   bytes.Repeat([]byte("a\x00\xff"), 1000), Config: json.RawMessage(`{"a":1}`),
		},
	} {
		r := event.Receipt{ID: "r1", Organization: "acme"}
		if err := delivery.Seal(v, &r, d); err != nil {
			t.Fatal(err)
		}
		got, err := delivery.Open(v, r)
		if err != nil || cmp.Diff(d, got) != "" {
			t.Errorf("%s: %v, %s", name, err, cmp.Diff(d, got))
		}
		if len(d.Body) > 10 && bytes.Contains(r.Sealed, d.Body[:10]) {
			t.Errorf("%s: it can be read", name)
		}
		for _, elsewhere := range []event.Receipt{{ID: "r2", Organization: "acme"}, {ID: "r1", Organization: "other"}} {
			elsewhere.Sealed = r.Sealed
			if _, err := delivery.Open(v, elsewhere); err == nil {
				t.Errorf("%s: it opens at %+v", name, elsewhere)
			}
		}
	}
	if _, err := delivery.Open(v, event.Receipt{ID: "r1"}); err == nil {
		t.Error("nothing is something")
	}
}

// glass seals nothing.
type glass struct{ action.Vault }

func (glass) Seal(_ action.Ref, plain []byte) ([]byte, error)  { return plain, nil }
func (glass) Open(_ action.Ref, sealed []byte) ([]byte, error) { return sealed, nil }

// FuzzOpenDelivery: whatever was sealed, reading it ends, and in no more memory
// than it has.
func FuzzOpenDelivery(f *testing.F) {
	r := event.Receipt{}
	if err := delivery.Seal(glass{}, &r, &event.Delivery{Header: http.Header{"A": {"b"}}, Config: []byte("{}"), Body: []byte("body")}); err != nil {
		f.Fatal(err)
	}
	f.Add(r.Sealed)
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		d, err := delivery.Open(glass{}, event.Receipt{Sealed: sealed})
		if err != nil {
			return
		}
		again := event.Receipt{}
		if err := delivery.Seal(glass{}, &again, d); err != nil {
			t.Fatal(err)
		}
		if twice, err := delivery.Open(glass{}, again); err != nil || cmp.Diff(d, twice) != "" {
			t.Errorf("%v, %s", err, cmp.Diff(d, twice))
		}
	})
}
