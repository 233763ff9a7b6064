// Package storetest is the suite that a store passes on every database: the
// rules of the ledger and of the other rows, told as stories, races included.
package storetest
