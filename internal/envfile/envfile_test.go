package envfile_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/envfile"
)

func files(t *testing.T, spec string) []envfile.File {
	t.Helper()
	list, err := envfile.Parse([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// values that parsers stumble over.
var awkward = map[string]string{
	"PLAIN": "postgres://u:p@host:5432/db", "EMPTY": "", "SPACES": "  two words  ", "HASH": "a #b", "DOLLAR": "$HOME and ${HOME} and $(id)",
	"SINGLE": "it's", "DOUBLE": `say "hi"`, "APOSTROPHES": "it's #1, it's\nit's", "LINES": "-----BEGIN KEY-----\nab+/==\n-----END KEY-----\n",
	"BACKSLASH": `C:\new\table`, "UNICODE": "grüße ✓", "EXPORT": "export X=1", "EQUALS": "a=b=c", "TAB": "a\tb", "QUOTED": `"already"`, "LITERAL": `\n`,
}

func specOf(values map[string]string) string {
	var keys []string
	for k := range values {
		keys = append(keys, `{"key":"`+k+`","required":true}`)
	}
	return `[{"path":"app/.env","keys":[` + strings.Join(keys, ",") + `]}]`
}

func TestAParserReadsBackWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	values := maps.Clone(awkward)
	values["CRLF"], values["CRLF_QUOTED"] = "a\r\nb\rc", "it's\r\ny"
	if err := envfile.Apply(dir, files(t, specOf(values)), values, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values, nodeReads(t, filepath.Join(dir, "app/.env"))); diff != "" {
		t.Errorf("what Node's parser reads (-written +read):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "app/.env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

// nodeReads reads a file by the rules of the npm package dotenv, as of 16 to 18:
// the first form of a value that fits wins, quotes are taken off, and nothing is
// unescaped but line ends within double quotes.
func nodeReads(t *testing.T, name string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\r\n?`).ReplaceAllString(string(raw), "\n")
	quoted := func(q string) string { return `\s*` + q + `(?:\\` + q + `|[^` + q + `])*` + q }
	line := regexp.MustCompile(`(?m)^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(` + quoted(`'`) + `|` + quoted(`"`) + `|` + quoted("`") + `|[^#\r\n]+)?\s*(?:#.*)?$`)
	values := map[string]string{}
	for _, found := range line.FindAllStringSubmatch(text, -1) {
		v := strings.TrimSpace(found[2])
		if len(v) > 1 && strings.Contains("'\"`", v[:1]) && v[:1] == v[len(v)-1:] {
			if v = v[1 : len(v)-1]; found[2][0] == '"' {
				v = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(v)
			}
		}
		values[found[1]] = v
	}
	return values
}

// What shells and parsers would read otherwise, however it is quoted, is refused
// before anything is written, and not repeated.
func TestWhatIsReadInTwoWaysIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{`it's "so"`, `it's $x`, "it's `id`", `it's C:\new`, `ends with \`, "a\rb \"c\""} {
		err := envfile.Apply(dir, files(t, `[{"path":"first","keys":[{"key":"B"}]},{"path":"a","keys":[{"key":"A"}]}]`), map[string]string{"A": v, "B": "x"}, false)
		if err == nil || !strings.Contains(err.Error(), "the value of A cannot be written so that shells and dotenv parsers read it alike") || strings.Contains(err.Error(), v) {
			t.Errorf("%q: %v", v, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("something was written: %v", entries)
	}
}

func TestAShellReadsBackWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	if err := envfile.Apply(dir, files(t, specOf(awkward)), awkward, false); err != nil {
		t.Fatal(err)
	}
	for k, v := range awkward {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `. ./app/.env; printf '%s.' "$`+k+`"`)
		cmd.Dir = dir
		if out, err := cmd.Output(); err != nil || string(out) != v+"." {
			t.Errorf("%s is %q in a shell, %v; it is %q", k, out, err, v)
		}
	}
}

func TestNothingIsWrittenBeforeAllIsThere(t *testing.T) {
	dir := t.TempDir()
	list := files(t, `[{"path":"a.env","keys":[{"key":"A","required":true},{"key":"B","required":true}]},{"path":"b.env","keys":[{"key":"C","required":true},{"key":"D","required":false}]}]`)
	err := envfile.Apply(dir, list, map[string]string{"A": "1"}, false)
	if err == nil || !strings.Contains(err.Error(), "B, C;") || strings.Contains(err.Error(), "D") {
		t.Errorf("what is missing is told as: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("something was written: %v", entries)
	}
	if err := envfile.Apply(dir, list, map[string]string{"A": "1", "B": "2", "C": "\x00"}, false); err == nil {
		t.Error("a NUL was taken")
	}
	if err := envfile.Apply(dir, list, map[string]string{"A": "1", "B": "2", "C": "3"}, false); err != nil {
		t.Fatal(err)
	}
	if got := nodeReads(t, filepath.Join(dir, "b.env")); !cmp.Equal(got, map[string]string{"C": "3"}) {
		t.Errorf("b.env: %v", got)
	}
}

func TestNothingLeadsOutOfTheWorkspace(t *testing.T) {
	for _, path := range []string{"/etc/x", "../x", "a/../../x", `a\b`, "a\x00b", "a\nb", "a\u202eb", "", ".", ".git/hooks/x", "a/.GIT/config", strings.Repeat("a", 501)} {
		spec, _ := jsonOf(path)
		if _, err := envfile.Parse([]byte(`[{"path":` + spec + `,"keys":[{"key":"A"}]}]`)); err == nil {
			t.Errorf("the path %q was taken", path)
		}
		if path != "" && path != "." {
			if _, err := envfile.Parse([]byte(`[{"path":"x","workspacePath":` + spec + `,"keys":[{"key":"A"}]}]`)); err == nil {
				t.Errorf("the workspace path %q was taken", path)
			}
		}
	}
	outside, dir := t.TempDir(), t.TempDir()
	link(t, outside, filepath.Join(dir, "out"))
	link(t, filepath.Join(outside, "target"), filepath.Join(dir, ".env"))
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "real", filepath.Join(dir, "inside"))
	for _, path := range []string{"out/x", ".env", "inside/x", "out/deep/x"} {
		if err := envfile.Apply(dir, files(t, `[{"path":"`+path+`","keys":[{"key":"A"}]}]`), map[string]string{"A": "1"}, true); err == nil {
			t.Errorf("%s was written through a link", path)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("something is outside: %v", entries)
	}
}

// Commands that write the same files at once do not meet, and leave nothing else.
func TestTwoAtOnce(t *testing.T) {
	dir := t.TempDir()
	list := files(t, `[{"path":".env","keys":[{"key":"A"}]}]`)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				if err := envfile.Apply(dir, list, map[string]string{"A": strings.Repeat(strconv.Itoa(i), 5000)}, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if v := nodeReads(t, filepath.Join(dir, ".env"))["A"]; len(v) != 5000 || strings.Trim(v, v[:1]) != "" {
		t.Errorf("the file is mixed: %d bytes", len(v))
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("there is more than the file: %v", entries)
	}
}

func TestSpecificationsThatMakeNoSense(t *testing.T) {
	for _, spec := range []string{
		``, `{}`, `[]`, `{"files":[]} x`, `[{"path":"a","keys":[]}]`, `[{"path":"a","keys":[{"key":"1A"}]}]`, `[{"path":"a","keys":[{"key":"A-B"}]}]`, `[{"path":"a","keys":[{"key":"A"},{"key":"A"}]}]`,
		`[{"path":"a","format":"yaml","keys":[{"key":"A"}]}]`, `[{"path":"a","mode":"public","keys":[{"key":"A"}]}]`, `[{"path":"a","keys":[{"key":"A"}]},{"path":"./a","keys":[{"key":"A"}]}]`,
		`[{"path":"a","keys":[{"key":"A"}]},{"path":"c","workspacePath":"a/b","keys":[{"key":"A"}]}]`, `[{"path":"a/b","keys":[{"key":"A"}]},{"path":"a","keys":[{"key":"A"}]}]`,
		`[{"path":"a","keys":[{"key":"` + strings.Repeat("A", 201) + `"}]}]`, `[{"path":"a","surprise":1,"keys":[{"key":"A"}]}]`,
	} {
		if _, err := envfile.Parse([]byte(spec)); err == nil {
			t.Errorf("taken: %s", spec)
		}
	}
}

func TestScrubRemovesWhatWasWrittenAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	list := files(t, `[{"path":"a.env","keys":[{"key":"A"}]},{"path":"b.env","keys":[{"key":"A"}]},{"path":"none","keys":[{"key":"A"}]}]`)
	put(t, filepath.Join(dir, "b.env"), "MINE=1\n")
	if err := envfile.Apply(dir, list, map[string]string{"A": "1"}, false); err == nil || !strings.Contains(err.Error(), "b.env") {
		t.Errorf("somebody's file was replaced: %v", err)
	}
	if err := envfile.Apply(dir, list[:1], map[string]string{"A": "1"}, false); err != nil {
		t.Fatal(err)
	}
	if err := envfile.Apply(dir, list[:1], map[string]string{"A": "2"}, false); err != nil {
		t.Errorf("what was written here is written again: %v", err)
	}
	removed, left, err := envfile.Scrub(dir, list)
	if diff := cmp.Diff([][]string{{"a.env"}, {"b.env"}}, [][]string{removed, left}); diff != "" || err != nil {
		t.Errorf("removed and left, %v:\n%s", err, diff)
	}
	if raw, _ := os.ReadFile(filepath.Join(dir, "b.env")); string(raw) != "MINE=1\n" {
		t.Errorf("b.env is %q", raw)
	}
	if err := envfile.Apply(dir, list, map[string]string{"A": "1"}, true); err != nil {
		t.Errorf("replacing what is somebody's, as asked: %v", err)
	}
}

// git itself says that it leaves the files alone.
func TestGitIgnoresWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	git := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return string(out)
	}
	main := filepath.Join(dir, "main")
	git(dir, "init", "-q", main)
	git(main, "commit", "-q", "--allow-empty", "-m", "x")
	git(main, "worktree", "add", "-q", filepath.Join(dir, "second"))
	put(t, filepath.Join(main, ".git", "info", "exclude"), "*.log")
	list := files(t, `[{"path":"my [odd] file.env","workspacePath":"sub","keys":[{"key":"A"}]},{"path":".env","keys":[{"key":"A"}]}]`)
	for range 2 {
		for _, tree := range []string{main, filepath.Join(dir, "second")} {
			if err := envfile.Apply(tree, list, map[string]string{"A": "1"}, false); err != nil {
				t.Fatal(err)
			}
			if out := git(tree, "status", "--porcelain", "--untracked-files=all"); out != "" {
				t.Errorf("git sees %q", out)
			}
		}
	}
	raw, _ := os.ReadFile(filepath.Join(main, ".git", "info", "exclude"))
	if want := "*.log\n/sub/my\\ \\[odd]\\ file.env\n/.env\n"; string(raw) != want {
		t.Errorf("exclude is %q, should be %q", raw, want)
	}
}

func TestWhatIsPulledGoesBeforeTheEnvironment(t *testing.T) {
	lookup := func(k string) (string, bool) {
		v, ok := map[string]string{"A": "env", "B": "env", "PATH": "x"}[k]
		return v, ok
	}
	list := files(t, `[{"path":"a","keys":[{"key":"A"},{"key":"B"},{"key":"C"},{"key":"D"}]}]`)
	got := envfile.MergeValues(list, lookup, map[string]string{"B": "pulled", "C": "pulled", "OTHER": "x"})
	if diff := cmp.Diff(map[string]string{"A": "env", "B": "pulled", "C": "pulled"}, got); diff != "" {
		t.Error(diff)
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func jsonOf(text string) (string, error) {
	raw, err := json.Marshal(text)
	return string(raw), err
}
