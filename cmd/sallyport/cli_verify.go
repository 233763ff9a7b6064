package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/sources/platform"
)

type verifyCommand struct {
	inSession
	patience
	Folder string `arg:"" optional:"" default:".sallyport/verification/" help:"Folder with the files; symbolic links are skipped (default: .sallyport/verification/)."`
	Upload string `env:"-" placeholder:"ID" help:"ID of an interrupted upload to continue (default: a new upload)."`
}

// Run sends every file, and then has the gateway seal what it got.
func (c *verifyCommand) Run(ctx context.Context, std *stdio) error {
	if c.Upload != "" && !action.ValidUploadID(c.Upload) {
		return wrongUse("--upload takes the id that verify printed when it was cut off, a UUID in lower case; leave it out for a new upload")
	}
	root, err := os.OpenRoot(c.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s; put the files there that show your work, such as screenshots and test reports", c.Folder)
	}
	if info, statErr := os.Stat(c.Folder); statErr == nil && !info.IsDir() {
		return wrongUse("%s is a file; put what shows your work into a folder, and name that", visible(c.Folder))
	}
	if err != nil {
		return err
	}
	defer root.Close()
	list, err := evidenceIn(root, std)
	if err != nil {
		return err
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	if c.Upload == "" {
		c.Upload = uuid.NewString()
	}
	for i := range list {
		if err := a.sendFile(ctx, root, c.Upload, &list[i]); err != nil {
			return fmt.Errorf("%s: %w%s", visible(list[i].Name), err, c.onward(err))
		}
	}
	w := &waiter{agentClient: a, std: std, until: time.Now().Add(c.Wait), whole: c.JSON}
	params, err := json.Marshal(map[string]string{"folder": filepath.ToSlash(c.Folder), "upload": c.Upload})
	if err != nil {
		return err
	}
	return w.call(ctx, api.NewCall{
		Source: action.Platform, Action: platform.VerifyTool, Params: params,
		IdempotencyKey: fmt.Sprintf("verify-%s-%.4x", c.Upload, sha256.Sum256([]byte(c.Folder))),
	})
}

// onward says how to go on after a file could not be sent: with the same upload
// where it still takes files, with a new one where it does not, and not at all
// where the file itself is refused.
func (c *verifyCommand) onward(err error) string {
	p := new(problem)
	switch {
	case !errors.As(err, &p), p.Status >= http.StatusInternalServerError, p.Status == http.StatusTooManyRequests, p.Code == "body_broken":
		return " (go on with: --upload " + c.Upload + ")"
	case p.Status == http.StatusConflict:
		return " (run verify again without --upload: that makes a new upload)"
	}
	return ""
}

// maxWrong is how many files are told of that the gateway would refuse.
const maxWrong = 10

// evidenceIn lists the regular files of a folder. What the gateway would refuse
// is refused before anything is sent.
func evidenceIn(root *os.Root, std *stdio) (list []action.UploadFile, err error) {
	var bytes int64
	var wrong []string
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			fmt.Fprintf(std.Err, "left out %s: it is no regular file\n", visible(name))
			return nil
		}
		if err := action.CheckUploadName(name); err != nil {
			wrong = append(wrong, visible(name)+": "+action.Public(err).Message)
			return nil
		}
		f, err := measured(root, name)
		if err != nil {
			return err
		}
		if err := f.Check(); err != nil {
			wrong = append(wrong, visible(name)+": "+action.Public(err).Message)
			return nil
		}
		list, bytes = append(list, f), bytes+f.Size
		if len(list) > action.MaxUploadFiles || bytes > action.MaxUploadBytes {
			return fmt.Errorf("there are over %d files or %d MiB; leave only what shows your work", action.MaxUploadFiles, action.MaxUploadBytes>>20)
		}
		return nil
	})
	if n := len(wrong); err == nil && n > 0 {
		if n > maxWrong {
			wrong = append(wrong[:maxWrong], fmt.Sprintf("and %d more", n-maxWrong))
		}
		return nil, fmt.Errorf("%s would be refused, so nothing was sent:\n%s", number(n, "file"), strings.Join(wrong, "\n"))
	}
	if err == nil && len(list) == 0 {
		err = errors.New("the folder has no files; put some there that show your work, such as screenshots and test reports")
	}
	return list, err
}

// measured reads a file once, for its size and digest.
func measured(root *os.Root, name string) (f action.UploadFile, err error) {
	in, err := root.Open(name)
	if err != nil {
		return f, err
	}
	defer in.Close()
	digest := sha256.New()
	size, err := io.Copy(digest, io.LimitReader(in, action.MaxUploadFile+1))
	if err != nil {
		return f, err
	}
	return action.UploadFile{Name: name, Size: size, SHA256: hex.EncodeToString(digest.Sum(nil))}, nil
}

// sendFile sends one file, again while the gateway does not answer, or cannot take
// it for now.
func (a *agentClient) sendFile(ctx context.Context, root *os.Root, upload string, f *action.UploadFile) error {
	for try := 1; ; try++ {
		err := a.sendOnce(ctx, root, upload, f, sendSilence)
		pause := a.pause
		var p *problem
		switch {
		case errors.As(err, &p) && p.Status == http.StatusTooManyRequests:
			pause *= 10 // an attempt that was cut off lasts a minute there
		case p != nil && slices.Contains([]string{"files_unavailable", "body_broken"}, p.Code), errors.As(err, new(unanswered)):
		default:
			return err
		}
		if ctx.Err() != nil || try > retries {
			return err
		}
		if err := a.backOff(ctx, err, try, pause); err != nil {
			return err
		}
	}
}

// sendSilence is how long nothing of a file may go out, and then no answer come.
const sendSilence = 2 * time.Minute

// sendOnce takes as long as the line does, as long as bytes go out.
func (a *agentClient) sendOnce(outer context.Context, root *os.Root, upload string, f *action.UploadFile, silence time.Duration) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	timer := time.AfterFunc(silence, func() { stop(fmt.Errorf("nothing moved for %s", silence)) })
	defer timer.Stop()
	patient := *a.HTTP
	patient.Timeout = 0
	in, err := root.Open(f.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	request, err := a.NewRequest(ctx, &api.PutEvidence.Operation, api.EvidenceFile{
		InUpload: api.InUpload{InSession: a.in(), Upload: upload, Name: f.Name}, SHA256: f.SHA256,
	})
	if err != nil {
		return err
	}
	request.ContentLength = f.Size
	request.Body = http.NoBody
	if f.Size > 0 {
		request.Body = io.NopCloser(io.TeeReader(io.LimitReader(in, f.Size), sink(func() { timer.Reset(silence) })))
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	_, _, err = (&agentClient{client: &client{Client: apiclient.Client{Base: a.Base, Key: a.Key, HTTP: &patient}}}).answer(ctx, request)
	if stalled := context.Cause(ctx); stalled != nil && outer.Err() == nil {
		return unanswered{fmt.Errorf("the gateway at %s takes no bytes: %w", a.Base, stalled)}
	}
	return err
}
