package gmail_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sallyport/sources/gmail"
)

// FuzzMessage reads anything as a mail: what is told of it is bounded.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"id":"a","labelIds":["INBOX"],"snippet":"&#39;&#0;","internalDate":"1793700000123","payload":{"headers":[{"name":"From","value":"x"},null]}}`), `{"labels":["INBOX"]}`)
	f.Add([]byte(`{"id":"a","labelIds":null,"internalDate":"-9223372036854775808"}`), `7`)
	f.Fuzz(func(t *testing.T, body []byte, config string) {
		e, is := gmail.Told(body)
		if !is {
			return
		}
		if len(e.Context) > 64<<10 || !json.Valid(e.Context) || len([]rune(e.Title)) > 201 || strings.ContainsAny(e.Title, "\n\u202e") || e.OccurredAt.Year() > 9999 {
			t.Errorf("got %+v", e)
		}
		gmail.Triggers().Types[0].Matches(&e, json.RawMessage(config))
	})
}
