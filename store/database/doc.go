// Package database opens the SQLite file or the PostgreSQL database, migrates it
// and provides what all packages of the store share: transactions, the
// group-commit writer, prepared statements, the clock, leases, column types and
// pagination.
package database
