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
	"sallyport/store/notify"
	"sallyport/store/people"
	"sallyport/store/policy"
	"sallyport/store/requests"
	"sallyport/store/sessions"
)

// Config says where the rows are and how they are kept.
type Config = database.Config

// DefaultOrganization is the organization of a database without others.
const DefaultOrganization = history.DefaultOrganization

// DB is the open database: the rows of all subjects.
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
}

// The rows by subject, under names that can stand side by side in [DB].
type (
	historyStore  = history.Store
	sessionStore  = sessions.Store
	policyStore   = policy.Store
	connectStore  = connect.Store
	peopleStore   = people.Store
	callStore     = calls.Store
	inboundStore  = inbound.Store
	requestStore  = requests.Store
	notifyStore   = notify.Store
	evidenceStore = evidence.Store
)

// Open opens the database and brings its tables up to date. It takes a file for
// this process alone; any number may open the same PostgreSQL.
func Open(ctx context.Context, c Config) (*DB, error) {
	db, err := newDB(database.Open(ctx, c))
	if err != nil {
		return nil, err
	}
	if _, err := db.EnsureOrganization(ctx, DefaultOrganization, "Default"); err != nil {
		return nil, errors.Join(database.OpenError(c, err), db.Close())
	}
	return db, nil
}

// OpenFileReadOnly opens a SQLite file for reading while another process may write to it;
// see [database.OpenFileReadOnly].
func OpenFileReadOnly(path string) (*DB, error) { return newDB(database.OpenFileReadOnly(path)) }

// OpenURLReadOnly opens a PostgreSQL for reading; see [database.OpenURLReadOnly].
func OpenURLReadOnly(ctx context.Context, c Config) (*DB, error) {
	return newDB(database.OpenURLReadOnly(ctx, c))
}

// newDB returns the rows of an opened database.
func newDB(base *database.DB, err error) (*DB, error) {
	if err != nil {
		return nil, err
	}
	p := base.Preparer(context.Background())
	db := &DB{db: base, historyStore: history.New(p)}
	db.sessionStore = sessions.New(p, db.historyStore)
	db.policyStore = policy.New(p, db.historyStore)
	db.connectStore = connect.New(p, db.historyStore, db.policyStore)
	db.peopleStore = people.New(p, db.historyStore, db.connectStore)
	db.callStore = calls.New(p, db.policyStore, db.sessionStore)
	db.inboundStore = inbound.New(p, db.historyStore, db.sessionStore, db.connectStore, db.callStore)
	db.requestStore = requests.New(p, db.historyStore, db.inboundStore)
	db.notifyStore = notify.New(p, db.historyStore, db.sessionStore, db.callStore, db.inboundStore, db.requestStore)
	db.evidenceStore = evidence.New(p, db.callStore)
	if err := p.Err(); err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return db, nil
}

// Close writes what is queued and closes the database. Calls after it fail.
func (db *DB) Close() error { return db.db.Close() }

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.db.Ping(ctx) }

// Flush returns when everything that was queued before is durable.
func (db *DB) Flush(ctx context.Context) error { return db.db.Flush(ctx) }

// Shared reports whether other processes may use the same rows.
func (db *DB) Shared() bool { return db.db.Shared() }

// Now returns the database's time; see [database.DB.Now].
func (db *DB) Now() time.Time { return db.db.Now() }

// SyncClock measures the difference to the database's clock.
func (db *DB) SyncClock(ctx context.Context) error { return db.db.SyncClock(ctx) }

// Hold takes or renews a lease; see [database.DB.Hold].
func (db *DB) Hold(ctx context.Context, name, holder string, ttl time.Duration) (held bool, err error) {
	return db.db.Hold(ctx, name, holder, ttl)
}

// Release gives up a lease.
func (db *DB) Release(ctx context.Context, name, holder string) error {
	return db.db.Release(ctx, name, holder)
}

// PostSignal leaves a signal for the other instances.
func (db *DB) PostSignal(ctx context.Context, s database.Signal) (database.Signal, error) {
	return db.db.PostSignal(ctx, s)
}

// Signals returns the signals since a time, oldest first.
func (db *DB) Signals(ctx context.Context, since time.Time, limit int) ([]database.Signal, error) {
	return db.db.Signals(ctx, since, limit)
}

// SweepSignals removes signals from before a time.
func (db *DB) SweepSignals(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.db.SweepSignals(ctx, before, limit)
}
