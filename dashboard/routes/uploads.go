package routes

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

const sendWithin = 5 * time.Minute // to send one file to a browser

func uploadRef(in *api.InUpload, p *dashboard.Principal) action.UploadRef {
	return action.UploadRef{Organization: p.Organization, Session: in.Session, ID: in.Upload}
}

// fileUpload is the request body of a file upload.
type fileUpload struct {
	api.EvidenceFile

	length int64 // -1 if unknown
	bytes  *pacedReader
}

// Resolve implements [huma.Resolver]. It leaves the body for the handler to
// stream.
func (in *fileUpload) Resolve(hc huma.Context) []error {
	r, w := humago.Unwrap(hc)
	in.length = r.ContentLength
	in.bytes = &pacedReader{
		Reader: r.Body, deadline: func(t time.Time) { dashboard.SetReadDeadline(w, r, t) }, patience: stallAfter,
		remaining: max(minDuration, time.Duration(min(in.length, action.MaxUploadFile))*time.Second/minRate),
	}
	return nil
}

func (s *handlers) evidenceRoutes() {
	const file = "/api/v1/sessions/{session}/evidence/{upload}/{name}"
	dashboard.HandleRaw(s.Server, api.PutEvidence, s.receiveFile)
	s.API.OpenAPI().Paths[file].Put.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {}}}
	dashboard.Handle(s.Server, api.ListEvidence, func(ctx context.Context, p *dashboard.Principal, in *api.ListEvidenceInput) (api.List[action.Upload], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.List[action.Upload]{}, err
		}
		page, err := s.Sessions.ListUploads(ctx, p.Organization, in.Session, in.Limit, in.Cursor)
		return view.PageOf(page, identity), err
	})
	dashboard.Handle(s.Server, api.GetEvidence, func(ctx context.Context, p *dashboard.Principal, in *api.GetEvidenceInput) (action.Upload, error) {
		return s.Sessions.Upload(ctx, action.UploadRef{Organization: p.Organization, Session: in.Session, ID: in.Upload})
	})
	dashboard.HandleStream(s.Server, api.GetEvidenceFile, s.sendEvidence)
	s.API.OpenAPI().Paths[file].Get.Responses["200"] = &huma.Response{
		Description: "The content", Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}
}

// receiveFile stores a file: it reserves the row, writes the bytes, then marks them
// as stored.
func (s *handlers) receiveFile(ctx context.Context, p *dashboard.Principal, in *fileUpload) (action.UploadFile, error) {
	defer func() {
		if !in.bytes.done { // bounds how long net/http reads the rest of the body
			in.bytes.deadline(time.Now().Add(discardWithin))
		}
	}()
	size := in.length
	if size < 0 {
		return action.UploadFile{}, dashboard.Invalid("/Content-Length", "Send the size of the file in Content-Length, without chunked encoding.")
	}
	f := action.UploadFile{Name: in.Name, Size: size, SHA256: in.SHA256, Type: action.GuessType(in.Name)}
	key := fileKey(uploadRef(&in.InUpload, p), &f)
	end, err := s.uploads.begin(uploadRef(&in.InUpload, p), key)
	if err != nil {
		return f, err
	}
	defer end()
	stored, err := s.Sessions.ReserveFile(ctx, uploadRef(&in.InUpload, p), f)
	if err != nil || stored {
		return f, err
	}
	if err := s.Files.Put(ctx, key, in.bytes, size, f.SHA256); err != nil {
		if in.bytes.err != nil { // the client failed, not the store
			err = action.NewError("body_broken")
		}
		return f, err
	}
	return f, s.Sessions.FileStored(ctx, uploadRef(&in.InUpload, p), f.Name)
}

// fileKey returns the key of a file's content. It does not contain the name,
// because not every store accepts every name.
func fileKey(ref action.UploadRef, f *action.UploadFile) string {
	return action.UploadPrefix(ref.Organization, ref.Session, ref.ID) + f.SHA256
}

func (s *handlers) sendEvidence(ctx context.Context, p *dashboard.Principal, in *api.InUpload) (*dashboard.StreamResponse, error) {
	u, err := s.Sessions.Upload(ctx, uploadRef(in, p))
	if err != nil {
		return nil, err
	}
	for _, f := range u.Files {
		if f.Name != in.Name || f.StoredAt == nil {
			continue
		}
		content, size, err := s.Files.Get(ctx, fileKey(uploadRef(in, p), &f))
		if err != nil {
			return nil, err
		}
		return &dashboard.StreamResponse{Body: func(hc huma.Context) {
			defer content.Close()
			_, w := humago.Unwrap(hc)
			setAttachmentHeaders(w.Header(), f.Name, size)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendWithin)) // a client that does not read must not hold the file open
			if _, err := io.Copy(w, content); err != nil {
				panic(http.ErrAbortHandler) // a truncated file must not look complete
			}
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}}, nil
	}
	return nil, action.Errorf(action.ErrNotFound, "file_not_found", "This upload has no such file; list its files.")
}

// setAttachmentHeaders sets headers that make browsers only save a file.
func setAttachmentHeaders(h http.Header, name string, size int64) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+asciiName(name)+`"; filename*=UTF-8''`+encodeFileName(name))
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Download-Options", "noopen")
}

// asciiName returns the last part of a name in ASCII, for old clients.
func asciiName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, baseName(name))
}

// encodeFileName encodes the last part of a name by RFC 8187. Invisible and
// reordering characters become _, because the name stays visible with the file.
func encodeFileName(name string) string {
	var b strings.Builder
	visible := strings.Map(func(r rune) rune {
		if render.IsInvisible(r) {
			return '_'
		}
		return r
	}, baseName(name))
	for _, c := range []byte(visible) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("._-", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)+256, 16)[1:]))
	}
	return b.String()
}

func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

const (
	// maxConcurrentUploads is per session.
	maxConcurrentUploads = 4
	// uploadRetryAfter is when to retry while another upload is in progress.
	uploadRetryAfter = 10 * time.Second

	// Slow uploads are accepted within limits: minBytes must arrive within
	// stallAfter, and the whole file within minDuration or at minRate. Only the
	// time spent waiting for the sender counts.
	stallAfter  = time.Minute
	minBytes    = 64 << 10
	minDuration = 10 * time.Minute
	minRate     = 8 << 10 // a second

	// discardWithin bounds reading the unused rest of a body.
	discardWithin = 5 * time.Second
)

// uploadLimiter tracks the uploads to this instance. The store counts a file once
// against the limits, so only one request may send it at a time.
type uploadLimiter struct {
	mu         sync.Mutex
	files      map[string]bool // by storage key
	perSession map[string]int  // by session
}

// begin reserves a slot for a file until end is called.
func (s *uploadLimiter) begin(ref action.UploadRef, key string) (end func(), err error) {
	session := ref.Organization + "/" + ref.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.files[key]:
		return nil, action.NewError("file_underway").WithRetry(uploadRetryAfter)
	case s.perSession[session] >= maxConcurrentUploads:
		return nil, action.NewError("too_many_files_underway").WithRetry(uploadRetryAfter)
	}
	s.files[key] = true
	s.perSession[session]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.files, key)
		if s.perSession[session]--; s.perSession[session] == 0 {
			delete(s.perSession, session)
		}
	}, nil
}

// pacedReader reads a body with a minimum rate. Between two reads the connection has
// no deadline: the time of the store does not count, and a deadline that expires
// after the last byte would end this and all later requests of the connection.
type pacedReader struct {
	io.Reader
	deadline  func(time.Time)
	patience  time.Duration // for the next minBytes
	remaining time.Duration // for the whole body
	received  int
	err       error // a read error of the sender
	done      bool  // no more reads
}

// Read implements [io.Reader].
func (s *pacedReader) Read(p []byte) (int, error) {
	if s.done {
		return 0, cmp.Or(s.err, io.EOF)
	}
	began := time.Now()
	s.deadline(began.Add(min(s.patience, s.remaining)))
	n, err := s.Reader.Read(p)
	took := time.Since(began)
	s.patience, s.remaining = s.patience-took, s.remaining-took
	if s.received += n; s.received >= minBytes {
		s.received, s.patience = 0, stallAfter
	}
	switch {
	case errors.Is(err, io.EOF):
		s.done = true
	case err != nil:
		s.done, s.err = true, err
		return n, err // the deadline stays, so that nothing waits for the rest
	}
	s.deadline(time.Time{})
	return n, err
}
