package command

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A file that cannot be written is told with what to do, and never by the name of
// the one that is made beside it.
func TestWhyAFileCannotBeWritten(t *testing.T) {
	at := func(err error) error { return &os.PathError{Op: "open", Path: "/p/.f.json.XYZ", Err: err} }
	for _, row := range []struct {
		err  error
		want string
	}{
		{at(syscall.ENOENT), "there is no folder /p to write f.json into; make it, or name another place"},
		{at(syscall.EACCES), "the folder /p lets this user make no files; give it the right, or name another place"},
		{at(syscall.EROFS), "the folder /p lets this user make no files"},
		{at(syscall.ENOTDIR), "a part of its path is a file; remove that, or name another place"},
		{at(syscall.ENOSPC), "/p/f.json cannot be written; name another place: "},
	} {
		got := UnwritableError("/p/f.json", row.err).Error()
		if !strings.Contains(got, row.want) || strings.Contains(got, "XYZ") {
			t.Errorf("%v: %s", row.err, got)
		}
	}
}
