package dashboard_test

import (
	"context"
	"io"
	"strings"

	"sallyport/action"
)

// uploadID is of the upload that there is.
const uploadID = "0199a3c6-9999-7000-8000-0123456789ab"

// evidenceRows are what sessions sent, and what they asked people for.
type evidenceRows struct {
	uploads []action.Upload
	bytes   map[string]string
	env     []action.EnvRequest
	values  map[string][]byte // sealed, by request
	takenBy map[string]string
}

func (m *memory) uploadLocked(ref action.UploadRef) (*action.Upload, error) {
	return find("upload", m.uploads, func(u action.Upload) bool {
		return u.Organization == ref.Organization && u.Session == ref.Session && u.ID == ref.ID
	})
}

func (m *memory) ReserveFile(_ context.Context, ref action.UploadRef, f action.UploadFile) (bool, error) {
	if err := f.Check(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.uploadLocked(ref)
	if err != nil {
		m.uploads = append(m.uploads, action.Upload{ID: ref.ID, Organization: ref.Organization, Session: ref.Session, CreatedAt: m.now()})
		u = &m.uploads[len(m.uploads)-1]
	}
	for _, old := range u.Files {
		if old.Name == f.Name && old.SHA256 != f.SHA256 {
			return false, action.Errorf(action.ErrConflict, "other_bytes", "Other bytes have that name.")
		} else if old.Name == f.Name {
			return old.StoredAt != nil, nil
		}
	}
	u.Files = append(u.Files, f)
	return false, nil
}

func (m *memory) FileStored(_ context.Context, ref action.UploadRef, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.uploadLocked(ref)
	if err != nil {
		return err
	}
	now := m.now()
	for i := range u.Files {
		if u.Files[i].Name == name {
			u.Files[i].StoredAt = &now
		}
	}
	return nil
}

func (m *memory) Upload(_ context.Context, ref action.UploadRef) (action.Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.uploadLocked(ref)
	if err != nil {
		return action.Upload{}, err
	}
	return *u, nil
}

func (m *memory) ListUploads(_ context.Context, organization, session string, limit int, cursor string) (action.Page[action.Upload], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.uploads, func(u action.Upload) bool { return u.Organization == organization && u.Session == session }), limit, cursor), nil
}

func (m *memory) Put(_ context.Context, key string, r io.Reader, size int64, _ string) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(b)) != size {
		return action.Errorf(action.ErrInvalid, "wrong_size", "Send the bytes that were announced.")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes[key] = string(b)
	return nil
}

func (m *memory) Get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.bytes[key]
	if !ok {
		return nil, 0, missing("file")
	}
	return io.NopCloser(strings.NewReader(b)), int64(len(b)), nil
}

func (m *memory) envLocked(organization, id string) (*action.EnvRequest, error) {
	return find("env_request", m.env, func(r action.EnvRequest) bool { return r.Organization == organization && r.ID == id })
}

func (m *memory) EnvRequest(_ context.Context, organization, id string) (action.EnvRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.envLocked(organization, id)
	if err != nil {
		return action.EnvRequest{}, err
	}
	return *r, nil
}

func (m *memory) ListEnvRequests(_ context.Context, f action.EnvFilter) (action.Page[action.EnvRequest], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.env, func(r action.EnvRequest) bool {
		return r.Organization == f.Organization && (f.Session == "" || r.Session == f.Session) && (f.Status == "" || r.Status == f.Status)
	}), f.Limit, f.Cursor), nil
}

func (m *memory) DecideEnv(_ context.Context, v action.EnvVerdict) (action.EnvRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.envLocked(v.Organization, v.ID)
	switch {
	case err != nil:
		return action.EnvRequest{}, err
	case r.Status != action.EnvPending:
		return action.EnvRequest{}, action.Errorf(action.ErrConflict, "already_decided", "This request was already %s.", r.Status)
	}
	now := m.now()
	r.Status, r.DecidedBy, r.DecidedAt, r.Note = action.EnvRefused, v.By, &now, v.Note
	if v.Sealed != nil {
		r.Status = action.EnvAnswered
		if m.values == nil {
			m.values, m.takenBy = map[string][]byte{}, map[string]string{}
		}
		m.values[v.ID] = v.Sealed
	}
	m.recordLocked(v.Organization, action.EventEnv, v.ID, v.By)
	return *r, nil
}

func (m *memory) TakeEnv(_ context.Context, organization, session, key string) (list []action.SealedEnv, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.env {
		r := &m.env[i]
		if r.Organization != organization || r.Session != session {
			continue
		}
		if r.Status == action.EnvAnswered {
			now := m.now()
			r.Status, r.TakenAt, m.takenBy[r.ID] = action.EnvTaken, &now, key
		}
		if r.Status == action.EnvTaken && m.takenBy[r.ID] == key {
			list = append(list, action.SealedEnv{ID: r.ID, Sealed: m.values[r.ID]})
		}
	}
	return list, nil
}
