package store

import (
	"context"
	"errors"
	"time"

	"sallyport/store/calls"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/evidence"
	"sallyport/store/history"
	"sallyport/store/inbound"
	"sallyport/store/models"
	"sallyport/store/notify"
	"sallyport/store/people"
	"sallyport/store/policy"
	"sallyport/store/requests"
	"sallyport/store/sessions"
	"sallyport/store/workspaces"
)

// Config configures the database.
type Config = database.Config

// DefaultOrganization is the organization of a single-tenant installation.
const DefaultOrganization = history.DefaultOrganization

// DB is the open database with the stores of all subjects.
type DB struct {
	db *database.DB

	*historyStore
	*sessionStore
	*policyStore
	*connectStore
	*peopleStore
	*callStore
	*inboundStore
	*requestStore
	*notifyStore
	*evidenceStore
	*modelStore
	*workspaceStore
}

// The stores have distinct names, so that [DB] can embed all of them.
type (
	historyStore   = history.Store
	sessionStore   = sessions.Store
	policyStore    = policy.Store
	connectStore   = connect.Store
	peopleStore    = people.Store
	callStore      = calls.Store
	inboundStore   = inbound.Store
	requestStore   = requests.Store
	notifyStore    = notify.Store
	evidenceStore  = evidence.Store
	modelStore     = models.Store
	workspaceStore = workspaces.Store
)

// Open opens the database and migrates its tables. It locks a SQLite file for
// this process; any number of processes can share a PostgreSQL database.
func Open(ctx context.Context, c Config) (*DB, error) {
	base, err := database.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	db, err := newDB(ctx, base)
	if err != nil {
		return nil, database.OpenError(c, err)
	}
	if _, err := db.EnsureOrganization(ctx, DefaultOrganization, "Default"); err != nil {
		return nil, errors.Join(database.OpenError(c, err), db.Close())
	}
	return db, nil
}

// OpenFileReadOnly opens a SQLite file for reading while another process may
// write to it; see [database.OpenFileReadOnly].
func OpenFileReadOnly(path string) (*DB, error) {
	base, err := database.OpenFileReadOnly(path)
	if err != nil {
		return nil, err
	}
	return newDB(context.Background(), base)
}

// OpenURLReadOnly opens a PostgreSQL database for reading; see
// [database.OpenURLReadOnly].
func OpenURLReadOnly(ctx context.Context, c Config) (*DB, error) {
	base, err := database.OpenURLReadOnly(ctx, c)
	if err != nil {
		return nil, err
	}
	return newDB(ctx, base)
}

// newDB creates the stores of an open database. If their statements cannot be
// prepared, it closes the database.
func newDB(ctx context.Context, base *database.DB) (*DB, error) {
	p := base.Preparer(ctx)
	db := &DB{db: base, historyStore: history.New(p)}
	db.sessionStore = sessions.New(p, db.historyStore)
	db.policyStore = policy.New(p, db.historyStore)
	db.connectStore = connect.New(p, db.historyStore, db.policyStore)
	db.peopleStore = people.New(p, db.historyStore, db.connectStore)
	db.callStore = calls.New(p, db.policyStore, db.sessionStore)
	db.inboundStore = inbound.New(p, db.historyStore, db.sessionStore, db.connectStore, db.callStore)
	db.workspaceStore = workspaces.New(p, db.historyStore)
	db.requestStore = requests.New(p, db.historyStore, db.inboundStore, db.workspaceStore)
	db.notifyStore = notify.New(p, db.historyStore, db.sessionStore, db.callStore, db.inboundStore, db.requestStore, db.policyStore, db.connectStore)
	db.evidenceStore = evidence.New(p, db.callStore)
	db.modelStore = models.New(p, db.historyStore)
	if err := p.Err(); err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return db, nil
}

// Close writes queued rows and closes the database. Later calls fail.
func (db *DB) Close() error { return db.db.Close() }

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.db.Ping(ctx) }

// Flush returns when all previously queued writes are durable.
func (db *DB) Flush(ctx context.Context) error { return db.db.Flush(ctx) }

// Shared reports whether other processes may use the same database.
func (db *DB) Shared() bool { return db.db.Shared() }

// Now returns the database's time; see [database.DB.Now].
func (db *DB) Now() time.Time { return db.db.Now() }

// SyncClock measures the offset from the database's clock.
func (db *DB) SyncClock(ctx context.Context) error { return db.db.SyncClock(ctx) }

// Hold acquires or renews a lease; see [database.DB.Hold].
func (db *DB) Hold(ctx context.Context, name, holder string, ttl time.Duration) (held bool, err error) {
	return db.db.Hold(ctx, name, holder, ttl)
}

// Release releases a lease.
func (db *DB) Release(ctx context.Context, name, holder string) error {
	return db.db.Release(ctx, name, holder)
}

// PostSignal posts a signal to the other instances.
func (db *DB) PostSignal(ctx context.Context, s database.Signal) (database.Signal, error) {
	return db.db.PostSignal(ctx, s)
}

// Signals returns the signals since a time, oldest first.
func (db *DB) Signals(ctx context.Context, since time.Time, limit int) ([]database.Signal, error) {
	return db.db.Signals(ctx, since, limit)
}

// SweepSignals deletes signals from before a time.
func (db *DB) SweepSignals(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.db.SweepSignals(ctx, before, limit)
}
