package store

import (
	"regexp"
	"testing"

	"sallyport/store/database"
)

// SQLite looks at the value of a limit when it plans, and plans anew whenever
// one is bound: then nothing is gained by preparing the statement.
func TestPreparedStatementsStayPrepared(t *testing.T) {
	bound := regexp.MustCompile(`(?i)\b(LIMIT|OFFSET)\s+\?\d*\s*(\)|$|;|OFFSET)`)
	if !bound.MatchString("SELECT 1 LIMIT ?1") || bound.MatchString("SELECT 1 LIMIT ?1 + 0") {
		t.Fatal("the test itself is wrong")
	}
	db := openAt(t, newPath(t))
	if len(db.db.Statements()) == 0 {
		t.Fatal("no statement was prepared")
	}
	for _, s := range db.db.Statements() {
		if bound.MatchString(s.Text) {
			t.Errorf("a limit is bound as it is: %s", s.Text)
		}
	}
}

// statementOf returns the prepared statement with a text.
func statementOf(t testing.TB, db *DB, text string) *database.Statement {
	t.Helper()
	for _, s := range db.db.Statements() {
		if s.Text == text {
			return s
		}
	}
	t.Fatalf("not prepared: %s", text)
	return nil
}
