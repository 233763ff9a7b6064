// Package vault seals what must be kept but not read: full params and results
// of invocations, secrets of organizations. It also makes the keyed hashes by
// which redacted values can be told apart without being known.
//
// It promises that a sealed value opens only at the place it was sealed for
// (organization, table, row and column), only with the master key that sealed
// it, and only unaltered; and that neither sealed bytes nor hashes tell
// anything of what is in them but its length.
//
// Several master keys can open while the first one seals, so that a key can
// be replaced while the vault is in use: put the new one first, seal everything
// again, drop the old one. Hashes do not follow: their key has to be kept. An old
// key that something may still need can be shelved, which hinders no other
// replacement.
//
// It does not stop a writer of the database from putting an older value of a
// place back into the same place.
package vault
