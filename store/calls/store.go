// Package calls holds the rows of invocations from their beginning to their
// end, and what becomes of sessions that have calls.
package calls

import (
	"sallyport/store/database"
	"sallyport/store/policy"
	"sallyport/store/sessions"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db       *database.DB
	policy   *policy.Store
	sessions *sessions.Store

	ScanLimit int // how many calls one search looks at at most
	executing executingCache

	stmts struct {
		check       *database.Statement
		insert      *database.Statement
		queue       *database.Statement
		ended       *database.Statement
		finish      *database.Statement
		delivered   *database.Statement
		loadInTx    *database.Statement
		useGrant    *database.Statement
		approve     *database.Statement
		deny        *database.Statement
		claim       *database.Statement
		load        *database.Statement
		returning   *database.Statement
		insertLive  *database.Statement
		endedLive   *database.Statement
		lockSession *database.Statement
	}
}

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer, policyRows *policy.Store, sessionsRows *sessions.Store) *Store {
	s := &Store{db: p.DB, policy: policyRows, sessions: sessionsRows, ScanLimit: MaxScanned}
	s.stmts.check = p.Write(CheckSQL)
	s.stmts.insert = p.Write(InsertSQL)
	s.stmts.queue = p.Write(QueueSQL)
	s.stmts.ended = p.Write(EndedSQL)
	s.stmts.finish = p.Write(FinishSQL(p.DB.Shared()))
	s.stmts.delivered = p.Write(DeliveredSQL)
	s.stmts.loadInTx = p.Write(LoadSQL)
	s.stmts.useGrant = p.Write(policy.UseGrantSQL)
	s.stmts.approve = p.Write(ApproveSQL)
	s.stmts.deny = p.Write(DenySQL(p.DB.Shared()))
	s.stmts.claim = p.Write(ClaimSQL)
	s.stmts.load = p.Read(LoadSQL)
	s.stmts.returning = p.Read(returningSQL)
	s.stmts.insertLive = p.WriteShared(InsertLiveSQL)
	s.stmts.endedLive = p.WriteShared(EndedLiveSQL)
	s.stmts.lockSession = p.WriteShared(sessions.LockSessionSQL)
	return s
}
