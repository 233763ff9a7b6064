package jsonlex

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// Looking at eight bytes at a time finds what looking at each byte finds: for all
// pairs of neighbours, wherever they are.
func TestSpecial(t *testing.T) {
	for at := range 17 {
		data := bytes.Repeat([]byte("x"), 18)
		for first := range 256 {
			for second := range 256 {
				data[at], data[at+1] = byte(first), byte(second)
				want, wantASCII := 0, true
				for ; want < len(data); want++ {
					c := data[want]
					if c < ' ' || c == '"' || c == '\\' {
						break
					}
					wantASCII = wantASCII && c < utf8.RuneSelf
				}
				if got, ascii := special(data, 0); got != want || ascii != wantASCII {
					t.Fatalf("%q: %d, %v; want %d, %v", data, got, ascii, want, wantASCII)
				}
			}
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	for name, text := range map[string]string{
		"short": `{"n":1,"text":"the quick brown fox jumps over the lazy dog"}`,
		"lines": `{"text":"` + string(bytes.Repeat([]byte(`{\"id\": 17, \"name\": \"lorem ipsum\"}\n`), 500)) + `"}`,
		"prose": `{"text":"` + string(bytes.Repeat([]byte("lorem ipsum dolor sit amet, "), 700)) + `"}`,
		"wide":  `{"text":"` + string(bytes.Repeat([]byte("日本語の文章です"), 800)) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := Document([]byte(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
