// Package database opens the SQLite file or the PostgreSQL database, migrates it,
// and holds what all subjects share: transactions, the group-commit writer,
// prepared statements, the clock, leases, values of columns and pages.
package database
