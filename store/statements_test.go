package store

import (
	"regexp"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
)

// SQLite looks at the value of a limit when it plans, and plans anew whenever
// one is bound: then nothing is gained by preparing the statement.
func TestPreparedStatementsStayPrepared(t *testing.T) {
	bound := regexp.MustCompile(`(?i)\b(LIMIT|OFFSET)\s+\?\d*\s*(\)|$|;|OFFSET)`)
	if !bound.MatchString("SELECT 1 LIMIT ?1") || bound.MatchString("SELECT 1 LIMIT ?1 + 0") {
		t.Fatal("the test itself is wrong")
	}
	s := &statements{}
	for _, list := range []map[string]*statement{s.ofWriter(), s.ofReaders(bun.NewDB(nil, sqlitedialect.New()))} {
		for text := range list {
			if bound.MatchString(text) {
				t.Errorf("a limit is bound as it is: %s", text)
			}
		}
	}
}
