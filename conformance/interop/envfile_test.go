package interop_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/joho/godotenv"

	"sallyport/internal/envfile"
)

// TestGodotenvReadsBackWhatWasWritten writes values that parsers stumble over.
func TestGodotenvReadsBackWhatWasWritten(t *testing.T) {
	values := map[string]string{
		"PLAIN": "postgres://u:p@host:5432/db", "EMPTY": "", "SPACES": "  two words  ", "HASH": "a #b", "DOLLAR": "$HOME and ${HOME} and $(id)",
		"SINGLE": "it's", "DOUBLE": `say "hi"`, "APOSTROPHES": "it's #1, it's\nit's", "LINES": "-----BEGIN KEY-----\nab+/==\n-----END KEY-----\n",
		"BACKSLASH": `C:\new\table`, "UNICODE": "grüße ✓", "EXPORT": "export X=1", "EQUALS": "a=b=c", "TAB": "a\tb", "QUOTED": `"already"`, "LITERAL": `\n`,
		"CRLF": "a\r\nb\rc", "CRLF_QUOTED": "it's\r\ny", "LONG": strings.Repeat("7", 5000),
	}
	var keys []string
	for k := range values {
		keys = append(keys, `{"key":"`+k+`","required":true}`)
	}
	files, err := envfile.Parse([]byte(`[{"path":"app/.env","keys":[` + strings.Join(keys, ",") + `]}]`))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := envfile.Apply(dir, files, values, false); err != nil {
		t.Fatal(err)
	}
	got, err := godotenv.Read(filepath.Join(dir, "app/.env"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values, got); diff != "" {
		t.Errorf("what the parser reads (-written +read):\n%s", diff)
	}
}
