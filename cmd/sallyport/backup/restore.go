package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sallyport/action"
	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
	"sallyport/store"
)

// RestoreCommand is `sallyport restore`. Its caller provides the verification of the
// restored rows: see RunWith.
type RestoreCommand struct {
	command.Database
	From          string   `arg:"" type:"path" help:"Folder written by sallyport backup."`
	MasterKey     string   `help:"Master key of the backup, if the backup does not contain it." placeholder:"HEX"`
	OldMasterKeys []string `help:"Previous master keys of the backup." placeholder:"HEX"`
	TokenKey      string   `help:"Token key of the backup, if the backup does not contain it." placeholder:"HEX"`
}

// restored is the result of a restore.
type restored struct {
	Data         string `json:"data"`
	TakenAt      string `json:"taken_at"`
	Links        int64  `json:"links"`
	Files        int    `json:"files"`
	FilesMissing int    `json:"files_missing"`
	Expired      int    `json:"expired"`
}

// RunWith restores a backup to a data folder. Everything is verified in a staging folder
// before it is moved into place, and the backup is not changed.
func (c *RestoreCommand) RunWith(ctx context.Context, std *command.Streams, verify VerifyRows) error {
	data, err := embeddedFolder(&c.Database, "restore")
	if err != nil {
		return err
	}
	m, err := readManifest(c.From)
	if err != nil {
		return err
	}
	if err := c.hasKeys(m); err != nil {
		return err
	}
	if err := emptyFolder(data); err != nil {
		return err
	}
	folder, err := os.OpenRoot(data)
	if err != nil {
		return fmt.Errorf("opening the data folder: %w", err)
	}
	defer folder.Close()
	stage, err := os.MkdirTemp(data, ".restore-*") // mode 0700
	if err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	defer os.RemoveAll(stage)
	held, err := openStage(folder, filepath.Base(stage), os.Geteuid())
	if err != nil {
		return err
	}
	defer held.Close()
	done := restored{Data: data, TakenAt: m.TakenAt.Format("2006-01-02T15:04:05Z07:00")}
	if err := c.fill(ctx, stage, m, &done, std, verify); err != nil {
		return err
	}
	if err := changeOwner(held, folder); err != nil {
		return err
	}
	if err := unstage(held, folder, filepath.Base(stage)); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(done)
	}
	done.report(std.Out)
	return nil
}

func readManifest(from string) (*manifest, error) {
	m := new(manifest)
	text, err := os.ReadFile(filepath.Join(from, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a backup: it has no %s; name a folder that sallyport backup created", from, manifestFile)
	}
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the backup: %w", manifestFile, err)
	}
	if m.Format != backupFormat {
		return nil, fmt.Errorf("the backup has format %d of version %s; restore it with that version", m.Format, command.Printable(m.Version))
	}
	for _, name := range m.Keys {
		if name != command.TokenFile && name != command.MasterFile && !strings.HasPrefix(name, command.MasterFile+".") || strings.ContainsRune(name, filepath.Separator) {
			return nil, fmt.Errorf("the backup names the key file %q, which is not valid; use another backup", name)
		}
	}
	return m, nil
}

// hasKeys checks that the keys of the rows are in the backup or configured. Otherwise
// the gateway would generate new keys, which decrypt nothing.
func (c *RestoreCommand) hasKeys(m *manifest) error {
	for file, given := range map[string]string{command.MasterFile: c.MasterKey, command.TokenFile: c.TokenKey} {
		if given == "" && !slices.Contains(m.Keys, file) {
			return fmt.Errorf("the backup has no %s: set SALLYPORT_MASTER_KEY and SALLYPORT_TOKEN_KEY to those keys of its gateway that it does not contain", file)
		}
	}
	return nil
}

// emptyFolder creates the data folder, or checks that it is empty.
func emptyFolder(data string) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	entries, err := os.ReadDir(data)
	if err != nil {
		return fmt.Errorf("reading the data folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("the data folder %s is not empty (it has %s), and a restore overwrites nothing: stop its server and move the folder away, or name another one with --data", data, command.Printable(e.Name()))
		}
	}
	return nil
}

// fill copies the backup to the staging folder and verifies it.
func (c *RestoreCommand) fill(ctx context.Context, stage string, m *manifest, done *restored, std *command.Streams, verify VerifyRows) error {
	for _, name := range append(slices.Clone(m.Keys), command.DatabaseFile) {
		if err := copyFile(filepath.Join(c.From, name), filepath.Join(stage, name)); err != nil {
			return fmt.Errorf("copying the backup: %w", err)
		}
	}
	database := filepath.Join(stage, command.DatabaseFile)
	if sum, err := sumOf(database); err != nil || sum != m.Database {
		return errors.Join(fmt.Errorf("%s of the backup was damaged or changed (its size or SHA-256 differs); use another backup", command.DatabaseFile), err)
	}
	copied, err := store.OpenFileReadOnly(database)
	if err == nil {
		err = copied.Integrity(ctx)
		if err == nil {
			done.Files, done.FilesMissing, err = copyFiles(ctx, copied, c.From, stage)
		}
		err = errors.Join(err, copied.Close())
	}
	if err != nil {
		return err
	}
	rows, err := verify(ctx, RowKeys{Data: stage, MasterKey: c.MasterKey, OldMasterKeys: c.OldMasterKeys, TokenKey: c.TokenKey}, std)
	if err == nil && rows.Broken != nil {
		cli.ShowReport(std.Err, rows.Broken, nil)
		return fmt.Errorf("the audit log of organization %s does not verify, so nothing was restored; use an earlier backup, or see docs/backup.md", command.Printable(rows.Broken.Organization))
	}
	done.Links, done.Expired = rows.Links, rows.Expired
	return err
}

// RestoredRows is the result of VerifyRows.
type RestoredRows struct {
	Links   int64               // verified links of the audit logs
	Expired int                 // pending calls that were ended
	Broken  *action.AuditReport // of the first audit log that does not verify; nil: none
}

// VerifyRows opens restored rows with their keys, verifies the audit log and
// ends pending calls.
type VerifyRows func(ctx context.Context, keys RowKeys, std *command.Streams) (RestoredRows, error)

// RowKeys names the folder of restored rows, with the keys that are not in it.
type RowKeys struct {
	Data, MasterKey, TokenKey string
	OldMasterKeys             []string
}

// openStage opens the staging folder while it is empty and returns a handle, so that
// later writes go to the same folder. The owner of the data folder may have replaced it:
// openStage rejects anything but a folder of this user, symbolic links included.
func openStage(folder *os.Root, name string, uid int) (*os.Root, error) {
	created, err := folder.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	replaced := fmt.Errorf("%s, which this restore created, was replaced; stop the processes that use the data folder and restore again", filepath.Join(folder.Name(), name))
	if owner, ok := created.Sys().(*syscall.Stat_t); !created.IsDir() || ok && int(owner.Uid) != uid {
		return nil, replaced
	}
	held, err := folder.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	if found, err := held.Stat("."); err != nil || !os.SameFile(created, found) {
		return nil, errors.Join(replaced, err, held.Close())
	}
	return held, nil
}

// changeOwner gives files that root restored to the owner of the data folder, who runs
// the gateway and cannot read files of root.
func changeOwner(stage, folder *os.Root) error {
	info, err := folder.Stat(".")
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	if err := deepestFirst(stage, func(name string) error {
		return stage.Lchown(name, int(owner.Uid), int(owner.Gid))
	}); err != nil {
		return fmt.Errorf("changing the owner of the files to that of %s: %w", folder.Name(), err)
	}
	return nil
}

// deepestFirst calls do with every name in the staging folder. A folder comes after its
// contents, because its new owner may change it at once.
func deepestFirst(stage *os.Root, do func(name string) error) error {
	var all []string
	err := fs.WalkDir(stage.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		all = append(all, name)
		return err
	})
	for _, name := range slices.Backward(all) {
		err = errors.Join(err, do(name))
	}
	return err
}

// unstage moves everything into place, the database last, so that a server that starts
// in between finds either nothing or everything. No name can leave the folder.
func unstage(stage, folder *os.Root, base string) error {
	entries, err := fs.ReadDir(stage.FS(), ".")
	if err != nil {
		return err
	}
	names := []string{command.DatabaseFile}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, command.DatabaseFile) {
			names = append([]string{name}, names...)
		}
	}
	for _, name := range names {
		if _, err := folder.Lstat(name); err == nil {
			return fmt.Errorf("%s was created during the restore; stop the process that created it, empty the folder and restore again", filepath.Join(folder.Name(), name))
		}
		if err := folder.Rename(filepath.Join(base, name), name); err != nil {
			return fmt.Errorf("moving %s into place: %w", name, err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

func (r *restored) report(w io.Writer) {
	fmt.Fprintf(w, "Restored %s as of %s, with %[4]s of evidence. The database is intact and the audit log verifies (%[3]s).\n", r.Data, r.TakenAt, command.Plural(r.Links, "link"), command.Plural(r.Files, "file"))
	if r.FilesMissing > 0 {
		fmt.Fprintf(w, "Not in the backup: %s of evidence.\n", command.Plural(r.FilesMissing, "file"))
	}
	if r.Expired > 0 {
		fmt.Fprintf(w, "Calls that were pending at that time expired (%d), because they may have run since.\n", r.Expired)
	}
	fmt.Fprintln(w, "Anything that was revoked, used up or ended after that time is active again: check sessions, API keys, users and grants before agents continue (docs/backup.md).")
}
